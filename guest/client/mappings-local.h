/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the memory that a local process shares with its worker (struct client_local), for the restore thread. */
#ifndef VCUDA_CLIENT_MAPPINGS_LOCAL_H
#define VCUDA_CLIENT_MAPPINGS_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "map-scan.h"
#include "transport.h"

struct client_local;

/* A node of the tree client_local.mappings; one an address. */
struct client_local_mapping {
	uintptr_t address;
	size_t bytes;
	enum client_mapping_release pages;
	struct client_file_id file; /* the file that the worker shares, from its begin on */
	bool is_unfit;              /* the process cannot be detached: shared with others, or a stack */
	size_t own;                 /* bytes from the begin that are the process's own memory meanwhile */
	uint64_t offset;            /* the offset of the `own` bytes in the process's file */
};

/*
 * In a section (section.h), where several threads may be. `address`: the begin of the mapping; `file`: that the worker
 * shares, from its begin on, unless the pages are kept. Another mapping of the address is forgotten.
 */
void client_local_note_mapping(struct client_local *t, void *address, size_t bytes, enum client_mapping_release pages,
			       const struct client_file_id *file);
void client_local_forget_mapping(struct client_local *t, void *address);

#endif
