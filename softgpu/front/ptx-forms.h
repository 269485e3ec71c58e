/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which names of instructions are PTX: opcode, modifiers and types, and the PTX version and target that each needs.
 * ptx-forms.table is the data. It has all instructions of PTX, also those that the compiler does not implement; what the
 * compiler implements says ptx-opcodes.c. The functions are thread-safe: they read constant tables only.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_FORMS_H
#define VCUDA_BACKEND_CPU_PTX_FORMS_H

#include <stdbool.h>
#include <stddef.h>

/* The .version and .target of a text: 90 for 9.0 and for sm_90. specific: sm_90a or sm_100f. 0: not said. */
struct ptx_dialect {
	unsigned version, target;
	bool specific;
};

/* Of `version` 90: the directive `9.0`. 0: not a version. */
unsigned ptx_dialect_version(double number);
/* Reads the name of a target into a dialect. False: it is not sm_ and a number. */
bool ptx_dialect_target(struct ptx_dialect *dialect, const char *text, size_t length);

/*
 * False: the name is not PTX, or not for this dialect. `why`, of `room` bytes, then says so as ptxas does. True: *operands
 * is what the operands are, as in ptx-opcodes.h, or NULL: the table does not say it.
 */
bool ptx_form_legal(const char *name, size_t length, const struct ptx_dialect *dialect, const char **operands, char *why,
		    size_t room);

#endif
