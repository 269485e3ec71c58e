/* SPDX-License-Identifier: Apache-2.0 */
#include "stage-queue.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "call.h"
#include "guest-calls.h"
#include "ring.h"
#include "session.h"
#include "stage.h"
#include "thread.h"

/* The place of a piece is counted in these from the beginning of time; a ticket is where a piece ends. */
#define UNIT 64u
#define UNITS (VCUDA_STAGE_BLOCK_BYTES / UNIT)

#define PIECE (64u * 1024)

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
	uint32_t bit = has_block ? 0 : vcuda_stage_try();

	if (!bit)
		return has_block;
	block = (uint32_t)__builtin_ctz(bit);
	memory = vcuda_shm_stage(vcuda_call_shm(), block);
	atomic_store(&vcuda_call_shm()->turns[block].turn, end);
	has_block = true;
	return true;
}

static bool is_free(uint32_t units)
{
	return end + units - atomic_load(&vcuda_call_shm()->turns[block].turn) <= UNITS;
}

/* Any call that is waited for comes behind all copies, those that were refused before they were one included. */
static CUresult free_all(void)
{
	unsigned int flags;
	CUresult result = vcuda_call_cuStreamGetFlags(NULL, &flags);

	if (result == CUDA_SUCCESS)
		atomic_store(&vcuda_call_shm()->turns[block].turn, end);
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

/* If the context is settled nothing is waited for; else what the default stream has to do is. */
static CUresult send(uint64_t dst, uint32_t at, uint32_t ticket, size_t bytes)
{
	struct vcuda_thread *thread = vcuda_thread();
	uint32_t offset = at % UNITS * UNIT;
	CUresult result;

	vcuda_call_only_settled();
	result = vcuda_call_vcudaStageIn(dst, block, offset, ticket, bytes, 0);
	vcuda_call_any();
	if (result != CUDA_ERROR_NOT_READY)
		return result;
	thread->call_sync = true;
	result = vcuda_call_vcudaStageIn(dst, block, offset, ticket, bytes, 1);
	thread->call_sync = false;
	if (result == CUDA_SUCCESS)
		vcuda_call_settles();
	return result;
}

static CUresult fill_and_send(uint64_t dst, const char *src, size_t bytes)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t done = 0; done < bytes && result == CUDA_SUCCESS;) {
		size_t part = bytes - done < PIECE ? bytes - done : PIECE;
		uint32_t units = (uint32_t)((part + UNIT - 1) / UNIT), at;

		result = find_room(units, &at);
		if (result != CUDA_SUCCESS)
			break;
		memcpy(memory + at % UNITS * (size_t)UNIT, src + done, part);
		result = send(dst + done, at, at + units, part);
		/* What was sent is the worker's until it gives it back, whatever has come of it. */
		end = at + units;
		done += part;
	}
	return result;
}

bool vcuda_stage_queue_in(uint64_t dst, const char *src, size_t bytes, CUresult *result)
{
	bool begins;
	int cancel_state;

	if (vcuda_session.transport->host_minor < vcuda_call_table[VCUDA_OP_vcudaStageIn].since_minor ||
	    pthread_mutex_trylock(&lock))
		return false;
	/* A thread that is cancelled in here would keep the lock. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	begins = take_block();
	if (begins)
		*result = fill_and_send(dst, src, bytes);
	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(cancel_state, NULL);
	return begins;
}
