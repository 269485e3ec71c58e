/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory. */
#include "memory/memory.h"

#include "core/capture.h"
#include "core/request.h"
#include "protocol/guest-calls.h"
#include "core/hooks.h"
#include "core/object.h"
#include "memory/range.h"
#include "memory/managed-mirror.h"

_Atomic bool vcuda_memory_is_watched;

/* Unregisters the context's pinned memory and forgets all its ranges. */
static void drop_context(struct vcuda_context *context)
{
	struct vcuda_range r;

	while (vcuda_range_remove_next(context, 0, &r)) {
		if (r.kind & VCUDA_RANGE_ON_HOST)
			vcuda_pinned_release(&r);
		else if (r.kind == VCUDA_RANGE_SHADOW)
			vcuda_shadow_drop(r.start);
	}
}

static struct vcuda_observer observer = {.context_memory_ends = drop_context};

__attribute__((constructor)) static void start(void)
{
	vcuda_observe(&observer);
}

CUresult vcuda_memory_add_global(uint64_t address, uint64_t bytes, const void *owner, struct vcuda_context *context)
{
	struct vcuda_range there;
	int placed = 0;

	if (vcuda_shadow_possible() && vcuda_call_vcudaManagedIsPlaced(address, &placed) == CUDA_SUCCESS && placed)
		return vcuda_shadow_add(address, bytes, owner,
					vcuda_object_find(VCUDA_OBJECT_LIBRARY, owner) ? NULL : context);
	/* A managed variable has its place from the start. */
	if (vcuda_range_find(address, &there) && there.kind == VCUDA_RANGE_VARIABLE)
		return CUDA_SUCCESS;
	/* Where memory runs out the variable is only unknown to pointer queries: copies ask the worker. */
	vcuda_range_add(&(struct vcuda_range){
		.start = address,
		.bytes = bytes,
		.kind = VCUDA_RANGE_GLOBAL,
		.owner = (uintptr_t)owner,
		.context = context,
	});
	return CUDA_SUCCESS;
}

void vcuda_memory_drop_owner(const void *owner)
{
	struct vcuda_range r;

	while (vcuda_range_remove_next(NULL, (uintptr_t)owner, &r)) {
		if (r.kind == VCUDA_RANGE_VARIABLE)
			vcuda_pinned_release(&r);
		else if (r.kind == VCUDA_RANGE_SHADOW)
			vcuda_shadow_drop(r.start);
	}
}

static CUresult record(CUdeviceptr address, size_t bytes)
{
	struct vcuda_range r = {
		.start = address,
		.bytes = bytes,
		.kind = VCUDA_RANGE_DEVICE,
		.context = vcuda_context_current(),
	};

	if (vcuda_range_add(&r))
		return CUDA_SUCCESS;
	vcuda_call_cuMemFree_v2(address);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

VCUDA_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
	CUresult result = vcuda_require_context();

	if (result == CUDA_SUCCESS)
		result = vcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	result = vcuda_call_cuMemAlloc_v2(dptr, bytes);
	return result == CUDA_SUCCESS ? record(*dptr, bytes) : result;
}

VCUDA_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
					 unsigned int element)
{
	CUresult result = vcuda_require_context();

	if (result == CUDA_SUCCESS)
		result = vcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr || !pitch || !width || !height || (element != 4 && element != 8 && element != 16))
		return CUDA_ERROR_INVALID_VALUE;
	result = vcuda_call_cuMemAllocPitch_v2(dptr, pitch, width, height, element);
	return result == CUDA_SUCCESS ? record(*dptr, *pitch * height) : result;
}

VCUDA_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr dptr)
{
	CUresult result = vcuda_require_context();
	struct vcuda_range r;

	if (result != CUDA_SUCCESS)
		return result;
	if (!vcuda_range_find(dptr, &r))
		return CUDA_ERROR_NOT_FOUND;
	if (base)
		*base = r.start;
	if (size)
		*size = r.bytes;
	return CUDA_SUCCESS;
}
