/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: memory that is created and mapped in two steps. */
#include <pthread.h>

#include "session/dispatch.h"
#include "protocol/handlers.h"
#include "session/session.h"

static CUmemAllocationProp properties(CUdevice dev)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, dev},
	};
}

CUresult vcuda_handle_vcudaMemGranularity(struct worker_session *s, struct vcuda_args_vcudaMemGranularity *a)
{
	CUmemAllocationProp props = properties(a->dev);
	size_t granularity = 0;
	CUresult result;

	if (!s->ops->cuMemGetAllocationGranularity)
		return worker_unsupported(s, VCUDA_OP_vcudaMemGranularity);
	result = s->ops->cuMemGetAllocationGranularity(&granularity, &props, a->option);
	a->granularity = granularity;
	return result;
}

CUresult vcuda_handle_vcudaMemCreate(struct worker_session *s, struct vcuda_args_vcudaMemCreate *a)
{
	CUmemAllocationProp props = properties(a->dev);
	uint64_t handle = 0;
	CUresult result;

	if (a->shareable)
		props.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC; /* handle-shareable.c */

	if (!s->ops->cuMemCreate)
		return worker_unsupported(s, VCUDA_OP_vcudaMemCreate);
	result = s->ops->cuMemCreate(&handle, a->size, &props, 0);
	a->handle = (vcuda_allocation)(uintptr_t)handle;
	return result;
}

CUresult vcuda_handle_vcudaMemRelease(struct worker_session *s, struct vcuda_args_vcudaMemRelease *a)
{
	if (!s->ops->cuMemRelease)
		return worker_unsupported(s, VCUDA_OP_vcudaMemRelease);
	return s->ops->cuMemRelease((uint64_t)(uintptr_t)a->handle);
}

CUresult vcuda_handle_vcudaMemMap(struct worker_session *s, struct vcuda_args_vcudaMemMap *a)
{
	if (!s->ops->cuMemMap)
		return worker_unsupported(s, VCUDA_OP_vcudaMemMap);
	return s->ops->cuMemMap(a->ptr, a->size, a->offset, (uint64_t)(uintptr_t)a->handle, 0);
}

/*
 * An address range is the back end's and lent in one step, or neither: otherwise another thread of the guest could end
 * the reservation in between, and memory of another owner would be lent. The range has no other owner until
 * hostLeave().
 */
static pthread_mutex_t places = PTHREAD_MUTEX_INITIALIZER;

/* Gives address ranges back to the back end once no guest memory is mapped in them. With the lock held. */
static CUresult leave(struct worker_session *s, CUdeviceptr ptr, size_t size)
{
	if (worker_mapping_take_back(s->mappings, ptr, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return s->ops->hostLeave(ptr, size);
}

/* With the lock held. */
static CUresult place(struct worker_session *s, CUdeviceptr ptr, size_t size)
{
	CUresult result = s->ops->hostPlace(ptr, size);

	if (result != CUDA_SUCCESS || !worker_mapping_lend(s->mappings, ptr, size))
		return result;
	if (s->ops->cuMemUnmap(ptr, size) == CUDA_SUCCESS)
		leave(s, ptr, size);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult vcuda_handle_vcudaMemPlace(struct worker_session *s, struct vcuda_args_vcudaMemPlace *a)
{
	CUresult result;

	if (!s->ops->hostPlace || !s->ops->hostLeave || !s->ops->cuMemUnmap)
		return worker_unsupported(s, VCUDA_OP_vcudaMemPlace);
	pthread_mutex_lock(&places);
	result = place(s, a->ptr, a->size);
	pthread_mutex_unlock(&places);
	return result;
}

CUresult vcuda_handle_cuMemUnmap(struct worker_session *s, struct vcuda_args_cuMemUnmap *a)
{
	CUresult result;

	if (!s->ops->cuMemUnmap)
		return worker_unsupported(s, VCUDA_OP_cuMemUnmap);
	/* cuMemUnmap() waits for work, which may wait for another thread of the guest: so without the lock. */
	result = s->ops->cuMemUnmap(a->ptr, a->size);
	if (result != CUDA_SUCCESS || !s->ops->hostLeave)
		return result;
	pthread_mutex_lock(&places);
	result = leave(s, a->ptr, a->size);
	pthread_mutex_unlock(&places);
	return result;
}

CUresult vcuda_handle_vcudaMemGetAccess(struct worker_session *s, struct vcuda_args_vcudaMemGetAccess *a)
{
	CUmemLocation location = {(CUmemLocationType)a->type, a->id};

	if (!s->ops->cuMemGetAccess)
		return worker_unsupported(s, VCUDA_OP_vcudaMemGetAccess);
	return s->ops->cuMemGetAccess(&a->flags, &location, a->ptr);
}

CUresult vcuda_handle_vcudaMemSetAccess(struct worker_session *s, struct vcuda_args_vcudaMemSetAccess *a)
{
	CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, a->dev}, (CUmemAccess_flags)a->flags};

	if (!s->ops->cuMemSetAccess)
		return worker_unsupported(s, VCUDA_OP_vcudaMemSetAccess);
	return s->ops->cuMemSetAccess(a->ptr, a->size, &desc, 1);
}
