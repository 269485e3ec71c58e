/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which names of instructions are PTX: opcode, modifiers and types, and the PTX version and target that each needs.
 * ptx-forms.table is the data. The table has all instructions of PTX; ptx-opcodes.c lists those that the compiler
 * implements. The functions are thread-safe: they read constant tables only.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_FORMS_H
#define VCUDA_BACKEND_CPU_PTX_FORMS_H

#include <stdbool.h>
#include <stddef.h>

#include "ptx/ptx-dialect.h"

/* The newest version of PTX whose forms the table has. */
#define PTX_FORMS_VERSION 90

/*
 * False: the name is not PTX, or not for this dialect. Then `why`, of `room` bytes, says so as ptxas does. True:
 * *operands describes the operands as in ptx-opcodes.h, or is NULL if the table has no description.
 */
bool ptx_form_legal(const char *name, size_t length, const struct ptx_dialect *dialect, const char **operands, char *why,
		    size_t room);

#endif
