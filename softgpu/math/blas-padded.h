/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of CBLAS that keep reads beyond vectors harmless. OpenBLAS 0.3.21, as GCC 12 compiles it, reads one element
 * more than complex vectors have, an increment beyond either end, and ignores its value: dot, gemv, hemv. Its symv for
 * older processors does so with real ones; there it also reads a few bytes behind matrices, where device memory
 * has a gap.
 */
#ifndef VCUDA_CPU_BLAS_PADDED_H
#define VCUDA_CPU_BLAS_PADDED_H

#include "math/blas-call.h"

/*
 * Calls `function` for `work`, which has `operands` operands. A vector that has unreadable memory within an increment
 * of its ends is copied for the call, unless it is real and there is no matrix. The results do not depend on that. Any
 * thread, without the lock. CUDA_ERROR_OUT_OF_MEMORY: nothing was computed.
 */
CUresult softgpu_blas_call_padded(const struct softgpu_blas_call *call, void (*function)(void),
				  const struct softgpu_blas_work *work, unsigned int operands);

#endif
