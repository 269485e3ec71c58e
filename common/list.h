/* SPDX-License-Identifier: Apache-2.0 */
/* Circular doubly linked lists whose nodes are members of the objects; an empty list's head points to itself. */
#ifndef VCUDA_LIST_H
#define VCUDA_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct vcuda_list {
	struct vcuda_list *prev, *next;
};

#define VCUDA_LIST_INIT(name)                                                                                          \
	{                                                                                                              \
		&(name), &(name)                                                                                       \
	}

/* The structure around `pointer`, which points to its `member`. */
#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* The first object of a list that is not empty. */
#define vcuda_list_first(list, type, member) container_of((list)->next, type, member)

#define vcuda_list_for_each(node, list) for (struct vcuda_list *node = (list)->next; node != (list); node = node->next)

/* Goes through the objects; the body may remove and free `entry`. `after` is a second pointer of the same type. */
#define vcuda_list_for_each_safe(entry, after, list, type, member)                                                     \
	for (entry = container_of((list)->next, type, member), after = container_of(entry->member.next, type, member); \
	     &entry->member != (list); entry = after, after = container_of(entry->member.next, type, member))

static inline void vcuda_list_init(struct vcuda_list *list)
{
	list->prev = list;
	list->next = list;
}

static inline bool vcuda_list_empty(const struct vcuda_list *list)
{
	return list->next == list;
}

/* Adds before `where`: with a list's head, at its end. */
static inline void vcuda_list_add(struct vcuda_list *node, struct vcuda_list *where)
{
	node->prev = where->prev;
	node->next = where;
	where->prev->next = node;
	where->prev = node;
}

/* The node can be removed again, or added. */
static inline void vcuda_list_remove(struct vcuda_list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	vcuda_list_init(node);
}

#endif
