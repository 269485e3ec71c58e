/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_COPY_H
#define VCUDA_COPY_H

#include "copy/operand.h"

/* A copy's two ends. */
struct vcuda_copy_end {
	uint64_t address;
	enum vcuda_side side;
	uint64_t pitch, slice; /* bytes from row to row, from slice to slice */
};

/* A box of `depth` slices of `height` rows of `width` bytes. */
struct vcuda_copy_box {
	struct vcuda_copy_end dst, src;
	size_t width, height, depth;
};

/*
 * Copies `bytes` on a stream as the application names it. Returns when the application may use its host memory again;
 * with `async` that is at once for pinned memory.
 */
CUresult vcuda_copy(struct vcuda_copy_end dst, struct vcuda_copy_end src, size_t bytes, CUstream stream, bool async);

/* Checks the operands of such a copy. CUDA_SUCCESS also for an address that only the worker can check. */
CUresult vcuda_copy_check(struct vcuda_copy_end dst, struct vcuda_copy_end src, size_t bytes);

/* vcuda_copy() of a box. */
CUresult vcuda_copy_box(const struct vcuda_copy_box *box, CUstream stream, bool async);

/* The three-dimensional copy that a two-dimensional one is. */
CUDA_MEMCPY3D vcuda_copy_box_of(const CUDA_MEMCPY2D *copy);

/* A copy as the application describes it; `stream` as it names it. */
CUresult vcuda_copy_2d(const CUDA_MEMCPY2D *copy, CUstream stream, bool async);
CUresult vcuda_copy_3d(const CUDA_MEMCPY3D *copy, CUstream stream, bool async);

#endif
