/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: pinned memory. */
#include "protocol/handlers.h"
#include "common/log.h"
#include "session/session.h"

CUresult vcuda_handle_cuMemHostRegister_v2(struct worker_session *s, struct vcuda_args_cuMemHostRegister_v2 *a)
{
	bool writable = !(a->Flags & CU_MEMHOSTREGISTER_READ_ONLY);
	CUresult result;

	if (!s->ops->cuMemHostRegister_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!vcuda_mapping_hold(s->mappings, a->p, a->bytesize, writable, VCUDA_HOLD_REGISTER))
		return CUDA_ERROR_INVALID_VALUE;
	result = s->ops->cuMemHostRegister_v2(a->p, a->bytesize, a->Flags);
	if (result != CUDA_SUCCESS)
		vcuda_mapping_release(s->mappings, a->p, VCUDA_HOLD_REGISTER);
	return result;
}

/*
 * In a failed context the software GPU unregisters the memory and returns the context's error. NVIDIA does not document
 * whether its driver unregisters then, so the pages stay held. Several threads of the guest may call this at once; one
 * of them releases the mapping. Registrations by another call (vcudaMemHostAccess) are not touched.
 */
CUresult vcuda_handle_cuMemHostUnregister(struct worker_session *s, struct vcuda_args_cuMemHostUnregister *a)
{
	CUresult result;
	enum vcuda_hold_owner owner = vcuda_mapping_holder(s->mappings, a->p);
	int done;

	if (owner != VCUDA_HOLD_NONE && owner != VCUDA_HOLD_REGISTER)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	if (s->ops->hostUnregister) {
		result = s->ops->hostUnregister(a->p, &done);
	} else if (s->ops->cuMemHostUnregister) {
		result = s->ops->cuMemHostUnregister(a->p);
		done = result == CUDA_SUCCESS;
	} else {
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (done)
		vcuda_mapping_release(s->mappings, a->p, VCUDA_HOLD_REGISTER);
	return result;
}
