/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exports of libvcuda-sass.so: from machine code to PTX. The software GPU opens the library where a program has
 * nothing that it could run without.
 */
#ifndef VCUDA_SASS_H
#define VCUDA_SASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/sass-callee.h"

#define VCUDA_SASS_LIBRARY "libvcuda-sass.so"
#define VCUDA_SASS_FUNCTION "vcuda_sass_to_ptx"
#define VCUDA_SASS_ASK "vcuda_sass_ask_for_memory"

/*
 * Before the statements of an instruction is a line of this, its offset in hexadecimal digits and, of a function of
 * another section that the kernel calls, a blank and the function's name.
 */
#define VCUDA_SASS_MARK "\t// "

/* In the place of a kernel's name: a text without code, in which each kernel is refused. */
#define VCUDA_SASS_OUTLINE ""

/* In the place of a kernel's name may be that of a callee's entry, VCUDA_SASS_CALLEE. */

/*
 * The text of a cubin, which ends with a NUL and is freed with free(). `kernel`: NULL: all of the cubin;
 * VCUDA_SASS_OUTLINE: variables with their values, and kernels without their code; else one kernel, and variables
 * without values. Variables are the same in each, in the same order, and a kernel may need more behind these. 0;
 * -ENOTSUP: code for this architecture is not taken; -ENOSYS: the one kernel has something that is not translated,
 * which `error` names; -EINVAL: the cubin is malformed; -ENOMEM. `error`, of `room` bytes, says why. Thread-safe.
 */
typedef int vcuda_sass_to_ptx_function(const void *cubin, size_t bytes, const char *kernel, char **text, size_t *length,
				       char *error, size_t room);
vcuda_sass_to_ptx_function vcuda_sass_to_ptx;

/*
 * `room` is asked before each allocation whether there is room for so many bytes; false makes the call fail with
 * -ENOMEM. Before any other call.
 */
typedef void vcuda_sass_ask_function(bool (*room)(uint64_t bytes));
vcuda_sass_ask_function vcuda_sass_ask_for_memory;

/* Whether code for sm_N is taken. Code for exactly one architecture, such as sm_90a, is not. */
static inline bool vcuda_sass_takes(unsigned int architecture)
{
	return architecture == 75 || architecture == 80 || architecture == 86 || architecture == 89 ||
	       architecture == 90;
}

#endif
