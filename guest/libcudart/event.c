/* SPDX-License-Identifier: Apache-2.0 */
/* Events. */
#include "runtime.h"

CUDART_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
	CUDART_CALL(cuEventCreate(event, flags));
}

CUDART_API cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	return cudaEventCreateWithFlags(event, cudaEventDefault);
}

CUDART_API cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	CUDART_CALL(cuEventDestroy_v2(event));
}

CUDART_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	CUDART_CALL(cuEventRecord(event, stream));
}

CUDART_API cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream)
{
	return cudaEventRecord(event, cudart_per_thread(stream));
}

CUDART_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
	CUDART_CALL(cuEventRecordWithFlags(event, stream, flags));
}

CUDART_API cudaError_t cudaEventRecordWithFlags_ptsz(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
	return cudaEventRecordWithFlags(event, cudart_per_thread(stream), flags);
}

CUDART_API cudaError_t cudaEventQuery(cudaEvent_t event)
{
	CUDART_CALL(cuEventQuery(event));
}

CUDART_API cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	CUDART_CALL(cuEventSynchronize(event));
}

CUDART_API cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
	CUDART_CALL(cuEventElapsedTime_v2(milliseconds, start, end));
}

CUDART_API cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
	CUDART_CALL(cuIpcGetEventHandle((CUipcEventHandle *)handle, event));
}

CUDART_API cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
	CUipcEventHandle driver_handle;

	_Static_assert(sizeof(driver_handle) == sizeof(handle), "the two APIs share their handles");
	__builtin_memcpy(&driver_handle, &handle, sizeof(handle));
	CUDART_CALL(cuIpcOpenEventHandle(event, driver_handle));
}
