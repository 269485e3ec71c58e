/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tensor map: the place and layout of a tensor in global memory, and the boxes that a kernel's copies take of it.
 * The device layer makes the maps. For programs a map is 128 opaque bytes, and a program may pass any bytes to a
 * kernel. So each map has a seal, its user checks a private copy of it, and no field is trusted. Dimension 0 is the
 * one whose elements are neighbours. The functions have no state, so any thread may call them.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_TENSOR_MAP_H
#define VCUDA_BACKEND_CPU_PTX_TENSOR_MAP_H

#include <stdbool.h>
#include <stdint.h>

#define PTX_TENSOR_RANK 5
#define PTX_TENSOR_ALIGN 16 /* alignment of the tensor and of its strides; a box's width is a multiple */
#define PTX_TENSOR_MAP_ALIGN 64
#define PTX_TENSOR_BOX 256 /* elements in each dimension, at most */
#define PTX_TENSOR_STEP 8
#define PTX_TENSOR_STRIDE (1ull << 40) /* all are less */

/* CUDA's numbers; those of packed numbers of 4 and 6 bits are not among them. */
enum ptx_tensor_type {
	PTX_TENSOR_U8,
	PTX_TENSOR_U16,
	PTX_TENSOR_U32,
	PTX_TENSOR_S32,
	PTX_TENSOR_U64,
	PTX_TENSOR_S64,
	PTX_TENSOR_F16,
	PTX_TENSOR_F32,
	PTX_TENSOR_F64,
	PTX_TENSOR_BF16,
	PTX_TENSOR_F32_FTZ,
	PTX_TENSOR_TF32,
	PTX_TENSOR_TF32_FTZ,
	PTX_TENSOR_TYPE_COUNT
};

/* Bytes of shared memory within which chunks of 16 bytes are permuted; CUDA's numbers. */
enum ptx_tensor_swizzle {
	PTX_TENSOR_SWIZZLE_NONE,
	PTX_TENSOR_SWIZZLE_32,
	PTX_TENSOR_SWIZZLE_64,
	PTX_TENSOR_SWIZZLE_128,
	PTX_TENSOR_SWIZZLE_COUNT
};

/* An H100 fills elements outside of a tensor with this NaN, for every type; fma.oob treats it as absent. */
#define PTX_TENSOR_NAN_16 0x7ff7

#define PTX_TENSOR_PIXELS 1024 /* of a box of images, at most */

struct ptx_tensor_map {
	uint64_t seal; /* of the rest */
	uint64_t address;
	uint64_t strides[PTX_TENSOR_RANK - 1]; /* bytes, of dimension 1 and so on */
	uint32_t last[PTX_TENSOR_RANK];        /* the last element of each dimension: there may be 2^32 */
	uint16_t box[PTX_TENSOR_RANK];         /* elements that it spans */
	uint8_t steps[PTX_TENSOR_RANK];        /* step between copied elements of a dimension; dimension 0: 1 */
	uint8_t rank, type, swizzle;
	bool fills_nan; /* elements outside of the tensor are NaN instead of 0 */
	bool images; /* for im2col: dimension 0 are channels, the last one images, and those between are an image's */
	uint8_t unused;
	uint16_t pixels; /* pixels of an im2col box, which has box[0] channels of each */
	/* limits of base pixels: from the first pixel plus `lower` to the last one plus `upper` */
	int16_t lower[PTX_TENSOR_RANK - 2], upper[PTX_TENSOR_RANK - 2];
	uint8_t reserved[24];
};

_Static_assert(sizeof(struct ptx_tensor_map) == 128, "CUDA says how large they are");

/* Bytes of an element, or 0 if there is no such type. */
unsigned ptx_tensor_element(unsigned type);
bool ptx_tensor_is_float(unsigned type);
/* Bytes of shared memory in which chunks change places; those of one chunk where none do. */
unsigned ptx_tensor_span(unsigned swizzle);

/* The fields of a map that kernels may replace; `which` dimension, from 0. */
enum ptx_tensor_field {
	PTX_TENSOR_FIELD_ADDRESS,
	PTX_TENSOR_FIELD_RANK, /* less 1 */
	PTX_TENSOR_FIELD_BOX,
	PTX_TENSOR_FIELD_DIM,
	PTX_TENSOR_FIELD_STRIDE,
	PTX_TENSOR_FIELD_STEP,
	PTX_TENSOR_FIELD_TYPE,
	PTX_TENSOR_FIELD_SWIZZLE,
	PTX_TENSOR_FIELD_FILL,
	PTX_TENSOR_FIELD_NONE, /* fields of one kind */
};

/* A number that does not fit makes the map invalid. */
void ptx_tensor_map_replace(struct ptx_tensor_map *map, enum ptx_tensor_field field, unsigned which, uint64_t value);

/* Whether copies can be made by it; a map that is being put together has no seal to look at. */
bool ptx_tensor_map_valid(const struct ptx_tensor_map *map);
void ptx_tensor_map_seal(struct ptx_tensor_map *map);
/* Whether the map was sealed and is unchanged since. */
bool ptx_tensor_map_sealed(const struct ptx_tensor_map *map);
/* Whether the map is all zeroes, as kernels start to make a map of their own. */
bool ptx_tensor_map_empty(const struct ptx_tensor_map *map);

#endif
