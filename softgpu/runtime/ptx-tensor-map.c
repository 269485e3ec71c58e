/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/ptx-tensor-map.h"

/* A mark that arbitrary memory does not contain by chance. A program may set it: the mark is not a secret. */
#define SEAL 0x7663756461746d61ull

static const struct {
	uint8_t bytes;
	bool is_float;
} types[PTX_TENSOR_TYPE_COUNT] = {
	[PTX_TENSOR_U8] = {1, false},      [PTX_TENSOR_U16] = {2, false},    [PTX_TENSOR_U32] = {4, false},
	[PTX_TENSOR_S32] = {4, false},     [PTX_TENSOR_U64] = {8, false},    [PTX_TENSOR_S64] = {8, false},
	[PTX_TENSOR_F16] = {2, true},      [PTX_TENSOR_BF16] = {2, true},    [PTX_TENSOR_F32] = {4, true},
	[PTX_TENSOR_F32_FTZ] = {4, true},  [PTX_TENSOR_TF32] = {4, true},    [PTX_TENSOR_TF32_FTZ] = {4, true},
	[PTX_TENSOR_F64] = {8, true},
};

unsigned ptx_tensor_element(unsigned type)
{
	return type < PTX_TENSOR_TYPE_COUNT ? types[type].bytes : 0;
}

bool ptx_tensor_is_float(unsigned type)
{
	return type < PTX_TENSOR_TYPE_COUNT && types[type].is_float;
}

unsigned ptx_tensor_span(unsigned swizzle)
{
	return 16u << swizzle;
}

/* Whether the map has base pixels, with limits in the number of bits that CUDA allows. */
static bool has_pixels(const struct ptx_tensor_map *map)
{
	static const int ends[PTX_TENSOR_RANK + 1] = {[3] = 1 << 15, [4] = 1 << 7, [5] = 1 << 4};
	int end = ends[map->rank];

	if (!end || !map->pixels || map->pixels > PTX_TENSOR_PIXELS)
		return false;
	for (unsigned d = 0; d + 2u < map->rank; d++)
		if (map->lower[d] < -end || map->lower[d] >= end || map->upper[d] < -end || map->upper[d] >= end ||
		    (int64_t)map->last[d + 1] + map->upper[d] < map->lower[d])
			return false;
	return true;
}

static bool has_box(const struct ptx_tensor_map *map)
{
	for (unsigned d = 1; d < map->rank; d++)
		if (!map->box[d] || map->box[d] > PTX_TENSOR_BOX)
			return false;
	return true;
}

bool ptx_tensor_map_valid(const struct ptx_tensor_map *map)
{
	unsigned width = map->box[0] * ptx_tensor_element(map->type);

	if (!width || width % PTX_TENSOR_ALIGN || map->box[0] > PTX_TENSOR_BOX || !map->rank ||
	    map->rank > PTX_TENSOR_RANK || map->address % PTX_TENSOR_ALIGN ||
	    map->swizzle >= PTX_TENSOR_SWIZZLE_COUNT || (map->swizzle && width > ptx_tensor_span(map->swizzle)) ||
	    (map->fills_nan && !ptx_tensor_is_float(map->type)))
		return false;
	for (unsigned d = 0; d < map->rank; d++)
		if (!map->steps[d] || map->steps[d] > PTX_TENSOR_STEP)
			return false;
	for (unsigned d = 0; d + 1u < map->rank; d++)
		if (map->strides[d] % PTX_TENSOR_ALIGN || map->strides[d] >= PTX_TENSOR_STRIDE)
			return false;
	return map->images ? has_pixels(map) : has_box(map);
}

static uint64_t seal_of(const struct ptx_tensor_map *map)
{
	uint64_t words[sizeof(*map) / 8], seal = SEAL;

	memcpy(words, map, sizeof(words));
	for (unsigned n = 1; n < sizeof(words) / 8; n++) {
		seal = (seal ^ words[n]) * 0x9e3779b97f4a7c15ull;
		seal ^= seal >> 29;
	}
	return seal;
}

void ptx_tensor_map_seal(struct ptx_tensor_map *map)
{
	map->seal = seal_of(map);
}

bool ptx_tensor_map_sealed(const struct ptx_tensor_map *map)
{
	return map->seal == seal_of(map);
}

bool ptx_tensor_map_empty(const struct ptx_tensor_map *map)
{
	static const struct ptx_tensor_map empty;

	return !memcmp(map, &empty, sizeof(empty));
}

static uint64_t at_most(uint64_t value, uint64_t limit)
{
	return value < limit ? value : limit;
}

void ptx_tensor_map_replace(struct ptx_tensor_map *map, enum ptx_tensor_field field, unsigned which, uint64_t value)
{
	switch (field) {
	case PTX_TENSOR_FIELD_ADDRESS:
		map->address = value;
		break;
	case PTX_TENSOR_FIELD_RANK:
		map->rank = (uint8_t)(at_most(value, PTX_TENSOR_RANK) + 1);
		break;
	case PTX_TENSOR_FIELD_BOX:
		map->box[which] = (uint16_t)at_most(value, UINT16_MAX);
		break;
	case PTX_TENSOR_FIELD_DIM:
		map->last[which] = (uint32_t)(value - 1);
		break;
	case PTX_TENSOR_FIELD_STRIDE:
		map->strides[which] = value;
		break;
	case PTX_TENSOR_FIELD_STEP:
		map->steps[which] = (uint8_t)at_most(value, UINT8_MAX);
		break;
	case PTX_TENSOR_FIELD_TYPE:
		map->type = (uint8_t)value;
		break;
	case PTX_TENSOR_FIELD_SWIZZLE:
		map->swizzle = (uint8_t)value;
		break;
	case PTX_TENSOR_FIELD_FILL:
		map->fills_nan = value;
		break;
	case PTX_TENSOR_FIELD_NONE:
		break;
	}
}
