/* SPDX-License-Identifier: Apache-2.0 */
/* Doubly linked lists whose links live in the objects themselves. */
#ifndef VCUDA_LIST_H
#define VCUDA_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct vcuda_list {
	struct vcuda_list *next, *previous;
};

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

static inline void vcuda_list_init(struct vcuda_list *list)
{
	list->next = list->previous = list;
}

static inline bool vcuda_list_empty(const struct vcuda_list *list)
{
	return list->next == list;
}

static inline void vcuda_list_add_tail(struct vcuda_list *list, struct vcuda_list *entry)
{
	entry->previous = list->previous;
	entry->next = list;
	list->previous->next = entry;
	list->previous = entry;
}

/* Leaves the entry in a state in which it can be removed again, or added. */
static inline void vcuda_list_remove(struct vcuda_list *entry)
{
	entry->previous->next = entry->next;
	entry->next->previous = entry->previous;
	vcuda_list_init(entry);
}

#define list_first(list, type, member) container_of((list)->next, type, member)

#define list_for_each_entry_safe(entry, after, list, type, member)                                                     \
	for (entry = container_of((list)->next, type, member), after = container_of(entry->member.next, type, member); \
	     &entry->member != (list); entry = after, after = container_of(entry->member.next, type, member))

#endif
