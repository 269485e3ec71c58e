/* SPDX-License-Identifier: Apache-2.0 */
#include "mappings-local.h"

#include <search.h>
#include <stdlib.h>

#include "private-memory.h"
#include "transport-local.h"

static int compare(const void *a, const void *b)
{
	const struct client_local_mapping *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* The restore thread would exchange a stack while its thread runs on it. */
static bool is_stack(const char *address, size_t bytes)
{
	return client_private_memory_is_own_stack(address) || client_private_memory_is_own_stack(address + bytes - 1);
}

static struct client_local_mapping *make(void *address, size_t bytes, enum client_mapping_release pages,
					 const struct client_file_id *file)
{
	struct client_local_mapping *m = malloc(sizeof(*m));

	if (!m)
		return NULL;
	*m = (struct client_local_mapping){
		.address = (uintptr_t)address, .bytes = bytes, .pages = pages, .file = *file};
	m->is_unfit = pages == CLIENT_MAPPING_KEEP_PAGES ||
		      (pages == CLIENT_MAPPING_RESTORE_PAGES && is_stack(address, bytes));
	return m;
}

/* Returns the mapping that is not in the table: an older one of the address, or this one if there is no memory. */
static struct client_local_mapping *insert(struct client_local *t, struct client_local_mapping *m)
{
	struct client_local_mapping **node = m ? tsearch(m, &t->mappings, compare) : NULL, *older = NULL;

	if (!node) {
		/* A mapping that is not in the table counts as unfit for ever. */
		t->unfit++;
		return m;
	}
	if (*node != m) {
		older = *node;
		*node = m;
		t->unfit -= older->is_unfit;
	}
	t->unfit += m->is_unfit;
	return older;
}

void client_local_note_mapping(struct client_local *t, void *address, size_t bytes, enum client_mapping_release pages,
			       const struct client_file_id *file)
{
	struct client_local_mapping *m = make(address, bytes, pages, file);

	pthread_mutex_lock(&t->mappings_lock);
	m = insert(t, m);
	pthread_mutex_unlock(&t->mappings_lock);
	free(m);
}

void client_local_forget_mapping(struct client_local *t, void *address)
{
	struct client_local_mapping key = {.address = (uintptr_t)address}, **found, *m;

	pthread_mutex_lock(&t->mappings_lock);
	found = tfind(&key, &t->mappings, compare);
	m = found ? *found : NULL;
	if (m) {
		t->unfit -= m->is_unfit;
		tdelete(m, &t->mappings, compare);
	}
	pthread_mutex_unlock(&t->mappings_lock);
	free(m);
}
