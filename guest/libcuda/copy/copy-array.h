/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of boxes from or to arrays. */
#ifndef VCUDA_COPY_ARRAY_H
#define VCUDA_COPY_ARRAY_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/range.h"
#include "protocol/types.h"

/* One side of CUDA_MEMCPY3D, which has other names for each side. */
struct libcuda_box_side {
	vcuda_box_end end; /* address: of the first byte of memory; then x, y and z are 0 */
	CUmemorytype type;
	CUarray array; /* NULL: memory */
	enum libcuda_memory_kind kind;
	bool unsure;     /* the worker's result is waited for */
	bool seen;       /* the process can read some of it: synchronous copies into it wait */
	uint64_t extent; /* of memory: bytes from the first to the last */
};

struct libcuda_context;

struct libcuda_box_copy {
	vcuda_box box;
	struct libcuda_box_side to, from;
};

bool libcuda_box_is_empty(const vcuda_box *box);

/* Finds the operands of a copy in a context and checks them. The sides of an empty box are not checked. */
CUresult libcuda_box_copy_check(const struct libcuda_context *context, const CUDA_MEMCPY3D *description,
				struct libcuda_box_copy *copy);

/* A copy of which at least one end is an array. */
CUresult libcuda_copy_array(const CUDA_MEMCPY3D *copy, CUstream stream, bool async);

#endif
