/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: memory of another process's worker. */
#include "session/dispatch.h"
#include "protocol/handlers.h"
#include "session/session.h"

CUresult vcuda_handle_vcudaIpcOpenMemory(struct worker_session *s, struct vcuda_args_vcudaIpcOpenMemory *a)
{
	CUdeviceptr base = 0;
	size_t bytes = 0;
	CUresult result;

	if (!s->ops->cuIpcOpenMemHandle_v2 || !s->ops->cuMemGetAddressRange_v2 || !s->ops->cuIpcCloseMemHandle)
		return worker_unsupported(s, VCUDA_OP_vcudaIpcOpenMemory);
	result = s->ops->cuIpcOpenMemHandle_v2(&a->dptr, a->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	if (result != CUDA_SUCCESS)
		return result;
	result = s->ops->cuMemGetAddressRange_v2(&base, &bytes, a->dptr);
	if (result != CUDA_SUCCESS) {
		s->ops->cuIpcCloseMemHandle(a->dptr);
		return result;
	}
	a->bytes = base + bytes - a->dptr;
	return CUDA_SUCCESS;
}
