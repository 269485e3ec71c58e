/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/cross-context.h"

#include "protocol/guest-calls.h"
#include "core/request.h"

CUresult libcuda_streams_order(CUstream first, struct libcuda_context *from, CUstream then, struct libcuda_context *to)
{
	const struct call_options in_from = libcuda_context_options(from), in_to = libcuda_context_options(to);
	CUresult result;
	CUevent event;

	result = vcuda_call_cuEventCreate_with(&in_from, &event, CU_EVENT_DISABLE_TIMING);
	if (result != CUDA_SUCCESS)
		return result;
	result = vcuda_call_cuEventRecordWithFlags_with(&in_from, event, first, CU_EVENT_RECORD_DEFAULT);
	if (result == CUDA_SUCCESS)
		result = vcuda_call_cuStreamWaitEvent_with(&in_to, then, event, CU_EVENT_WAIT_DEFAULT);
	vcuda_call_cuEventDestroy_v2_with(&in_from, event);
	return result;
}

CUresult libcuda_cross_context_begin(struct libcuda_cross_context *d, struct libcuda_context *here, CUstream resolved,
				     struct libcuda_context *home)
{
	const struct call_options in_home = libcuda_context_options(home);
	CUresult result = libcuda_context_usable(home);

	if (result != CUDA_SUCCESS)
		return result;
	*d = (struct libcuda_cross_context){.home = home, .here = here, .from = resolved};
	result = vcuda_call_cuStreamCreateWithPriority_with(&in_home, &d->stream, CU_STREAM_NON_BLOCKING, 0);
	if (result != CUDA_SUCCESS)
		return result;
	result = libcuda_streams_order(resolved, here, d->stream, home);
	return result == CUDA_SUCCESS ? CUDA_SUCCESS : libcuda_cross_context_end(d, result);
}

CUresult libcuda_cross_context_end(struct libcuda_cross_context *d, CUresult result)
{
	const struct call_options in_home = libcuda_context_options(d->home);

	if (result == CUDA_SUCCESS)
		result = libcuda_streams_order(d->stream, d->home, d->from, d->here);
	/* Work in the stream goes on. */
	vcuda_call_cuStreamDestroy_v2_with(&in_home, d->stream);
	return result;
}
