/* SPDX-License-Identifier: Apache-2.0 */
/* The generated calls of the host's cuBLAS. */
#ifndef VCUDA_CUDA_BLAS_CALL_H
#define VCUDA_CUDA_BLAS_CALL_H

#include "protocol/blas-abi.h"

/* `device`: scalars and the result are addresses in the words; else the result goes to `value`. Gives cuBLAS's status.
 */
typedef int (*backend_blas_call)(void (*function)(void), void *handle, const uint64_t *w, bool device, bool wide,
				 void *value);

extern const backend_blas_call backend_blas_calls[VCUDA_BLAS_LIMIT];

#endif
