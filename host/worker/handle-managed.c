/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers: a module's variables. __managed__ ones lie in windows of the guest's, where the back end can be told that
 * (backend-cpu/managed.h). NVIDIA's driver chooses an address itself, at which the guest's program sees nothing: there
 * they are refused when the guest asks where one is. Kernels alone may use them.
 */
#include "dispatch.h"
#include "handlers.h"
#include "log.h"
#include "session.h"

static CUresult refuse(const char *name)
{
	vcuda_log("the __managed__ variable %s is not supported: with the cuda back end a program cannot reach its memory",
		  name);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* What is handed out of a driver that places managed variables itself. */
static CUresult check_global(struct vcuda_session *s, const char *name, CUdeviceptr address)
{
	unsigned int managed = 0;

	if (s->ops->managedCount || !s->ops->cuPointerGetAttribute)
		return CUDA_SUCCESS;
	if (s->ops->cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) != CUDA_SUCCESS)
		return CUDA_SUCCESS;
	return managed ? refuse(name) : CUDA_SUCCESS;
}

CUresult vcuda_handle_cuModuleGetGlobal_v2(struct vcuda_session *s, struct vcuda_args_cuModuleGetGlobal_v2 *a)
{
	CUresult result;

	if (!s->ops->cuModuleGetGlobal_v2)
		return vcuda_unsupported(s, VCUDA_OP_cuModuleGetGlobal_v2);
	result = s->ops->cuModuleGetGlobal_v2(&a->dptr, &a->bytes, a->hmod, a->name);
	return result == CUDA_SUCCESS ? check_global(s, a->name, a->dptr) : result;
}

CUresult vcuda_handle_cuLibraryGetGlobal(struct vcuda_session *s, struct vcuda_args_cuLibraryGetGlobal *a)
{
	CUresult result;

	if (!s->ops->cuLibraryGetGlobal)
		return vcuda_unsupported(s, VCUDA_OP_cuLibraryGetGlobal);
	result = s->ops->cuLibraryGetGlobal(&a->dptr, &a->bytes, a->library, a->name);
	return result == CUDA_SUCCESS ? check_global(s, a->name, a->dptr) : result;
}

CUresult vcuda_handle_cuLibraryGetManaged(struct vcuda_session *s, struct vcuda_args_cuLibraryGetManaged *a)
{
	if (!s->ops->managedCount)
		return refuse(a->name);
	return s->ops->cuLibraryGetManaged(&a->dptr, &a->bytes, a->library, a->name);
}

CUresult vcuda_handle_vcudaManagedBytes(struct vcuda_session *s, struct vcuda_args_vcudaManagedBytes *a)
{
	if (!s->ops->managedBytes)
		return vcuda_unsupported(s, VCUDA_OP_vcudaManagedBytes);
	return s->ops->managedBytes(a->owner, a->index, &a->bytes);
}

CUresult vcuda_handle_vcudaManagedPlace(struct vcuda_session *s, struct vcuda_args_vcudaManagedPlace *a)
{
	CUresult result;

	if (!s->ops->managedPlace)
		return vcuda_unsupported(s, VCUDA_OP_vcudaManagedPlace);
	if (!vcuda_window_hold(s->windows, a->p, a->bytes, true))
		return CUDA_ERROR_INVALID_VALUE;
	result = s->ops->managedPlace(a->owner, a->index, a->p, a->bytes);
	if (result != CUDA_SUCCESS)
		vcuda_window_release(s->windows, a->p);
	return result;
}

CUresult vcuda_handle_vcudaManagedDrop(struct vcuda_session *s, struct vcuda_args_vcudaManagedDrop *a)
{
	CUresult result;

	if (!s->ops->managedDrop)
		return vcuda_unsupported(s, VCUDA_OP_vcudaManagedDrop);
	result = s->ops->managedDrop(a->p);
	if (result == CUDA_SUCCESS)
		vcuda_window_release(s->windows, a->p);
	return result;
}
