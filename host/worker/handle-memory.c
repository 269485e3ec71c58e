/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: pinned memory. */
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

static bool is_registered(struct vcuda_session *s, void *p)
{
	return s->ops->hostRegistered && s->ops->hostRegistered(p) == CUDA_SUCCESS;
}

/*
 * In a context that has failed the software GPU does it, and gives the context's error all the same. What NVIDIA's
 * driver does then nobody tells: there the pages stay.
 */
CUresult vcuda_handle_cuMemHostUnregister(struct vcuda_session *s, struct vcuda_args_cuMemHostUnregister *a)
{
	bool was_registered = is_registered(s, a->p);
	CUresult result;

	if (!s->ops->cuMemHostUnregister)
		return CUDA_ERROR_NOT_SUPPORTED;
	result = s->ops->cuMemHostUnregister(a->p);
	if (result == CUDA_SUCCESS || (was_registered && !is_registered(s, a->p)))
		vcuda_window_release(s->windows, a->p);
	return result;
}
