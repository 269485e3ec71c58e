/* SPDX-License-Identifier: Apache-2.0 */
#include "copy/stage-queue.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "core/request.h"
#include "guest/client/session.h"
#include "guest/client/stage.h"
#include "protocol/guest-calls.h"
#include "ring/ring.h"

/* The place of a piece is counted in these from the beginning of time; a ticket is where a piece ends. */
#define UNIT 64u
#define UNITS (VCUDA_STAGE_BLOCK_BYTES / UNIT)

/* How often to look for room at once, and with others let run in between. */
#define LOOKS 64
#define YIELDS 256
#define GLANCES 16

/* Who has the lock fills the block. Nobody waits for it: there are other ways to copy. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool has_block; /* which is kept from then on */
static uint32_t block, end;
static char *memory;

static bool take_block(void)
{
	uint32_t bit = has_block ? 0 : client_stage_try();

	if (!bit)
		return has_block;
	block = (uint32_t)__builtin_ctz(bit);
	memory = vcuda_shm_stage(client_call_shm(), block);
	atomic_store(&client_call_shm()->handovers[block].count, end);
	has_block = true;
	return true;
}

static bool is_free(uint32_t units)
{
	return end + units - atomic_load(&client_call_shm()->handovers[block].count) <= UNITS;
}

/* Any call that is waited for comes behind all copies, those that were refused before they were one included. */
static CUresult free_all(void)
{
	unsigned int flags;
	CUresult result = vcuda_call_cuStreamGetFlags(NULL, &flags);

	if (result == CUDA_SUCCESS)
		atomic_store(&client_call_shm()->handovers[block].count, end);
	return result;
}

/* Where the next `units` are, which are in one piece. */
static CUresult find_room(uint32_t units, uint32_t *at)
{
	uint32_t to_end = UNITS - end % UNITS, skipped = units > to_end ? to_end : 0;

	*at = end + skipped;
	for (unsigned int i = 0; !is_free(skipped + units); i++) {
		if (i == LOOKS + YIELDS)
			return free_all();
		for (unsigned int k = 0; k < GLANCES; k++)
			__builtin_ia32_pause();
		if (i >= LOOKS)
			sched_yield();
	}
	return CUDA_SUCCESS;
}

/* CUDA_ERROR_NOT_READY: the context is not drained, and nothing was sent. */
static CUresult send_if_drained(struct call_context *context, uint64_t dst, uint32_t at, uint32_t ticket, size_t bytes)
{
	const struct call_options options = {.context = context, .only_drained = true};

	return vcuda_call_vcudaStageIn_with(&options, dst, block, at % UNITS * UNIT, ticket, bytes, 0);
}

/* Waits for the work that the default stream depends on. */
static CUresult send_behind(struct call_context *context, uint64_t dst, uint32_t at, uint32_t ticket, size_t bytes)
{
	struct call_receipt receipt;
	const struct call_options options = {.context = context, .wait = true, .receipt = &receipt};
	CUresult result = vcuda_call_vcudaStageIn_with(&options, dst, block, at % UNITS * UNIT, ticket, bytes, 1);

	if (result == CUDA_SUCCESS)
		client_call_drained(context, &receipt);
	return result;
}

/* Up to LIBCUDA_STAGE_PIECE bytes. */
static CUresult fill_and_send(struct libcuda_context *c, uint64_t dst, const char *src, size_t bytes, bool only_idle)
{
	uint32_t units = (uint32_t)((bytes + UNIT - 1) / UNIT), at;
	CUresult result = find_room(units, &at);

	if (result != CUDA_SUCCESS)
		return result;
	/* Memory that the device may write to is read when the device has nothing left to do. */
	if (only_idle && !libcuda_context_is_idle(c))
		return CUDA_ERROR_NOT_READY;
	memcpy(memory + at % UNITS * (size_t)UNIT, src, bytes);
	result = send_if_drained(&c->calls, dst, at, at + units, bytes);
	if (result == CUDA_ERROR_NOT_READY && only_idle)
		return result;
	if (result == CUDA_ERROR_NOT_READY)
		result = send_behind(&c->calls, dst, at, at + units, bytes);
	/* What was sent is the worker's until it gives it back, whatever has come of it. */
	end = at + units;
	return result;
}

static bool queue_in(struct libcuda_context *c, uint64_t dst, const char *src, size_t bytes, bool only_idle,
		     CUresult *result)
{
	bool begins;
	int cancel_state;

	if (client_session.transport->host_minor < vcuda_call_table[VCUDA_OP_vcudaStageIn].since_minor ||
	    pthread_mutex_trylock(&lock))
		return false;
	/* A thread that is cancelled in here would keep the lock. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	begins = take_block();
	for (size_t done = 0, part; begins && done < bytes; done += part) {
		part = bytes - done < LIBCUDA_STAGE_PIECE ? bytes - done : LIBCUDA_STAGE_PIECE;
		*result = fill_and_send(c, dst + done, src + done, part, only_idle);
		if (*result != CUDA_SUCCESS)
			break;
	}
	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(cancel_state, NULL);
	return begins;
}

bool libcuda_stage_queue_in(struct libcuda_context *c, uint64_t dst, const char *src, size_t bytes, CUresult *result)
{
	return queue_in(c, dst, src, bytes, false, result);
}

bool libcuda_stage_queue_idle(struct libcuda_context *c, uint64_t dst, const char *src, size_t bytes, CUresult *result)
{
	return queue_in(c, dst, src, bytes, true, result) && *result != CUDA_ERROR_NOT_READY;
}
