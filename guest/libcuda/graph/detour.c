/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/detour.h"

#include "protocol/guest-calls.h"
#include "core/thread.h"

CUresult vcuda_streams_order(CUstream first, struct vcuda_context *from, CUstream then, struct vcuda_context *to)
{
	struct vcuda_context *before = vcuda_thread()->call_context;
	CUresult result;
	CUevent event;

	vcuda_context_enter(from);
	result = vcuda_call_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (result == CUDA_SUCCESS) {
		result = vcuda_call_cuEventRecordWithFlags(event, first, CU_EVENT_RECORD_DEFAULT);
		vcuda_context_enter(to);
		if (result == CUDA_SUCCESS)
			result = vcuda_call_cuStreamWaitEvent(then, event, CU_EVENT_WAIT_DEFAULT);
		vcuda_context_enter(from);
		vcuda_call_cuEventDestroy_v2(event);
	}
	vcuda_context_enter(before);
	return result;
}

CUresult vcuda_detour_begin(struct vcuda_detour *d, CUstream resolved, struct vcuda_context *home)
{
	CUresult result = vcuda_context_usable(home);

	if (result != CUDA_SUCCESS)
		return result;
	*d = (struct vcuda_detour){
		.home = home,
		.here = vcuda_context_calling(),
		.before = vcuda_thread()->call_context,
		.from = resolved,
	};
	vcuda_context_enter(home);
	result = vcuda_call_cuStreamCreateWithPriority(&d->stream, CU_STREAM_NON_BLOCKING, 0);
	if (result != CUDA_SUCCESS) {
		vcuda_context_enter(d->before);
		return result;
	}
	result = vcuda_streams_order(resolved, d->here, d->stream, home);
	return result == CUDA_SUCCESS ? CUDA_SUCCESS : vcuda_detour_end(d, result);
}

CUresult vcuda_detour_end(struct vcuda_detour *d, CUresult result)
{
	if (result == CUDA_SUCCESS)
		result = vcuda_streams_order(d->stream, d->home, d->from, d->here);
	/* What is in it goes on. */
	vcuda_call_cuStreamDestroy_v2(d->stream);
	vcuda_context_enter(d->before);
	return result;
}
