/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: large copies from and to pageable memory without staging, in RAM that is registered (ram.h). */
#include "memory/direct.h"
#include "protocol/handlers.h"
#include "memory/ram.h"
#include "session/session.h"
#include "queue/stage-events.h"

static bool is_possible(const struct worker_session *s)
{
	const struct vcuda_backend_ops *ops = s->ops;

	return ops->cuMemcpyHtoDAsync_v2 && ops->cuMemcpyDtoHAsync_v2 && ops->cuEventCreate &&
	       ops->cuEventRecordWithFlags && ops->cuEventSynchronize && ops->cuEventDestroy_v2 &&
	       ops->cuStreamSynchronize;
}

CUresult vcuda_handle_vcudaDirectReady(struct worker_session *s, struct vcuda_args_vcudaDirectReady *a)
{
	a->ready = is_possible(s) && worker_ram_is_ready(s->ops);
	return CUDA_SUCCESS;
}

/* `issued`: some of it is, or may be, on its way. */
static CUresult issue(struct worker_session *s, const struct vcuda_args_vcudaCopyDirect *a,
		      const struct worker_direct *range, bool *issued)
{
	struct worker_direct_part part;
	uint64_t device = a->device;
	CUresult result;

	worker_direct_first(range, a->host, a->ByteCount, &part);
	do {
		if (a->toDevice)
			result = s->ops->cuMemcpyHtoDAsync_v2(device, part.memory, part.bytes, a->hStream);
		else
			result = s->ops->cuMemcpyDtoHAsync_v2(part.memory, device, part.bytes, a->hStream);
		*issued = *issued || result == CUDA_SUCCESS;
		device += part.bytes;
	} while (result == CUDA_SUCCESS && worker_direct_next(range, &part));
	return result;
}

/* For the copy alone, where that can be had: others may put what runs long behind it. */
static CUresult wait(struct worker_session *s, CUstream stream, CUevent event)
{
	if (s->ops->cuEventRecordWithFlags(event, stream, 0) == CUDA_SUCCESS)
		return s->ops->cuEventSynchronize(event);
	return s->ops->cuStreamSynchronize(stream);
}

/*
 * Where the wait fails, for example after a fault in the context, the device may still copy: then the range stays held,
 * and its pages pinned, until this process has ended.
 */
static CUresult copy(struct worker_session *s, const struct vcuda_args_vcudaCopyDirect *a, struct worker_direct *range)
{
	struct worker_stage_events set;
	CUresult result = worker_stage_events_take(s, &set, 1), waited = CUDA_SUCCESS;
	bool issued = false;

	if (result == CUDA_SUCCESS)
		result = issue(s, a, range, &issued);
	if (issued)
		waited = wait(s, a->hStream, set.events[0]);
	worker_stage_events_give(s, &set, result == CUDA_SUCCESS && waited == CUDA_SUCCESS);
	if (waited == CUDA_SUCCESS)
		worker_direct_release(range);
	return result != CUDA_SUCCESS ? result : waited;
}

CUresult vcuda_handle_vcudaCopyDirect(struct worker_session *s, struct vcuda_args_vcudaCopyDirect *a)
{
	struct worker_direct *range;
	CUresult result;

	if (!is_possible(s))
		return CUDA_ERROR_NOT_SUPPORTED;
	range = worker_direct_hold(a->host, a->ByteCount, !a->toDevice);
	if (!range)
		return CUDA_ERROR_INVALID_VALUE;
	if (!worker_ram_use()) {
		worker_direct_release(range);
		return CUDA_ERROR_NOT_READY;
	}
	result = copy(s, a, range);
	worker_ram_leave();
	return result;
}
