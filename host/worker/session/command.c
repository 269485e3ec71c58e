/* SPDX-License-Identifier: Apache-2.0 */
#include "session/command.h"

#include "session/destroy.h"
#include "session/session.h"

/* More than any call names. */
#define MOST_USES 16

static __thread struct {
	const struct vcuda_command *command;
	bool may_wait;
	unsigned int use_count;
	uint64_t uses[MOST_USES];
} running;

void worker_command_begin(const struct vcuda_command *c)
{
	running.command = c;
	running.may_wait = false;
}

const struct vcuda_command *worker_command(void)
{
	return running.command;
}

void worker_command_note_wait(void)
{
	running.may_wait = true;
}

bool worker_command_may_wait(void)
{
	return running.may_wait;
}

void *worker_command_use(struct worker_session *s, uint64_t id, uint32_t kinds)
{
	void *object = running.use_count < MOST_USES ? worker_handle_get(s->handles, id, kinds) : NULL;

	if (object)
		running.uses[running.use_count++] = id;
	return object;
}

void worker_command_end(struct worker_session *s)
{
	bool ready = worker_handles_put(s->handles, running.uses, running.use_count);

	running.use_count = 0;
	if (ready)
		worker_destroy_ready(s);
}

uint64_t worker_command_context(void)
{
	return running.command ? running.command->context : 0;
}

void *worker_command_stage(struct worker_session *s, uint32_t block, uint64_t bytes)
{
	if (block >= vcuda_shm_blocks(s->peer_minor) || bytes > VCUDA_STAGE_BLOCK_BYTES)
		return NULL;
	return vcuda_shm_stage(s->shm, block);
}

/* An error belongs to its context. An error that no call reported ends with the context. */
static uint64_t pending_error(uint64_t context, CUresult error)
{
	return (uint64_t)(uint32_t)(context ^ context >> 32) << 32 | (uint32_t)error;
}

static bool is_in_context(uint64_t pending, uint64_t context)
{
	return (uint32_t)pending && pending == pending_error(context, (CUresult)pending);
}

/* The place of the context's error, or else a free place, or else another context's. *there: what was found there. */
static _Atomic uint64_t *place_of_error(struct worker_session *s, const struct vcuda_command *c, uint64_t *there)
{
	_Atomic uint64_t *all = s->async_error[c->thread % WORKER_THREADS], *place = NULL;

	for (int i = 0; i < WORKER_PENDING_ERRORS; i++) {
		*there = atomic_load(&all[i]);
		if (is_in_context(*there, c->context))
			return &all[i];
		if (!place && !*there)
			place = &all[i];
	}
	/* Errors of ended contexts are kept, so all places may be taken: then one error is replaced. */
	*there = 0;
	if (!place) {
		place = &all[c->context % WORKER_PENDING_ERRORS];
		*there = atomic_load(place);
	}
	return place;
}

bool worker_command_has_error(struct worker_session *s)
{
	uint64_t there;

	place_of_error(s, running.command, &there);
	return is_in_context(there, running.command->context);
}

void worker_command_record_error(struct worker_session *s, const struct vcuda_command *c, CUresult error)
{
	_Atomic uint64_t *place;
	uint64_t there;

	/* another lane may take the place meanwhile */
	do
		place = place_of_error(s, c, &there);
	while (!is_in_context(there, c->context) &&
	       !atomic_compare_exchange_weak(place, &there, pending_error(c->context, error)));
}

CUresult worker_command_take_error(struct worker_session *s, const struct vcuda_command *c)
{
	uint64_t there;
	_Atomic uint64_t *place = place_of_error(s, c, &there);

	while (is_in_context(there, c->context))
		if (atomic_compare_exchange_weak(place, &there, 0))
			return (CUresult)(uint32_t)there;
	return CUDA_SUCCESS;
}
