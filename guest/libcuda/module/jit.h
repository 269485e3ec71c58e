/* SPDX-License-Identifier: Apache-2.0 */
/* The options that a program gives the compiler or the linker, and what it wants to be told. */
#ifndef VCUDA_JIT_H
#define VCUDA_JIT_H

#include <stddef.h>
#include <stdint.h>

#include "protocol/types.h"

/* As the program gave them: values are numbers, addresses, or places for an answer. */
struct libcuda_jit {
	unsigned int count;
	const CUjit_option *options;
	void **values;
};

/*
 * Checks the options and empties what the program may read if nothing is loaded. CUDA_ERROR_INVALID_VALUE if they are
 * wrong, CUDA_ERROR_NOT_SUPPORTED, with a line in the log, if one would change the program's results and is not there.
 */
CUresult libcuda_jit_start(const struct libcuda_jit *jit);

/* Sends the options to the worker, before the image is loaded. */
CUresult libcuda_jit_send(const struct libcuda_jit *jit, vcuda_image image);

/* Writes the options for the worker, in wire form. `options` and `values` have room for all. Returns the count. */
uint32_t libcuda_jit_wire(const struct libcuda_jit *jit, uint32_t *options, uint64_t *values);

/* Reads one of the logs of the object `from` into a staging block, as vcuda_call_vcudaImageLog() does. */
typedef CUresult (*libcuda_jit_log)(void *from, uint32_t option, uint32_t block, size_t bytes, size_t *length);

/*
 * After the compilation: fills the program's logs, which end with a NUL. `answers`, in the options' order, get the
 * bytes in each log and the time that the compiler took; NULL: the work goes on.
 */
void libcuda_jit_finish(const struct libcuda_jit *jit, libcuda_jit_log log, void *from, void **answers, float ms);

/* The time now, to take differences of. */
double libcuda_jit_ms(void);

#endif
