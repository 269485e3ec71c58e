/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and events of another process of the same guest. Only the workers can interpret a handle. */
#include <pthread.h>

#include "core/capture.h"
#include "core/request.h"
#include "memory/memory.h"
#include "protocol/guest-calls.h"
#include "core/object.h"
#include "memory/range.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

VCUDA_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr)
{
	CUresult result = libcuda_require_context();
	struct libcuda_range r;

	libcuda_memory_is_watched = true;
	if (result != CUDA_SUCCESS)
		return result;
	if (!handle || !libcuda_range_find(dptr, &r) || r.kind != LIBCUDA_RANGE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	return vcuda_call_cuIpcGetMemHandle(handle, dptr);
}

/* Memory that is opened several times has one address, until it has been closed as often. The range's flags count. */
static CUresult open_locked(CUdeviceptr *dptr, CUipcMemHandle handle)
{
	struct libcuda_range r = {.kind = LIBCUDA_RANGE_IMPORTED, .context = libcuda_context_current()}, old;
	CUdeviceptr start;
	size_t bytes;
	CUresult result = vcuda_call_vcudaIpcOpenMemory(&start, &bytes, handle);

	if (result != CUDA_SUCCESS)
		return result;
	r.start = start;
	r.bytes = bytes;
	if (libcuda_range_find(start, &old) && old.kind == LIBCUDA_RANGE_IMPORTED)
		r.flags = old.flags;
	r.flags++;
	if (!libcuda_range_add(&r)) {
		vcuda_call_cuIpcCloseMemHandle(start);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*dptr = start;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
	CUresult result = libcuda_require_context();

	libcuda_memory_is_watched = true;
	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	result = open_locked(dptr, handle);
	pthread_mutex_unlock(&lock);
	return result;
}

VCUDA_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
	return cuIpcOpenMemHandle_v2(dptr, handle, flags);
}

static CUresult close_locked(CUdeviceptr dptr)
{
	struct call_options how;
	struct libcuda_range r;

	if (!libcuda_range_find(dptr, &r) || r.kind != LIBCUDA_RANGE_IMPORTED || r.start != dptr)
		return CUDA_ERROR_INVALID_VALUE;
	/* Out of the table first: as soon as the worker has closed it, another thread may be given the same address. */
	if (--r.flags)
		libcuda_range_add(&r);
	else
		libcuda_range_remove(dptr, LIBCUDA_RANGE_IMPORTED, &r);
	how = libcuda_context_options(r.context);
	return vcuda_call_cuIpcCloseMemHandle_with(&how, dptr);
}

VCUDA_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	CUresult result = libcuda_require_context();

	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&lock);
	result = close_locked(dptr);
	pthread_mutex_unlock(&lock);
	return result;
}

VCUDA_EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
	struct libcuda_object *o = libcuda_object_find(LIBCUDA_OBJECT_EVENT, event);
	CUresult result = libcuda_require_context();
	struct call_options how;

	if (result != CUDA_SUCCESS)
		return result;
	if (!o)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!handle || !(o->flags & CU_EVENT_INTERPROCESS))
		return CUDA_ERROR_INVALID_VALUE;
	how = libcuda_context_options(o->context);
	return vcuda_call_cuIpcGetEventHandle_with(&how, handle, event);
}

VCUDA_EXPORT CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
	CUresult result = libcuda_require_context();
	struct libcuda_object *o;

	if (result != CUDA_SUCCESS)
		return result;
	if (!event)
		return CUDA_ERROR_INVALID_VALUE;
	result = vcuda_call_cuIpcOpenEventHandle(event, handle);
	if (result != CUDA_SUCCESS)
		return result;
	o = libcuda_object_add(LIBCUDA_OBJECT_EVENT, *event, libcuda_context_current(), NULL);
	if (!o) {
		vcuda_call_cuEventDestroy_v2(*event);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	o->flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
	return CUDA_SUCCESS;
}
