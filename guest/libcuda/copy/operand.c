/* SPDX-License-Identifier: Apache-2.0 */
#include "copy/operand.h"

#include "core/arena.h"
#include "memory/range.h"

CUresult vcuda_operand_find(uint64_t address, size_t bytes, enum vcuda_side side, struct vcuda_operand *operand)
{
	struct vcuda_range r;
	bool inside;

	*operand = (struct vcuda_operand){.place = VCUDA_PLACE_PAGEABLE};
	if (!address || address + bytes < address)
		return CUDA_ERROR_INVALID_VALUE;
	if (!vcuda_range_find(address, &r)) {
		if (vcuda_arena_is_device(address) && side != VCUDA_SIDE_HOST)
			*operand = (struct vcuda_operand){.place = VCUDA_PLACE_DEVICE, .unsure = true};
		else if (vcuda_arena_is_device(address) || side == VCUDA_SIDE_DEVICE)
			return CUDA_ERROR_INVALID_VALUE;
		return CUDA_SUCCESS;
	}
	inside = bytes <= r.bytes - (address - r.start);
	/* The program's own copy, which is made equal before and after. */
	if (r.kind == VCUDA_RANGE_SHADOW && side == VCUDA_SIDE_HOST)
		return CUDA_SUCCESS;
	if (r.kind & (VCUDA_RANGE_ON_DEVICE | VCUDA_RANGE_SHADOW)) {
		operand->place = VCUDA_PLACE_DEVICE;
		operand->unsure = r.kind == VCUDA_RANGE_RESERVED;
		return inside && side != VCUDA_SIDE_HOST ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	}
	if (inside)
		operand->place = VCUDA_PLACE_WINDOW;
	return inside || side != VCUDA_SIDE_DEVICE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
