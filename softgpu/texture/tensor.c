/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps, with which kernels copy boxes of tensors. The rules of each argument are in the driver API's
 * documentation of each call.
 */
#include <string.h>

#include "ops.h"

#include "device/context.h"
#include "common/log.h"
#include "runtime/ptx-tensor-map.h"

/* CUDA's enumerations; the values that are missing here are unused. */
enum { TYPES = 16, INTERLEAVE_NONE = 0, INTERLEAVES = 3, SWIZZLES = 7, PROMOTIONS = 4, FILL_NAN = 1, FILLS = 2 };

#define MOST_DIM (1ull << 32)
#define MOST_BOX (228u << 10) /* bytes, of an H100 */

_Static_assert(sizeof(struct ptx_tensor_map) == sizeof(CUtensorMap), "CUDA says how large they are");

static bool below(int value, int end)
{
	return value >= 0 && value < end;
}

/* Valid arguments that this device does not implement. */
static CUresult refuse(const char *what)
{
	vcuda_log("cuTensorMapEncode*(): %s are not supported", what);
	return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult check_enumerations(int type, int interleave, int swizzle, int promotion, int fill)
{
	if (!below(type, TYPES) || !below(interleave, INTERLEAVES) || !below(swizzle, SWIZZLES) ||
	    !below(promotion, PROMOTIONS) || !below(fill, FILLS))
		return CUDA_ERROR_INVALID_VALUE;
	if (type >= PTX_TENSOR_TYPE_COUNT)
		return refuse("packed numbers of 4 or 6 bits");
	if (interleave != INTERLEAVE_NONE)
		return refuse("interleaved layouts");
	if (swizzle >= PTX_TENSOR_SWIZZLE_COUNT)
		return refuse("swizzles of more than 16 bytes at once");
	return CUDA_SUCCESS;
}

/*
 * The fields that all kinds have. Checks only values that would not fit into the map; ptx_tensor_map_valid() checks the
 * rest.
 */
static CUresult describe(struct ptx_tensor_map *map, int type, unsigned rank, const void *address,
			 const cuuint64_t *dim, const cuuint64_t *strides, const cuuint32_t *steps, int swizzle,
			 int fill)
{
	if (!rank || rank > PTX_TENSOR_RANK)
		return CUDA_ERROR_INVALID_VALUE;
	*map = (struct ptx_tensor_map){
		.address = (uintptr_t)address,
		.rank = (uint8_t)rank,
		.type = (uint8_t)type,
		.swizzle = (uint8_t)swizzle,
		.fills_nan = fill == FILL_NAN,
	};
	for (unsigned int d = 0; d < rank; d++) {
		if (!dim[d] || dim[d] > MOST_DIM || steps[d] > PTX_TENSOR_STEP)
			return CUDA_ERROR_INVALID_VALUE;
		map->last[d] = (uint32_t)(dim[d] - 1);
		map->steps[d] = (uint8_t)steps[d];
		if (d)
			map->strides[d - 1] = strides[d - 1];
	}
	return CUDA_SUCCESS;
}

static CUresult give(struct ptx_tensor_map *map, void *to)
{
	if (!ptx_tensor_map_valid(map))
		return CUDA_ERROR_INVALID_VALUE;
	ptx_tensor_map_seal(map);
	memcpy(to, map, sizeof(*map));
	return CUDA_SUCCESS;
}

/*
 * The bytes of a valid map's box as an H100's driver counts them: the remainder of steps at a box's end counts nothing.
 */
static uint64_t box_bytes(const struct ptx_tensor_map *map)
{
	uint64_t bytes = (uint64_t)ptx_tensor_element(map->type) * map->box[0];

	if (map->images)
		return bytes * map->pixels;
	for (unsigned int d = 1; d < map->rank; d++)
		bytes *= map->box[d] > map->steps[d] ? map->box[d] / map->steps[d] : 1u;
	return bytes;
}

static CUresult give_new(struct ptx_tensor_map *map, void *to)
{
	if (!ptx_tensor_map_valid(map) || box_bytes(map) > MOST_BOX)
		return CUDA_ERROR_INVALID_VALUE;
	return give(map, to);
}

CUresult softgpu_cuTensorMapEncodeTiled(void *tensorMap, int tensorDataType, unsigned tensorRank, void *globalAddress,
					void *globalDim, void *globalStrides, void *boxDim, void *elementStrides,
					int interleave, int swizzle, int l2Promotion, int oobFill)
{
	CUresult result = check_enumerations(tensorDataType, interleave, swizzle, l2Promotion, oobFill);
	const cuuint32_t *box = boxDim;
	struct ptx_tensor_map map;

	if (result == CUDA_SUCCESS)
		result = describe(&map, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
				  elementStrides, swizzle, oobFill);
	if (result != CUDA_SUCCESS)
		return result;
	for (unsigned int d = 0; d < tensorRank; d++) {
		if (box[d] > PTX_TENSOR_BOX)
			return CUDA_ERROR_INVALID_VALUE;
		map.box[d] = (uint16_t)box[d];
	}
	return give_new(&map, tensorMap);
}

CUresult softgpu_cuTensorMapEncodeIm2col(void *tensorMap, int tensorDataType, unsigned tensorRank, void *globalAddress,
					 void *globalDim, void *globalStrides, void *pixelBoxLowerCorner,
					 void *pixelBoxUpperCorner, unsigned channelsPerPixel, unsigned pixelsPerColumn,
					 void *elementStrides, int interleave, int swizzle, int l2Promotion,
					 int oobFill)
{
	CUresult result = check_enumerations(tensorDataType, interleave, swizzle, l2Promotion, oobFill);
	const int *lower = pixelBoxLowerCorner, *upper = pixelBoxUpperCorner;
	struct ptx_tensor_map map;

	if (result == CUDA_SUCCESS)
		result = describe(&map, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
				  elementStrides, swizzle, oobFill);
	if (result != CUDA_SUCCESS)
		return result;
	if (channelsPerPixel > PTX_TENSOR_BOX || pixelsPerColumn > PTX_TENSOR_PIXELS)
		return CUDA_ERROR_INVALID_VALUE;
	map.images = true;
	map.box[0] = (uint16_t)channelsPerPixel;
	map.pixels = (uint16_t)pixelsPerColumn;
	for (unsigned int d = 0; d + 2 < tensorRank; d++) {
		map.lower[d] = (int16_t)lower[d];
		map.upper[d] = (int16_t)upper[d];
		if (map.lower[d] != lower[d] || map.upper[d] != upper[d])
			return CUDA_ERROR_INVALID_VALUE;
	}
	return give_new(&map, tensorMap);
}

CUresult softgpu_cuTensorMapReplaceAddress(void *tensorMap, void *globalAddress)
{
	struct ptx_tensor_map map;

	memcpy(&map, tensorMap, sizeof(map));
	if (!ptx_tensor_map_sealed(&map))
		return CUDA_ERROR_INVALID_VALUE;
	map.address = (uintptr_t)globalAddress;
	return give(&map, tensorMap);
}
