/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays as the guest knows them: what they were made as, so that copies and queries need not ask; boxes of them and of
 * memory. */
#ifndef VCUDA_ARRAY_H
#define VCUDA_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

#include "copy/operand.h"
#include "protocol/types.h"

struct vcuda_object;

/* The record of a live array, or NULL. */
struct vcuda_object *vcuda_array_find(CUarray array);

/* Bytes of a texel; 0: no such format. */
size_t vcuda_texel_bytes(CUarray_format format, unsigned int channels);

/* One side of CUDA_MEMCPY3D, which names them apart. */
struct vcuda_box_side {
	vcuda_box_end end; /* address: of the first byte of memory; then x, y and z are 0 */
	CUmemorytype type;
	CUarray array; /* NULL: memory */
	enum vcuda_place place;
	bool unsure;     /* the worker's result is waited for */
	uint64_t extent; /* of memory: bytes from the first to the last */
};

struct vcuda_box_copy {
	vcuda_box box;
	struct vcuda_box_side to, from;
};

bool vcuda_box_is_empty(const vcuda_box *box);

/* What a copy touches, and whether it may: CUDA's errors. The sides of an empty box are not looked at. */
CUresult vcuda_box_copy_check(const CUDA_MEMCPY3D *description, struct vcuda_box_copy *copy);

/* A copy of which at least one end is an array. */
CUresult vcuda_copy_array(const CUDA_MEMCPY3D *copy, CUstream stream, bool async);

#endif
