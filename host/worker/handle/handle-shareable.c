/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: mapped memory and pools of several processes. Between worker and guest its handles have the form of fabric
 * handles. */
#include "session/dispatch.h"
#include "protocol/handlers.h"
#include "session/session.h"

CUresult vcuda_handle_vcudaMemExport(struct worker_session *s, struct vcuda_args_vcudaMemExport *a)
{
	if (!s->ops->cuMemExportToShareableHandle)
		return worker_unsupported(s, VCUDA_OP_vcudaMemExport);
	return s->ops->cuMemExportToShareableHandle(&a->shared, (uint64_t)(uintptr_t)a->handle,
						    CU_MEM_HANDLE_TYPE_FABRIC, 0);
}

CUresult vcuda_handle_vcudaMemImport(struct worker_session *s, struct vcuda_args_vcudaMemImport *a)
{
	uint64_t handle = 0;
	CUresult result;

	if (!s->ops->cuMemImportFromShareableHandle)
		return worker_unsupported(s, VCUDA_OP_vcudaMemImport);
	result = s->ops->cuMemImportFromShareableHandle(&handle, &a->shared, CU_MEM_HANDLE_TYPE_FABRIC);
	a->handle = (vcuda_allocation)(uintptr_t)handle;
	return result;
}

/* ---- pools ---- */

CUresult vcuda_handle_vcudaMemPoolCreateShared(struct worker_session *s, struct vcuda_args_vcudaMemPoolCreateShared *a)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, a->dev},
		.maxSize = a->maxSize,
	};

	if (!s->ops->cuMemPoolCreate || !s->ops->cuMemPoolExportToShareableHandle)
		return worker_unsupported(s, VCUDA_OP_vcudaMemPoolCreateShared);
	return s->ops->cuMemPoolCreate(&a->pool, &props);
}

CUresult vcuda_handle_vcudaMemPoolExport(struct worker_session *s, struct vcuda_args_vcudaMemPoolExport *a)
{
	if (!s->ops->cuMemPoolExportToShareableHandle)
		return worker_unsupported(s, VCUDA_OP_vcudaMemPoolExport);
	return s->ops->cuMemPoolExportToShareableHandle(&a->shared, a->pool, CU_MEM_HANDLE_TYPE_FABRIC, 0);
}

CUresult vcuda_handle_vcudaMemPoolImport(struct worker_session *s, struct vcuda_args_vcudaMemPoolImport *a)
{
	if (!s->ops->cuMemPoolImportFromShareableHandle)
		return worker_unsupported(s, VCUDA_OP_vcudaMemPoolImport);
	return s->ops->cuMemPoolImportFromShareableHandle(&a->pool, &a->shared, CU_MEM_HANDLE_TYPE_FABRIC, 0);
}

CUresult vcuda_handle_vcudaMemPoolExportPointer(struct worker_session *s,
						struct vcuda_args_vcudaMemPoolExportPointer *a)
{
	if (!s->ops->cuMemPoolExportPointer)
		return worker_unsupported(s, VCUDA_OP_vcudaMemPoolExportPointer);
	return s->ops->cuMemPoolExportPointer(&a->shared, a->dptr);
}

CUresult vcuda_handle_vcudaMemPoolImportPointer(struct worker_session *s,
						struct vcuda_args_vcudaMemPoolImportPointer *a)
{
	CUdeviceptr base;
	CUresult result;
	size_t bytes;

	if (!s->ops->cuMemPoolImportPointer || !s->ops->cuMemGetAddressRange_v2 || !s->ops->cuMemFree_v2)
		return worker_unsupported(s, VCUDA_OP_vcudaMemPoolImportPointer);
	result = s->ops->cuMemPoolImportPointer(&a->dptr, a->pool, &a->shared);
	if (result != CUDA_SUCCESS)
		return result;
	result = s->ops->cuMemGetAddressRange_v2(&base, &bytes, a->dptr);
	if (result != CUDA_SUCCESS) {
		s->ops->cuMemFree_v2(a->dptr);
		return result;
	}
	a->bytes = base + bytes - a->dptr;
	return CUDA_SUCCESS;
}
