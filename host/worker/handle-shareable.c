/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: mapped memory of several processes. Between worker and guest its handles have the form of fabric handles. */
#include "dispatch.h"
#include "handlers.h"
#include "session.h"

CUresult vcuda_handle_vcudaMemExport(struct vcuda_session *s, struct vcuda_args_vcudaMemExport *a)
{
	if (!s->ops->cuMemExportToShareableHandle)
		return vcuda_unsupported(s, VCUDA_OP_vcudaMemExport);
	return s->ops->cuMemExportToShareableHandle(&a->shared, (uint64_t)(uintptr_t)a->handle,
						    CU_MEM_HANDLE_TYPE_FABRIC, 0);
}

CUresult vcuda_handle_vcudaMemImport(struct vcuda_session *s, struct vcuda_args_vcudaMemImport *a)
{
	uint64_t handle = 0;
	CUresult result;

	if (!s->ops->cuMemImportFromShareableHandle)
		return vcuda_unsupported(s, VCUDA_OP_vcudaMemImport);
	result = s->ops->cuMemImportFromShareableHandle(&handle, &a->shared, CU_MEM_HANDLE_TYPE_FABRIC);
	a->handle = (vcuda_allocation)(uintptr_t)handle;
	return result;
}
