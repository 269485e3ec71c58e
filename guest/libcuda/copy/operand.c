/* SPDX-License-Identifier: Apache-2.0 */
#include "copy/operand.h"

#include "core/arena.h"
#include "memory/range.h"

CUresult libcuda_operand_find(uint64_t address, size_t bytes, enum libcuda_side side, struct libcuda_operand *operand)
{
	struct libcuda_range r;
	bool inside;

	*operand = (struct libcuda_operand){.kind = LIBCUDA_MEMORY_PAGEABLE};
	if (!address || address + bytes < address)
		return CUDA_ERROR_INVALID_VALUE;
	if (!libcuda_range_find(address, &r)) {
		if (libcuda_arena_is_device(address) && side != LIBCUDA_SIDE_HOST)
			*operand = (struct libcuda_operand){.kind = LIBCUDA_MEMORY_DEVICE, .unsure = true};
		else if (libcuda_arena_is_device(address) || side == LIBCUDA_SIDE_DEVICE)
			return CUDA_ERROR_INVALID_VALUE;
		return CUDA_SUCCESS;
	}
	inside = bytes <= r.bytes - (address - r.start);
	/* The program's own copy, which is made equal before and after. */
	if (r.kind == LIBCUDA_RANGE_MIRROR && side == LIBCUDA_SIDE_HOST)
		return CUDA_SUCCESS;
	if (r.kind & (LIBCUDA_RANGE_ON_DEVICE | LIBCUDA_RANGE_MIRROR)) {
		operand->kind = LIBCUDA_MEMORY_DEVICE;
		operand->unsure = r.kind == LIBCUDA_RANGE_RESERVED;
		return inside && side != LIBCUDA_SIDE_HOST ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	}
	if (inside)
		operand->kind = LIBCUDA_MEMORY_MAPPED;
	return inside || side != LIBCUDA_SIDE_DEVICE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
