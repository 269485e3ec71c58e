/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory. */
#include "memory/memory.h"

#include "core/capture.h"
#include "core/request.h"
#include "protocol/guest-calls.h"
#include "core/hooks.h"
#include "core/object.h"
#include "memory/host-pool.h"
#include "memory/range.h"
#include "memory/managed-mirror.h"

_Atomic bool libcuda_memory_is_watched;

/* Unregisters the context's pinned memory and forgets all its ranges. */
static void drop_context(struct libcuda_context *context)
{
	struct libcuda_range r;

	while (libcuda_range_remove_next(context, 0, &r)) {
		if (r.kind == LIBCUDA_RANGE_POOLED)
			libcuda_host_pool_free_now(&r);
		else if (r.kind & LIBCUDA_RANGE_ON_HOST)
			libcuda_pinned_release(&r);
		else if (r.kind == LIBCUDA_RANGE_MIRROR)
			libcuda_mirror_drop(r.start);
	}
}

static struct libcuda_observer observer = {.context_memory_ends = drop_context};

__attribute__((constructor)) static void start(void)
{
	libcuda_observe(&observer);
}

CUresult libcuda_memory_add_global(uint64_t address, uint64_t bytes, const void *owner, struct libcuda_context *context)
{
	const struct call_options how = libcuda_context_options(context);
	struct libcuda_range there;
	int placed = 0;

	if (libcuda_mirror_possible() &&
	    vcuda_call_vcudaManagedIsPlaced_with(&how, address, &placed) == CUDA_SUCCESS && placed)
		return libcuda_mirror_add(address, bytes, owner,
					  libcuda_object_find(LIBCUDA_OBJECT_LIBRARY, owner) ? NULL : context);
	/* A managed variable has its place from the start. */
	if (libcuda_range_find(address, &there) && there.kind == LIBCUDA_RANGE_VARIABLE)
		return CUDA_SUCCESS;
	/* Where memory runs out the variable is only unknown to pointer queries: copies ask the worker. */
	libcuda_range_add(&(struct libcuda_range){
		.start = address,
		.bytes = bytes,
		.kind = LIBCUDA_RANGE_GLOBAL,
		.owner = (uintptr_t)owner,
		.context = context,
	});
	return CUDA_SUCCESS;
}

void libcuda_memory_drop_owner(const void *owner)
{
	struct libcuda_range r;

	while (libcuda_range_remove_next(NULL, (uintptr_t)owner, &r)) {
		if (r.kind == LIBCUDA_RANGE_VARIABLE)
			libcuda_pinned_release(&r);
		else if (r.kind == LIBCUDA_RANGE_MIRROR)
			libcuda_mirror_drop(r.start);
	}
}

static CUresult record(CUdeviceptr address, size_t bytes)
{
	struct libcuda_range r = {
		.start = address,
		.bytes = bytes,
		.kind = LIBCUDA_RANGE_DEVICE,
		.context = libcuda_context_current(),
	};

	if (libcuda_range_add(&r))
		return CUDA_SUCCESS;
	vcuda_call_cuMemFree_v2(address);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

VCUDA_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
	CUresult result = libcuda_require_context();

	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
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
	CUresult result = libcuda_require_context();

	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr || !pitch || !width || !height || (element != 4 && element != 8 && element != 16))
		return CUDA_ERROR_INVALID_VALUE;
	result = vcuda_call_cuMemAllocPitch_v2(dptr, pitch, width, height, element);
	return result == CUDA_SUCCESS ? record(*dptr, *pitch * height) : result;
}

VCUDA_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr dptr)
{
	CUresult result = libcuda_require_context();
	struct libcuda_mapping m;
	struct libcuda_range r;

	if (result != CUDA_SUCCESS)
		return result;
	if (!libcuda_range_find(dptr, &r))
		return CUDA_ERROR_NOT_FOUND;
	if (r.kind == LIBCUDA_RANGE_RESERVED) {
		if (!libcuda_memory_is_mapped(dptr, &m))
			return CUDA_ERROR_NOT_FOUND;
		r.start = m.start;
		r.bytes = m.bytes;
	}
	if (base)
		*base = r.start;
	if (size)
		*size = r.bytes;
	return CUDA_SUCCESS;
}
