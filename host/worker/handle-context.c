/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: contexts. What dies with a context must not be named by an id any more. */
#include "dispatch.h"
#include "handlers.h"
#include "session.h"
#include "stage-events.h"
#include "unload.h"

/* The id of a device's primary context, 0 if the guest has none. Retaining and releasing it leaves the count as it was. */
static uint64_t primary_id(struct vcuda_session *s, CUdevice dev)
{
	void *context = NULL;
	unsigned int flags;
	int active = 0;

	if (!s->ops->cuDevicePrimaryCtxGetState || s->ops->cuDevicePrimaryCtxGetState(dev, &flags, &active) != CUDA_SUCCESS || !active)
		return 0;
	if (s->ops->cuDevicePrimaryCtxRetain((CUcontext *)&context, dev) != CUDA_SUCCESS)
		return 0;
	s->ops->cuDevicePrimaryCtxRelease_v2(dev);
	if (vcuda_publish(s, VCUDA_KIND_CONTEXT, true, 0, &context) != CUDA_SUCCESS)
		return 0;
	return (uint64_t)(uintptr_t)context;
}

CUresult vcuda_handle_cuDevicePrimaryCtxRelease_v2(struct vcuda_session *s, struct vcuda_args_cuDevicePrimaryCtxRelease_v2 *a)
{
	unsigned int flags;
	CUresult result;
	int active = 1;
	uint64_t id;

	vcuda_unload_begin();
	vcuda_stage_events_drop(s);
	id = primary_id(s, a->dev);
	result = s->ops->cuDevicePrimaryCtxRelease_v2(a->dev);
	if (result == CUDA_SUCCESS && s->ops->cuDevicePrimaryCtxGetState)
		s->ops->cuDevicePrimaryCtxGetState(a->dev, &flags, &active);
	if (!active)
		vcuda_handle_remove_children(s->handles, id);
	vcuda_unload_end();
	return result;
}

CUresult vcuda_handle_cuDevicePrimaryCtxReset_v2(struct vcuda_session *s, struct vcuda_args_cuDevicePrimaryCtxReset_v2 *a)
{
	CUresult result;
	uint64_t id;

	vcuda_unload_begin();
	vcuda_stage_events_drop(s);
	id = primary_id(s, a->dev);
	result = s->ops->cuDevicePrimaryCtxReset_v2(a->dev);
	if (result == CUDA_SUCCESS)
		vcuda_handle_remove_children(s->handles, id);
	vcuda_unload_end();
	return result;
}

/* Leaves the new context not current on the worker's thread: which one is current is the guest's business. */
CUresult vcuda_handle_cuCtxCreate_v2(struct vcuda_session *s, struct vcuda_args_cuCtxCreate_v2 *a)
{
	CUresult result = s->ops->cuCtxCreate_v2(&a->pctx, a->flags, a->dev);
	CUcontext popped;

	if (result == CUDA_SUCCESS)
		s->ops->cuCtxPopCurrent_v2(&popped);
	return result;
}

CUresult vcuda_handle_cuCtxDestroy_v2(struct vcuda_session *s, struct vcuda_args_cuCtxDestroy_v2 *a)
{
	CUresult result;

	vcuda_unload_begin();
	vcuda_stage_events_drop(s);
	result = s->ops->cuCtxDestroy_v2(a->ctx);
	vcuda_unload_end();
	return result;
}
