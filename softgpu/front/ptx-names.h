/* SPDX-License-Identifier: Apache-2.0 */
/* The declarations at a text's module scope, by name: made once for all bodies that are read from the text later. */
#ifndef VCUDA_BACKEND_CPU_PTX_NAMES_H
#define VCUDA_BACKEND_CPU_PTX_NAMES_H

#include "front/ptx-ir.h"

struct ptx_names {
	struct ptx_symbol **symbols; /* in order of declaration */
	uint32_t count, mask;
	uint32_t *first; /* by hash: the number of the last symbol, from 1; 0: there is none */
	uint32_t *next;  /* by symbol: the number of the one before it in the list of its hash */
};

/* Copies the list. False: no memory. */
bool ptx_names_make(struct ptx_arena *arena, struct ptx_names *names, struct ptx_symbol *const *symbols, uint32_t count);
/* The last of the first `visible` symbols that has this name, or NULL. */
struct ptx_symbol *ptx_names_find(const struct ptx_names *names, uint32_t visible, const char *name, size_t length);

#endif
