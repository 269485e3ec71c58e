/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers: a module's variables. __managed__ ones lie in mappings of the guest's, where the back end can be told that
 * (softgpu/module/managed.h). NVIDIA's driver chooses an address itself: the guest is told, and keeps a copy there.
 */
#include "session/dispatch.h"
#include "protocol/handlers.h"
#include "session/session.h"

CUresult vcuda_handle_vcudaManagedIsPlaced(struct worker_session *s, struct vcuda_args_vcudaManagedIsPlaced *a)
{
	unsigned int managed = 0;

	a->placed = !s->ops->managedCount && s->ops->cuPointerGetAttribute &&
		    s->ops->cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, a->dptr) == CUDA_SUCCESS &&
		    managed;
	return CUDA_SUCCESS;
}

CUresult vcuda_handle_vcudaManagedBytes(struct worker_session *s, struct vcuda_args_vcudaManagedBytes *a)
{
	if (!s->ops->managedBytes)
		return worker_unsupported(s, VCUDA_OP_vcudaManagedBytes);
	return s->ops->managedBytes(a->owner, a->index, &a->bytes);
}

CUresult vcuda_handle_vcudaManagedPlace(struct worker_session *s, struct vcuda_args_vcudaManagedPlace *a)
{
	CUresult result;

	if (!s->ops->managedPlace)
		return worker_unsupported(s, VCUDA_OP_vcudaManagedPlace);
	if (!vcuda_mapping_hold(s->mappings, a->p, a->bytes, true, VCUDA_HOLD_MANAGED))
		return CUDA_ERROR_INVALID_VALUE;
	result = s->ops->managedPlace(a->owner, a->index, a->p, a->bytes);
	if (result != CUDA_SUCCESS)
		vcuda_mapping_release(s->mappings, a->p, VCUDA_HOLD_MANAGED);
	return result;
}

CUresult vcuda_handle_vcudaManagedDrop(struct worker_session *s, struct vcuda_args_vcudaManagedDrop *a)
{
	CUresult result;

	if (!s->ops->managedDrop)
		return worker_unsupported(s, VCUDA_OP_vcudaManagedDrop);
	result = s->ops->managedDrop(a->p);
	if (result == CUDA_SUCCESS)
		vcuda_mapping_release(s->mappings, a->p, VCUDA_HOLD_MANAGED);
	return result;
}
