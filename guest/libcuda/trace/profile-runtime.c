/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of NVIDIA's runtime (doc/reference/private-tables.md), which looks at a switch for each of its functions and tells of the
 * calls of those whose switch is on, before and after. Its record of a call is the same memory both times.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/deadline.h"
#include "core/hooks.h"
#include "trace/profile.h"

/* The layout is the same in the runtimes of CUDA 12 and 13. */
struct record {
	uint32_t size, unknown_1;
	uint64_t context_number, stream_number, unknown_2;
	uint64_t *correlation_data;
	const uint32_t *result;
	const char *function;
	const void *parameters;
	CUcontext context;
	CUstream stream;
	uint32_t number; /* of the function */
	uint32_t is_end;
	const char *symbol;
};

/* Calls of the runtime within calls of the runtime. */
#define DEEPEST 8

struct runtime_call {
	const struct record *record;
	struct libcuda_profile_entered entered;
	uint64_t start;
	uint32_t round;
};

struct runtime_calls {
	unsigned int depth;
	struct runtime_call all[DEEPEST];
};

uint32_t libcuda_runtime_switches[LIBCUDA_RUNTIME_FUNCTIONS];

/* The ends of calls that are under way when the switches change may stay unseen: their entries are of an earlier round. */
static _Atomic uint32_t current_round;

void libcuda_profile_switch_runtime(bool on)
{
	if (__atomic_load_n(&libcuda_runtime_switches[0], __ATOMIC_RELAXED) == on)
		return;
	atomic_fetch_add(&current_round, 1);
	for (unsigned int i = 0; i < LIBCUDA_RUNTIME_FUNCTIONS; i++)
		__atomic_store_n(&libcuda_runtime_switches[i], on, __ATOMIC_RELAXED);
}

/* NULL: there is no memory. */
static struct runtime_calls *calls_of_thread(void)
{
	void **slot = &libcuda_thread()->slots[LIBCUDA_THREAD_RUNTIME];

	if (!*slot)
		*slot = calloc(1, sizeof(struct runtime_calls));
	return *slot;
}

static void end_thread(struct libcuda_thread *thread)
{
	free(thread->slots[LIBCUDA_THREAD_RUNTIME]);
	thread->slots[LIBCUDA_THREAD_RUNTIME] = NULL;
}

static struct libcuda_observer observer = {.thread_exits = end_thread};

__attribute__((constructor)) static void start(void)
{
	libcuda_observe(&observer);
}

/* Drops the innermost entries whose calls have ended unseen. A call within another one has its record below. */
static void drop_ended(struct runtime_calls *calls, const struct record *lowest)
{
	uint32_t round = atomic_load(&current_round);

	while (calls->depth) {
		const struct runtime_call *c = &calls->all[calls->depth - 1];

		if (c->record >= lowest && c->round == round)
			break;
		libcuda_thread()->recorded = c->entered.before;
		calls->depth--;
	}
}

static void begin(const struct record *r)
{
	struct runtime_calls *calls = calls_of_thread();
	struct runtime_call *c;

	if (!calls)
		return;
	drop_ended(calls, r + 1);
	if (calls->depth == DEEPEST)
		return;
	c = &calls->all[calls->depth];
	*c = (struct runtime_call){
		.record = r,
		.round = atomic_load(&current_round),
		.entered.site =
			{
				.domain = VCUDA_PROFILE_RUNTIME,
				.call = r->number,
				.name = r->function,
				.parameters = r->parameters,
				.symbol = r->symbol,
			},
	};
	if (!libcuda_profile_enter_site(&c->entered))
		return;
	calls->depth++;
	c->start = vcuda_now_ns();
}

static void end(const struct record *r)
{
	struct runtime_calls *calls = calls_of_thread();
	struct libcuda_profile_call c = {0};
	struct runtime_call *call;

	if (!calls)
		return;
	drop_ended(calls, r);
	/* A call that began unseen has no entry. */
	if (!calls->depth || calls->all[calls->depth - 1].record != r)
		return;
	call = &calls->all[--calls->depth];
	c.note = (struct vcuda_profile_note){
		.start = call->start,
		.end = vcuda_now_ns(),
		.domain = VCUDA_PROFILE_RUNTIME,
		.call = r->number,
		.tid = (int)gettid(),
		.result = r->result ? (int)*r->result : 0,
	};
	if (libcuda_profile_leave_site(&call->entered, r->result, &c.note))
		libcuda_profile_add(&c);
}

void libcuda_runtime_callback(uint32_t number, const void *record)
{
	const struct record *r = record;

	if (!r || r->size < sizeof(*r) || number != r->number)
		return;
	if (r->is_end)
		end(r);
	else
		begin(r);
}
