/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between host memory and the device, and between devices. Sizes and pitches are in bytes. Addresses are those
 * of the application; memory/range.h decides which side one belongs to. Results are CUDA's codes. Any thread may call
 * these functions: an operation goes to the stream that it names.
 */
#ifndef VCUDA_COPY_H
#define VCUDA_COPY_H

#include "memory/range.h"

/* A copy's two ends. */
struct libcuda_copy_end {
	uint64_t address;
	enum libcuda_side side;
	uint64_t pitch, slice; /* bytes from row to row, from slice to slice */
};

/* A box of `depth` slices of `height` rows of `width` bytes. */
struct libcuda_copy_box {
	struct libcuda_copy_end dst, src;
	size_t width, height, depth;
};

/*
 * Copies `bytes` on a stream as the application names it. Returns when the application may use its host memory again;
 * with `async` that is at once for pinned memory.
 */
CUresult libcuda_copy(struct libcuda_copy_end dst, struct libcuda_copy_end src, size_t bytes, CUstream stream,
		      bool async);

/* Checks the operands of such a copy. CUDA_SUCCESS also for an address that only the worker can check. */
CUresult libcuda_copy_check(struct libcuda_copy_end dst, struct libcuda_copy_end src, size_t bytes);

/* libcuda_copy() of a box. */
CUresult libcuda_copy_box(const struct libcuda_copy_box *box, CUstream stream, bool async);

/* The three-dimensional copy that a two-dimensional one is. */
CUDA_MEMCPY3D libcuda_copy_box_of(const CUDA_MEMCPY2D *copy);

/* A copy as the application describes it; `stream` as it names it. */
CUresult libcuda_copy_2d(const CUDA_MEMCPY2D *copy, CUstream stream, bool async);
CUresult libcuda_copy_3d(const CUDA_MEMCPY3D *copy, CUstream stream, bool async);

#endif
