/* SPDX-License-Identifier: Apache-2.0 */
#include "copy/stage-queue.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "core/hooks.h"
#include "core/request.h"
#include "guest/client/section.h"
#include "guest/client/session.h"
#include "guest/client/stage.h"
#include "memory/memory.h"
#include "protocol/guest-calls.h"
#include "ring/ring.h"
#include "stream/stream.h"

/* Positions count units since the session's start; a ticket is the position of a piece's end. */
#define UNIT 64u
#define UNITS (VCUDA_STAGE_BLOCK_BYTES / UNIT)

/* A thread looks for room LOOKS times, then YIELDS times with a yield before each. It pauses GLANCES times in a look.
 */
#define LOOKS 64
#define YIELDS 256
#define GLANCES 16

/* A thread keeps the lock for so many bytes. */
#define LOCKED_BYTES ((size_t)512 * 1024)

/* A thread that cannot take the lock copies by blocks of its own. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool has_block;                  /* from the first copy on */
static uint32_t block, end, given_back; /* positions: of the last piece's end, of what the worker has given back */
static char *memory;

/* The device has read all up to there. */
static void set_read(uint32_t position)
{
	client_section_enter();
	atomic_store(&client_call_shm()->handovers[block].count, position);
	client_section_leave();
}

static bool take_block(void)
{
	uint32_t bit = has_block ? 0 : client_stage_try();

	if (!bit)
		return has_block;
	block = (uint32_t)__builtin_ctz(bit);
	memory = vcuda_shm_stage(client_call_shm(), block);
	given_back = end;
	set_read(end);
	has_block = true;
	return true;
}

static void glance(void)
{
	for (unsigned int k = 0; k < GLANCES; k++)
		__builtin_ia32_pause();
}

/* Reads the word that the worker writes only where its last value leaves no room. */
static bool is_free(uint32_t units)
{
	if (end + units - given_back > UNITS)
		given_back = atomic_load(&client_call_shm()->handovers[block].count);
	return end + units - given_back <= UNITS;
}

/* The worker answers a call after all pieces before it, also those that it refused. */
static CUresult free_all(void)
{
	unsigned int flags;
	CUresult result = vcuda_call_cuStreamGetFlags(NULL, &flags);

	if (result == CUDA_SUCCESS)
		set_read(end);
	return result;
}

/* The place of the next `units`, without a gap. */
static CUresult find_room(uint32_t units, uint32_t *at)
{
	uint32_t to_end = UNITS - end % UNITS, skipped = units > to_end ? to_end : 0;

	*at = end + skipped;
	for (unsigned int i = 0; !is_free(skipped + units); i++) {
		if (i == LOOKS + YIELDS)
			return free_all();
		glance();
		if (i >= LOOKS)
			sched_yield();
	}
	return CUDA_SUCCESS;
}

/* ---- posted pieces ---- */

/* Up to LIBCUDA_STAGE_PIECE bytes, which are in the block. CUDA_ERROR_NOT_READY: nothing was sent. */
static CUresult send_if_drained(const struct libcuda_transfer *t, uint32_t at, uint32_t ticket)
{
	const struct call_options options = {.context = t->how->context, .only_drained = true};

	return vcuda_call_vcudaStageIn_with(&options, t->device, block, at % UNITS * UNIT, ticket, t->bytes, 0);
}

/* Waits for the work that the default stream depends on. */
static CUresult send_behind(const struct libcuda_transfer *t, uint32_t at, uint32_t ticket)
{
	struct call_receipt receipt;
	const struct call_options options = {.context = t->how->context, .wait = true, .receipt = &receipt};
	CUresult result =
		vcuda_call_vcudaStageIn_with(&options, t->device, block, at % UNITS * UNIT, ticket, t->bytes, 1);

	if (result == CUDA_SUCCESS)
		client_call_drained(t->how->context, &receipt);
	return result;
}

static CUresult post(const struct libcuda_transfer *t, bool only_idle)
{
	uint32_t units = (uint32_t)((t->bytes + UNIT - 1) / UNIT), at;
	CUresult result = find_room(units, &at);

	if (result != CUDA_SUCCESS)
		return result;
	/* Memory that the device may write to is read when the device has nothing left to do. */
	if (only_idle && !libcuda_context_is_idle(libcuda_request_context(t->how)))
		return CUDA_ERROR_NOT_READY;
	client_section_enter();
	memcpy(memory + at % UNITS * (size_t)UNIT, t->host, t->bytes);
	client_section_leave();
	result = send_if_drained(t, at, at + units);
	if (result == CUDA_ERROR_NOT_READY && only_idle)
		return result;
	if (result == CUDA_ERROR_NOT_READY)
		result = send_behind(t, at, at + units);
	/* The worker gives back what was sent, whatever the result is. */
	end = at + units;
	return result;
}

/*
 * Whether the copy may be in progress when its function returns: later work waits for it, and its address is known to
 * be good. Not where another process may read the memory, and not where managed variables are mirrored.
 */
static bool may_return_early(const struct libcuda_transfer *t)
{
	return !libcuda_mirror_ops() && !libcuda_memory_is_watched && !t->how->wait;
}

/* While the context is drained other threads hold the lock for a piece only; else they may wait for a kernel with it.
 */
static bool take_lock(struct call_context *context)
{
	for (unsigned int i = 0; pthread_mutex_trylock(&lock); i++) {
		if (i == LOOKS || !client_call_is_drained(context))
			return false;
		glance();
	}
	return true;
}

/* Returns how many bytes were taken before *result: less than all where another thread uses the block. */
static size_t post_all(const struct libcuda_transfer *t, bool only_idle, CUresult *result)
{
	size_t done = 0;
	int cancel_state;

	*result = CUDA_SUCCESS;
	if (client_session.transport->host_minor < vcuda_call_table[VCUDA_OP_vcudaStageIn].since_minor ||
	    !libcuda_transfer_is_plain(t) || !may_return_early(t) || !take_lock(t->how->context))
		return 0;
	/* A thread that is cancelled in here would keep the lock. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	while (take_block() && done < t->bytes && *result == CUDA_SUCCESS) {
		size_t rest = t->bytes - done, bytes = rest < LIBCUDA_STAGE_PIECE ? rest : LIBCUDA_STAGE_PIECE;
		struct libcuda_transfer piece = libcuda_transfer_part(t, done, done + bytes);

		*result = post(&piece, only_idle);
		done += bytes;
	}
	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(cancel_state, NULL);
	return done;
}

bool libcuda_stage_queue_copy_idle(const struct libcuda_transfer *t, CUresult *result)
{
	libcuda_transfer_touch(t);
	return post_all(t, true, result) && *result != CUDA_ERROR_NOT_READY;
}

/* ---- pieces that are waited for: a block each ---- */

static CUresult copy_block(const struct libcuda_transfer *t, uint32_t taken, void *bytes)
{
	struct call_options options = *t->how;
	struct call_receipt receipt;
	CUresult result;

	if (t->to_device) {
		memcpy(bytes, t->host, t->bytes);
		return vcuda_call_vcudaStageHtoD_with(&options, t->device, taken, t->bytes, t->stream,
						      !libcuda_transfer_is_plain(t));
	}
	options.receipt = &receipt;
	result = vcuda_call_vcudaStageDtoH_with(&options, t->device, taken, t->bytes, t->stream,
						!libcuda_transfer_is_plain(t));
	if (result != CUDA_SUCCESS)
		return result;
	memcpy(t->host, bytes, t->bytes);
	if (libcuda_transfer_is_plain(t) && options.context)
		client_call_drained(options.context, &receipt);
	return CUDA_SUCCESS;
}

static CUresult copy_blocks(const struct libcuda_transfer *t)
{
	CUresult result = CUDA_SUCCESS;
	void *bytes;
	uint32_t taken = client_stage_take(&bytes);

	for (size_t done = 0; done < t->bytes && result == CUDA_SUCCESS;) {
		size_t rest = t->bytes - done, part = rest < VCUDA_STAGE_BLOCK_BYTES ? rest : VCUDA_STAGE_BLOCK_BYTES;
		struct libcuda_transfer piece = libcuda_transfer_part(t, done, done + part);

		result = copy_block(&piece, taken, bytes);
		done += part;
	}
	client_stage_give(taken);
	return result;
}

/* Returns how many bytes were taken before *result. The lock is free between two parts. */
static size_t post_parts(const struct libcuda_transfer *t, CUresult *result)
{
	size_t done = 0, part = t->bytes, taken = t->bytes;

	*result = CUDA_SUCCESS;
	for (; done < t->bytes && taken == part && *result == CUDA_SUCCESS; done += taken) {
		size_t rest = t->bytes - done;
		struct libcuda_transfer piece;

		part = rest < LOCKED_BYTES ? rest : LOCKED_BYTES;
		piece = libcuda_transfer_part(t, done, done + part);
		libcuda_transfer_touch(&piece);
		taken = post_all(&piece, false, result);
	}
	return done;
}

CUresult libcuda_stage_queue_copy(const struct libcuda_transfer *t)
{
	struct libcuda_transfer rest;
	CUresult result;
	size_t done;

	if (!t->to_device)
		return copy_blocks(t);
	done = post_parts(t, &result);
	/* The thread that ends the wait may need a block, so none is held meanwhile. */
	if (done < t->bytes && result == CUDA_SUCCESS)
		result = libcuda_stream_wait(t->how, t->stream);
	if (done == t->bytes || result != CUDA_SUCCESS)
		return result;
	rest = libcuda_transfer_part(t, done, t->bytes);
	return copy_blocks(&rest);
}
