/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: pinned memory and staged copies. */
#include "handlers.h"
#include "lane.h"
#include "log.h"
#include "session.h"

CUresult vcuda_handle_cuMemHostRegister_v2(struct vcuda_session *s, struct vcuda_args_cuMemHostRegister_v2 *a)
{
	bool writable = !(a->Flags & CU_MEMHOSTREGISTER_READ_ONLY);
	CUresult result;

	if (!s->ops->cuMemHostRegister_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!vcuda_window_hold(s->windows, a->p, a->bytesize, writable))
		return CUDA_ERROR_INVALID_VALUE;
	result = s->ops->cuMemHostRegister_v2(a->p, a->bytesize, a->Flags);
	if (result != CUDA_SUCCESS)
		vcuda_window_release(s->windows, a->p);
	return result;
}

CUresult vcuda_handle_cuMemHostUnregister(struct vcuda_session *s, struct vcuda_args_cuMemHostUnregister *a)
{
	CUresult result;

	if (!s->ops->cuMemHostUnregister)
		return CUDA_ERROR_NOT_SUPPORTED;
	result = s->ops->cuMemHostUnregister(a->p);
	if (result == CUDA_SUCCESS)
		vcuda_window_release(s->windows, a->p);
	return result;
}

/* Staging is pinned in the back end once a context exists; without that copies still work, only slower. */
static void register_stage(struct vcuda_session *s)
{
	CUresult result;

	if (atomic_exchange(&s->stage_registered, true) || !s->ops->cuMemHostRegister_v2)
		return;
	result = s->ops->cuMemHostRegister_v2(vcuda_shm_stage(s->shm, 0), VCUDA_STAGE_BLOCKS * VCUDA_STAGE_BLOCK_BYTES,
					      CU_MEMHOSTREGISTER_PORTABLE);
	if (result != CUDA_SUCCESS)
		vcuda_log("staging memory could not be pinned (CUDA error %d): pageable copies are slower", (int)result);
}

CUresult vcuda_handle_vcudaStageHtoD(struct vcuda_session *s, struct vcuda_args_vcudaStageHtoD *a)
{
	const void *from = vcuda_lane_stage(s, a->block, a->ByteCount);
	CUresult result;

	if (!from)
		return CUDA_ERROR_INVALID_VALUE;
	register_stage(s);
	if (!a->onStream)
		return s->ops->cuMemcpyHtoD_v2(a->dstDevice, from, a->ByteCount);
	result = s->ops->cuMemcpyHtoDAsync_v2(a->dstDevice, from, a->ByteCount, a->hStream);
	return result == CUDA_SUCCESS ? s->ops->cuStreamSynchronize(a->hStream) : result;
}

CUresult vcuda_handle_vcudaStageDtoH(struct vcuda_session *s, struct vcuda_args_vcudaStageDtoH *a)
{
	void *to = vcuda_lane_stage(s, a->block, a->ByteCount);
	CUresult result;

	if (!to)
		return CUDA_ERROR_INVALID_VALUE;
	register_stage(s);
	if (!a->onStream)
		return s->ops->cuMemcpyDtoH_v2(to, a->srcDevice, a->ByteCount);
	result = s->ops->cuMemcpyDtoHAsync_v2(to, a->srcDevice, a->ByteCount, a->hStream);
	return result == CUDA_SUCCESS ? s->ops->cuStreamSynchronize(a->hStream) : result;
}
