/* SPDX-License-Identifier: Apache-2.0 */
/* The generated calls of CBLAS. */
#ifndef VCUDA_CPU_BLAS_CALL_H
#define VCUDA_CPU_BLAS_CALL_H

#include "blas-abi.h"

struct cpu_blas_call {
	const char *symbol; /* NULL: no such function */
	/* `words` with the scalars' values in them; sizes fit an int. `value`: VCUDA_BLAS_VALUE_WORDS that get the
	 * result. */
	void (*call)(void (*function)(void), const uint64_t *words, void *value);
};

extern const struct cpu_blas_call cpu_blas_calls[VCUDA_BLAS_LIMIT];

#endif
