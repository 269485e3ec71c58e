/* SPDX-License-Identifier: Apache-2.0 */
/* A circular doubly linked list; an empty list's head points to itself. */
#ifndef VCUDA_CPU_LIST_H
#define VCUDA_CPU_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct cpu_list {
	struct cpu_list *prev, *next;
};

#define CPU_LIST_INIT(name)                                                                                            \
	{                                                                                                              \
		&(name), &(name)                                                                                       \
	}

/* The structure around list node `node`. */
#define cpu_list_entry(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

#define cpu_list_for_each(node, list) for (struct cpu_list *node = (list)->next; node != (list); node = node->next)

static inline void cpu_list_init(struct cpu_list *list)
{
	list->prev = list;
	list->next = list;
}

static inline bool cpu_list_empty(const struct cpu_list *list)
{
	return list->next == list;
}

/* Adds before `where`: with a list's head, at its end. */
static inline void cpu_list_add(struct cpu_list *node, struct cpu_list *where)
{
	node->prev = where->prev;
	node->next = where;
	where->prev->next = node;
	where->prev = node;
}

static inline void cpu_list_remove(struct cpu_list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	cpu_list_init(node);
}

#endif
