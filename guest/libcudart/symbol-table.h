/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols, by their host address in the program. Thread-safe. */
#ifndef CUDART_SYMBOL_TABLE_H
#define CUDART_SYMBOL_TABLE_H

#include <stdatomic.h>

#include "runtime.h"

struct fatbin;
struct reference;

enum symbol_kind {
	SYMBOL_KERNEL,
	SYMBOL_VARIABLE,
	SYMBOL_MANAGED,        /* the host address is that of the pointer through which the host reaches the variable */
	SYMBOL_MANAGED_MEMORY, /* the same variable by its own address */
	SYMBOL_REFERENCE,      /* to a texture or surface */
};

struct symbol {
	const void *host;
	char *name; /* in the device code */
	enum symbol_kind kind;
	struct fatbin *fatbin;
	_Atomic(CUkernel) kernel;    /* kernels: once loaded */
	struct reference *reference; /* references: what they are bound to; old-reference.c */
	struct symbol *next;         /* in the table */
	struct symbol *of_fatbin;    /* the fatbin's next one */
};

/* NULL if there is none. Symbols live until their fatbin is unregistered, when no thread may use them any more. */
struct symbol *symbol_find(const void *host);

/* Adds a symbol, which replaces an older one at the same address. False: no memory. */
bool symbol_insert(struct symbol *symbol);

void symbol_remove(struct symbol *symbol);

#endif
