/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: pageable memory, which comes and goes through the staging blocks. */
#include <unistd.h>

#include "protocol/handlers.h"
#include "session/activity.h"
#include "session/command.h"
#include "session/session.h"
#include "queue/stage-events.h"
#include "queue/stage-pin.h"
#include "queue/stage-queue.h"

CUresult vcuda_handle_vcudaStageHtoD(struct worker_session *s, struct vcuda_args_vcudaStageHtoD *a)
{
	const void *from = worker_command_stage(s, a->block, a->ByteCount);
	CUresult result;

	if (!from)
		return CUDA_ERROR_INVALID_VALUE;
	worker_stage_pin(s, a->ByteCount);
	worker_activity_begin(s, a->hStream);
	if (a->onStream)
		result = s->ops->cuMemcpyHtoDAsync_v2(a->dstDevice, from, a->ByteCount, a->hStream);
	else
		result = s->ops->cuMemcpyHtoD_v2(a->dstDevice, from, a->ByteCount);
	worker_activity_end(s, a->hStream);
	return result == CUDA_SUCCESS && a->onStream ? s->ops->cuStreamSynchronize(a->hStream) : result;
}

CUresult vcuda_handle_vcudaStageDtoH(struct worker_session *s, struct vcuda_args_vcudaStageDtoH *a)
{
	void *to = worker_command_stage(s, a->block, a->ByteCount);
	CUresult result;

	if (!to)
		return CUDA_ERROR_INVALID_VALUE;
	worker_stage_pin(s, a->ByteCount);
	worker_activity_begin(s, a->hStream);
	if (a->onStream)
		result = s->ops->cuMemcpyDtoHAsync_v2(to, a->srcDevice, a->ByteCount, a->hStream);
	else
		result = s->ops->cuMemcpyDtoH_v2(to, a->srcDevice, a->ByteCount);
	worker_activity_end(s, a->hStream);
	return result == CUDA_SUCCESS && a->onStream ? s->ops->cuStreamSynchronize(a->hStream) : result;
}

/* The driver waits for a copy of memory that is pinned for it. */
CUresult vcuda_handle_cuMemcpyHtoD_v2(struct worker_session *s, struct vcuda_args_cuMemcpyHtoD_v2 *a)
{
	CUresult result = s->ops->cuMemcpyHtoD_v2(a->dstDevice, a->srcHost, a->ByteCount);

	worker_stage_queue_follow();
	return result;
}

/* The memory of a command is pageable, so that the back end is done with it when the function returns, but maybe not
 * with the copy. */
CUresult vcuda_handle_vcudaCopyIn(struct worker_session *s, struct vcuda_args_vcudaCopyIn *a)
{
	CUresult result = s->ops->cuMemcpyHtoD_v2(a->dstDevice, a->data, a->bytes);

	worker_stage_queue_follow();
	return result;
}

CUresult vcuda_handle_vcudaCopyInAsync(struct worker_session *s, struct vcuda_args_vcudaCopyInAsync *a)
{
	return s->ops->cuMemcpyHtoDAsync_v2(a->dstDevice, a->data, a->bytes, a->hStream);
}

CUresult vcuda_handle_vcudaStageIn(struct worker_session *s, struct vcuda_args_vcudaStageIn *a)
{
	const char *block = worker_command_stage(s, a->block, a->offset);
	struct worker_staged copy;

	if (!block || !a->ByteCount || a->ByteCount > VCUDA_STAGE_BLOCK_BYTES - a->offset)
		return CUDA_ERROR_INVALID_VALUE;
	worker_stage_pin(s, a->ByteCount);
	copy = (struct worker_staged){a->dstDevice, block + a->offset, a->ByteCount, a->block, a->ticket};
	return a->behind ? worker_stage_queue_put_behind(s, &copy) : worker_stage_queue_put(s, &copy);
}

/* ---- large copies: struct vcuda_handover ---- */

/* Number of looks without a pause for the next step of the guest or the device, and the length of a pause then. */
#define LOOKS 2000
#define NAP_US 50

struct double_buffer {
	struct worker_session *s;
	const struct vcuda_args_vcudaStageTurns *a;
	uint32_t blocks[VCUDA_STAGE_BLOCKS];
	struct worker_stage_events set; /* events after which the device is done with the block */
	unsigned int count;
	uint64_t pieces, issued, done;
};

/* The value of a block's word at which the block's piece can be given to the device. */
static uint32_t own_count(const struct double_buffer *t, uint64_t piece)
{
	return (uint32_t)(piece / t->count) * 2 + (t->a->toDevice ? 1 : 0);
}

static _Atomic uint32_t *handover_of(const struct double_buffer *t, uint64_t piece)
{
	struct vcuda_shm *shm = t->s->shm;

	return &shm->handovers[t->blocks[piece % t->count]].count;
}

/* The device's end with a piece is to be known where the guest does something then, and at the end of all. */
static bool needs_event(const struct double_buffer *t, uint64_t piece)
{
	return !t->a->toDevice || t->pieces - piece > t->count || piece + 1 == t->pieces;
}

static CUresult issue(struct double_buffer *t)
{
	const struct vcuda_args_vcudaStageTurns *a = t->a;
	uint64_t offset = t->issued * a->piece;
	size_t bytes = a->ByteCount - offset < a->piece ? a->ByteCount - offset : a->piece;
	void *memory = vcuda_shm_stage(t->s->shm, t->blocks[t->issued % t->count]);
	CUresult result;

	if (a->toDevice)
		result = t->s->ops->cuMemcpyHtoDAsync_v2(a->device + offset, memory, bytes, a->hStream);
	else
		result = t->s->ops->cuMemcpyDtoHAsync_v2(memory, a->device + offset, bytes, a->hStream);
	if (result == CUDA_SUCCESS && needs_event(t, t->issued))
		result = t->s->ops->cuEventRecordWithFlags(t->set.events[t->issued % t->count], a->hStream, 0);
	t->issued += result == CUDA_SUCCESS;
	if (t->issued == t->pieces)
		worker_activity_end(t->s, a->hStream);
	return result;
}

/* CUDA_ERROR_NOT_READY: there is nothing to do now. */
static CUresult step(struct double_buffer *t)
{
	bool is_waiting = t->issued == t->pieces || t->issued - t->done == t->count;
	uint64_t oldest = needs_event(t, t->done) ? t->done : t->pieces - 1;
	CUevent event = t->set.events[oldest % t->count];
	CUresult result;

	if (!is_waiting && atomic_load(handover_of(t, t->issued)) == own_count(t, t->issued))
		return issue(t);
	if (oldest >= t->issued)
		return CUDA_ERROR_NOT_READY;
	/* The guest can do nothing before the device has. */
	result = is_waiting ? t->s->ops->cuEventSynchronize(event) : t->s->ops->cuEventQuery(event);
	if (result != CUDA_SUCCESS)
		return result;
	for (; t->done <= oldest; t->done++)
		atomic_store(handover_of(t, t->done), own_count(t, t->done) + 1);
	return CUDA_SUCCESS;
}

static CUresult double_buffer_run(struct double_buffer *t)
{
	CUresult result = CUDA_SUCCESS;
	unsigned int looks = 0;

	while (t->done < t->pieces && (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY)) {
		result = step(t);
		if (result == CUDA_SUCCESS)
			looks = 0;
		else if (looks++ < LOOKS)
			__builtin_ia32_pause();
		else
			usleep(NAP_US);
	}
	/* The next copy may use the blocks as soon as this copy has its answer. */
	if (result != CUDA_SUCCESS && t->issued > t->done)
		t->s->ops->cuStreamSynchronize(t->a->hStream);
	return result;
}

static CUresult is_possible(const struct worker_session *s, const struct vcuda_args_vcudaStageTurns *a)
{
	const struct vcuda_backend_ops *ops = s->ops;

	if (!a->ByteCount || !a->piece || a->piece > VCUDA_STAGE_BLOCK_BYTES || !a->blocks ||
	    a->blocks >> vcuda_shm_blocks(s->peer_minor))
		return CUDA_ERROR_INVALID_VALUE;
	if (!ops->cuMemcpyHtoDAsync_v2 || !ops->cuMemcpyDtoHAsync_v2 || !ops->cuEventCreate ||
	    !ops->cuEventRecordWithFlags || !ops->cuEventQuery || !ops->cuEventSynchronize || !ops->cuEventDestroy_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

CUresult vcuda_handle_vcudaStageTurns(struct worker_session *s, struct vcuda_args_vcudaStageTurns *a)
{
	struct double_buffer t = {.s = s, .a = a};
	CUresult result = is_possible(s, a);

	if (result != CUDA_SUCCESS)
		return result;
	worker_stage_pin(s, a->ByteCount);
	t.pieces = (a->ByteCount - 1) / a->piece + 1;
	for (uint32_t i = 0; i < VCUDA_STAGE_BLOCKS; i++)
		if (a->blocks >> i & 1)
			t.blocks[t.count++] = i;
	result = worker_stage_events_take(s, &t.set, t.count);
	if (result == CUDA_SUCCESS) {
		worker_activity_begin(s, a->hStream);
		result = double_buffer_run(&t);
		worker_activity_end(s, a->hStream);
	}
	worker_stage_events_give(s, &t.set, result == CUDA_SUCCESS);
	return result;
}
