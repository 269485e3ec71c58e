/* SPDX-License-Identifier: Apache-2.0 */
/* The part of VCUDA_STATS about the software GPU's compiler. */
#ifndef VCUDA_TRACE_KERNELS_H
#define VCUDA_TRACE_KERNELS_H

#include <stdint.h>
#include <stdio.h>

/* Asks the worker: rows of protocol/compile-rows.h, for free(); NULL: there are none. One thread at a time. */
uint64_t *libcuda_trace_kernels_ask(unsigned int *count);

/* Nothing without rows, which it sorts. */
void libcuda_trace_kernels_print(FILE *out, uint64_t *rows, unsigned int count);

#endif
