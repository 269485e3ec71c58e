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
 * In a context that has failed the software GPU does it, and gives the context's error all the same. What NVIDIA's
 * driver does then nobody tells: there the pages stay. Several threads of the guest may do so at once, of which one may
 * release the mapping. What another call has registered (vcudaMemHostAccess) is not its business.
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
