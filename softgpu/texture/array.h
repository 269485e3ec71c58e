/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays: plain memory, row after row and slice after slice, that only textures, surfaces and copies reach. A plain
 * array is its only level. All calls with the lock held unless they say otherwise.
 */
#ifndef VCUDA_CPU_ARRAY_H
#define VCUDA_CPU_ARRAY_H

#include "device/context.h"
#include "runtime/ptx-tex.h"

struct CUmipmappedArray_st;

struct CUarray_st {
	struct CUmipmappedArray_st *storage;
	struct ptx_level level; /* height and slices are at least 1 */
};

struct CUmipmappedArray_st {
	struct CUctx_st *context;
	struct softgpu_owned owned; /* by the context */
	CUDA_ARRAY3D_DESCRIPTOR descriptor;
	enum ptx_format format;
	unsigned int texel_bytes;
	uint64_t address;
	bool mipmapped; /* made as such: the levels are not destroyed one by one */
	unsigned int count;
	struct CUarray_st levels[PTX_TEXTURE_LEVELS];
};

/* NULL: no array, or not one of this context. */
struct CUarray_st *softgpu_array_find(const struct CUctx_st *context, CUarray handle);
struct CUmipmappedArray_st *softgpu_mipmapped_find(const struct CUctx_st *context, CUmipmappedArray handle);

/* False: no such format. No lock needed. */
bool softgpu_array_format(CUarray_format format, unsigned int channels, enum ptx_format *to, unsigned int *texel_bytes);

#endif
