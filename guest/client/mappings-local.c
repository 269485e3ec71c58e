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

void client_local_note_mapping(struct client_local *t, void *address, size_t bytes, enum client_mapping_release pages,
			       const struct client_file_id *file)
{
	struct client_local_mapping *m = malloc(sizeof(*m));

	if (m)
		*m = (struct client_local_mapping){
			.address = (uintptr_t)address, .bytes = bytes, .pages = pages, .file = *file};
	if (!m || !tsearch(m, &t->mappings, compare)) {
		/* One that is not known stays for ever, as far as is known here. */
		free(m);
		t->unfit++;
		return;
	}
	m->is_unfit = pages == CLIENT_MAPPING_KEEP_PAGES ||
		      (pages == CLIENT_MAPPING_RESTORE_PAGES && is_stack(address, bytes));
	t->unfit += m->is_unfit;
}

void client_local_forget_mapping(struct client_local *t, void *address)
{
	struct client_local_mapping key = {.address = (uintptr_t)address}, **found, *m;

	found = tfind(&key, &t->mappings, compare);
	if (!found)
		return;
	m = *found;
	t->unfit -= m->is_unfit;
	tdelete(m, &t->mappings, compare);
	free(m);
}
