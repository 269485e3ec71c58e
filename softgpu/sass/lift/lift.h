/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lifts a kernel of machine code to PTX text, instruction by instruction. Each general, uniform and predicate register
 * becomes a PTX register. Convergence barriers have no counterpart: the software GPU finds where lanes meet.
 * Thread-safe.
 */
#ifndef VCUDA_SASS_LIFT_H
#define VCUDA_SASS_LIFT_H

#include <stdbool.h>
#include <stddef.h>

#include "sass/cubin/cubin.h"
#include "sass/cubin/text.h"

/*
 * Adds the kernel's .entry to `out`, after what the entry needs beside the variables of the cubin. 0; -ENOTSUP: an
 * instruction is not supported, `out` is as before, and `error`, of `room` bytes, has the instruction and its offset;
 * -ENOMEM.
 */
int sass_lift(const struct sass_cubin *cubin, const struct sass_function *function, struct sass_text *out, char *error,
	      size_t room);

/* For tests: false: no 64-bit value is made of a pair of registers. Before any other call. */
void sass_lift_join(bool pairs);

#endif
