/* SPDX-License-Identifier: Apache-2.0 */
/* The options that a program gives the compiler or the linker, and what it wants to be told. */
#ifndef VCUDA_JIT_H
#define VCUDA_JIT_H

#include <stddef.h>

#include "types.h"

/* As the program gave them: values are numbers, addresses, or places for an answer. */
struct vcuda_jit {
	unsigned int count;
	const CUjit_option *options;
	void **values;
};

/*
 * Checks the options and empties what the program may read if nothing is loaded. CUDA_ERROR_INVALID_VALUE if they are
 * wrong, CUDA_ERROR_NOT_SUPPORTED, with a line in the log, if one would change the program's results and is not there.
 */
CUresult vcuda_jit_start(const struct vcuda_jit *jit);

/* Hands them to the worker, before the image is loaded. */
CUresult vcuda_jit_send(const struct vcuda_jit *jit, vcuda_image image);

/* After it: fills the program's logs, which end with a NUL, and the time that the compiler took. */
void vcuda_jit_finish(const struct vcuda_jit *jit, vcuda_image image, float ms);

/* Puts a line of this library into the program's log of errors. */
void vcuda_jit_error(const struct vcuda_jit *jit, const char *line);

#endif
