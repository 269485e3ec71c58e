/* SPDX-License-Identifier: Apache-2.0 */
#include "sass/lift.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The opcode's bits of an instruction's first half. */
#define OPCODE 0xfff

/* No instruction is known yet. */
bool sass_lift(const struct sass_cubin *cubin, const struct sass_function *function, struct sass_text *out, char *error,
	       size_t room)
{
	uint64_t first;

	(void)out;
	memcpy(&first, function->code, sizeof(first));
	snprintf(error, room, "0x%x at 0x0 of the machine code for sm_%u", (unsigned int)(first & OPCODE),
		 cubin->architecture);
	return false;
}
