/* SPDX-License-Identifier: Apache-2.0 */
#include "queue/lanes.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/deadline.h"
#include "common/start-thread.h"
#include "queue/stage-queue.h"
#include "ring/ring.h"
#include "session/destroy.h"
#include "session/dispatch.h"
#include "session/handle.h"
#include "session/session.h"

/* Launches have at most 4 KiB of parameters. */
#define SLOT_BYTES 8192u
#define SLOTS 32u

/* A lane looks for more without a pause. Then, with a GPU, it lets others run in between. Then it sleeps. */
#define SPIN_NS 50000
#define YIELD_NS 500000

/* A thread that waits for a lane looks so often without a pause, lets others run so often, and then sleeps. */
#define LOOKS 1000
#define YIELDS 100

/* After so many launches of one thread, or in one context, its commands need no lane. */
#define ALONE_LAUNCHES 1000

struct lane {
	uint64_t context;
	void *opened;
	bool yields;
	uint32_t seen; /* the owner's: what `done` was */
	_Alignas(64) _Atomic uint32_t given;
	_Atomic bool sleeps;
	_Alignas(64) _Atomic uint32_t done;
	_Atomic uint32_t waiters; /* that sleep until `done` changes */
	_Alignas(64) uint8_t slots[SLOTS][SLOT_BYTES];
};

static struct {
	worker_lanes_open open;
	worker_lanes_run run;
	struct lane *all[WORKER_LANES];
	uint64_t failed; /* the last context for which there was no memory or thread */
	unsigned int searched_for; /* live contexts at the last search for a free lane that found none */
} lanes;

static bool is_empty(const struct lane *l)
{
	return atomic_load_explicit(&l->given, memory_order_acquire) ==
	       atomic_load_explicit(&l->done, memory_order_relaxed);
}

static void sleep_while_empty(struct lane *l)
{
	uint32_t seen = atomic_load(&l->done);

	atomic_store(&l->sleeps, true);
	if (atomic_load(&l->given) == seen)
		syscall(SYS_futex, &l->given, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
	atomic_store(&l->sleeps, false);
}

static void wait_for_command(struct lane *l)
{
	uint64_t since = vcuda_now_ns(), idle = 0;

	for (; is_empty(l); idle = vcuda_now_ns() - since) {
		if (idle < SPIN_NS)
			for (int i = 0; i < 16 && is_empty(l); i++)
				__builtin_ia32_pause();
		else if (l->yields && idle < YIELD_NS)
			sched_yield();
		else
			sleep_while_empty(l);
	}
}

static void *serve(void *argument)
{
	struct lane *l = argument;

	for (;;) {
		uint32_t done = atomic_load_explicit(&l->done, memory_order_relaxed);

		if (is_empty(l))
			wait_for_command(l);
		lanes.run(l->opened, (const struct vcuda_command *)l->slots[done % SLOTS]);
		atomic_store(&l->done, done + 1);
		if (atomic_load(&l->waiters))
			syscall(SYS_futex, &l->done, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	}
	return NULL;
}

static struct lane *lane_of(uint64_t context)
{
	for (int i = 0; i < WORKER_LANES && lanes.all[i]; i++)
		if (lanes.all[i]->context == context)
			return lanes.all[i];
	return NULL;
}

static struct lane *make_lane(uint64_t context, bool yields)
{
	struct lane *l = aligned_alloc(64, sizeof(*l));
	void *opened = l ? lanes.open() : NULL;

	if (opened) {
		memset(l, 0, offsetof(struct lane, slots));
		l->context = context;
		l->opened = opened;
		l->yields = yields;
		if (vcuda_thread_start_with(NULL, vcuda_faults, serve, l))
			return l;
	}
	free(opened);
	free(l);
	return NULL;
}

static bool is_context(struct worker_session *s, uint64_t id)
{
	bool is = worker_handle_get(s->handles, id, WORKER_ACCEPT(VCUDA_KIND_CONTEXT));

	if (is && worker_handle_put(s->handles, id))
		worker_destroy_ready(s);
	return is;
}

/* A lane whose context has been destroyed, and that has run all, gets another one. */
static struct lane *take_over_lane(struct worker_session *s, uint64_t context)
{
	unsigned int live = worker_handle_live(s->handles, VCUDA_KIND_CONTEXT);
	bool any_free = false;

	/* The search takes time, and was in vain for as many contexts. */
	if (live == lanes.searched_for)
		return NULL;
	for (int i = 0; i < WORKER_LANES; i++) {
		struct lane *l = lanes.all[i];
		bool is_free = !is_context(s, l->context);

		if (is_free && is_empty(l)) {
			l->context = context;
			return l;
		}
		any_free |= is_free;
	}
	lanes.searched_for = any_free ? 0 : live;
	return NULL;
}

static struct lane *add_lane(struct worker_session *s, uint64_t context)
{
	int i = 0;

	if (context == lanes.failed || !is_context(s, context))
		return NULL;
	while (i < WORKER_LANES && lanes.all[i])
		i++;
	if (i == WORKER_LANES)
		return take_over_lane(s, context);
	lanes.all[i] = make_lane(context, strcmp(s->ops->name, "cpu"));
	if (!lanes.all[i])
		lanes.failed = context;
	return lanes.all[i];
}

void worker_lanes_start(worker_lanes_open open, worker_lanes_run run)
{
	lanes.open = open;
	lanes.run = run;
}

static void sleep_until_change(struct lane *l, uint32_t seen)
{
	atomic_fetch_add(&l->waiters, 1);
	if (atomic_load(&l->done) == seen)
		syscall(SYS_futex, &l->done, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
	atomic_fetch_sub(&l->waiters, 1);
}

/* Waits until so many commands have been run. Counts wrap around. */
static void wait_until(struct lane *l, uint32_t count)
{
	uint32_t done;

	for (unsigned int looks = 0; done = atomic_load(&l->done), (int32_t)(done - count) < 0; looks++) {
		if (looks < LOOKS)
			__builtin_ia32_pause();
		else if (looks < LOOKS + YIELDS)
			sched_yield();
		else
			sleep_until_change(l, done);
	}
}

/* ---- which lane ---- */

/* Where commands have a stream and an event in their words. A lane runs what is of one context. */
static const struct places {
	unsigned int op;
	int stream, event; /* -1: none */
} places[] = {
	{VCUDA_OP_vcudaLaunchKernel, 8, -1},
	{VCUDA_OP_vcudaLaunchClusters, 11, -1},
	{VCUDA_OP_cuEventRecordWithFlags, 1, 0},
	{VCUDA_OP_cuStreamWaitEvent, 0, 1},
};

/* NULL: no lane runs such a command. */
static const struct places *places_of(const struct vcuda_command *c)
{
	for (size_t n = 0; n < sizeof(places) / sizeof(places[0]); n++)
		if (places[n].op == c->op)
			return &places[n];
	return NULL;
}

/* The context of a stream or an event in the command; 0: none that is known. Default streams are of the current one. */
static uint64_t context_at(struct worker_session *s, const struct vcuda_command *c, int place)
{
	const uint64_t *words = (const uint64_t *)(c + 1);

	if (place < 0)
		return c->context;
	if (c->size < sizeof(*c) + ((size_t)place + 1) * sizeof(*words))
		return 0;
	if (words[place] <= (uintptr_t)CU_STREAM_PER_THREAD)
		return c->context;
	return worker_handle_context(s->handles, words[place]);
}

static bool fits(struct worker_session *s, const struct vcuda_command *c)
{
	const struct places *p = places_of(c);

	return p && context_at(s, c, p->stream) == c->context && context_at(s, c, p->event) == c->context;
}

/* Whether launches come from several threads in several contexts. */
static bool has_several(const struct vcuda_command *c)
{
	static uint64_t context;
	static uint32_t thread, alone;
	static bool several;

	if (c->op != VCUDA_OP_vcudaLaunchKernel && c->op != VCUDA_OP_vcudaLaunchClusters)
		return several;
	if (context && context != c->context && thread != c->thread) {
		several = true;
		alone = 0;
	} else if (alone++ == ALONE_LAUNCHES) {
		several = false;
	}
	context = c->context;
	thread = c->thread;
	return several;
}

static struct lane *lane_for(struct worker_session *s, const struct vcuda_command *c)
{
	struct lane *l;

	if (!has_several(c) || c->size > SLOT_BYTES || !fits(s, c) || worker_stage_queue_any())
		return NULL;
	l = lane_of(c->context);
	return l ? l : add_lane(s, c->context);
}

/* Waits for room. The owner reads what the lane writes only when it must: each read takes the cache line from there. */
static void wait_for_room(struct lane *l, uint32_t given)
{
	if (given - l->seen < SLOTS)
		return;
	wait_until(l, given - (SLOTS - 1));
	l->seen = atomic_load(&l->done);
}

bool worker_lanes_give(struct worker_session *s, const struct vcuda_command *c)
{
	struct lane *l = lane_for(s, c);
	uint32_t given;

	if (!l)
		return false;
	given = atomic_load_explicit(&l->given, memory_order_relaxed);
	wait_for_room(l, given);
	memcpy(l->slots[given % SLOTS], c, c->size);
	atomic_store(&l->given, given + 1);
	if (atomic_load(&l->sleeps))
		syscall(SYS_futex, &l->given, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	return true;
}

/* Whether the command concerns what its context's lane has been given, and nothing of others. */
static bool is_of_one(struct worker_session *s, const struct vcuda_command *c)
{
	if (c->op == VCUDA_OP_cuStreamSynchronize || c->op == VCUDA_OP_cuStreamQuery || c->op == VCUDA_OP_cuEventQuery)
		return context_at(s, c, 0) == c->context;
	return fits(s, c);
}

void worker_lanes_mark(struct worker_session *s, const struct vcuda_command *c, struct worker_lanes_mark *mark)
{
	bool of_one = lanes.all[0] && is_of_one(s, c);

	mark->lanes = 0;
	for (int i = 0; i < WORKER_LANES && lanes.all[i]; i++) {
		if (of_one && lanes.all[i]->context != c->context)
			continue;
		mark->counts[i] = atomic_load_explicit(&lanes.all[i]->given, memory_order_relaxed);
		mark->lanes |= 1u << i;
	}
}

void worker_lanes_reach(const struct worker_lanes_mark *mark)
{
	for (uint32_t left = mark->lanes; left; left &= left - 1)
		wait_until(lanes.all[__builtin_ctz(left)], mark->counts[__builtin_ctz(left)]);
}
