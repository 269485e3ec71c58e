/* SPDX-License-Identifier: Apache-2.0 */
/* Events. */
#include "twins.h"

CUDART_API cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	return cudaEventCreateWithFlags(event, cudaEventDefault);
}

CUDART_API cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
	CUipcEventHandle driver_handle;

	_Static_assert(sizeof(driver_handle) == sizeof(handle), "the two APIs share their handles");
	__builtin_memcpy(&driver_handle, &handle, sizeof(handle));
	CUDART_CALL(cuIpcOpenEventHandle(event, driver_handle));
}
