/* SPDX-License-Identifier: Apache-2.0 */
#include "queue/dispatcher.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "queue/callback.h"
#include "queue/compile-watch.h"
#include "session/command.h"
#include "session/compiling.h"
#include "session/dispatch.h"
#include "common/deadline.h"
#include "common/log.h"
#include "common/trace-point.h"
#include "queue/gate.h"
#include "queue/lanes.h"
#include "queue/turn.h"
#include "queue/output.h"
#include "common/probe.h"
#include "protocol/activity-rows.h"
#include "queue/profile.h"
#include "session/activity.h"
#include "session/ledger.h"
#include "session/release.h"
#include "session/worker-table-slot.h"
#include "session/session.h"
#include "queue/stage-queue.h"

/*
 * How long an owner looks at an empty ring before it sleeps: longer than the gap between two calls of a busy program.
 * With a GPU it goes on, and lets others run in between, for the gaps in which a program waits for that.
 */
#define SPIN_NS 50000
#define GPU_SPIN_NS 500000

/* At most one synchronous call for each reply slot, one owner, one follower that waits, one spare thread. */
#define MAX_THREADS (VCUDA_SLOTS + 3)

#define ARENA_BYTES (256u * 1024)

enum { NO_THREAD, SPARE, PASSED };

static struct {
	struct worker_session *session;
	struct vcuda_consumer consumer;	/* the owner's */
	_Atomic bool owned;
	_Atomic int spare;		/* NO_THREAD, SPARE or PASSED */
	_Atomic unsigned int idle;	/* threads that wait at the doorbell */
	_Atomic unsigned int threads;
	_Atomic uint64_t context_calls;	/* calls that may have made or ended contexts */
	_Atomic uint64_t first_context;	/* 0: none yet */
	bool has_trace_points;
} dispatcher;

/* Per thread of the pool: where a command lives while it runs. */
struct runner {
	_Alignas(8) uint8_t command[VCUDA_COMMAND_MAX];
	_Alignas(8) uint8_t arena[ARENA_BYTES];
	_Alignas(8) uint8_t reply[VCUDA_REPLY_MAX];
	uint64_t context;	/* id that is current in the back end for this thread */
	uint64_t context_calls;	/* as it was then: an id may name nothing any more, or a context that was made anew */
	bool has_context;
};

void worker_dispatcher_wake_guest(struct worker_session *s)
{
	struct vcuda_shm *shm = s->shm;

	if (s->notify >= 0) {
		if (write(s->notify, &(uint64_t){1}, 8) < 0)
			vcuda_log("cannot signal vcudad: %s", strerror(errno));
	} else {
		syscall(SYS_futex, &shm->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	}
}

/* Makes the command's context current in the back end; a driver thread's state means nothing between commands. */
static CUresult enter_context(struct worker_session *s, struct runner *r, uint64_t id)
{
	void *context = (void *)(uintptr_t)id;
	uint64_t calls = atomic_load(&dispatcher.context_calls);
	CUresult result;

	result = worker_resolve(s, WORKER_ACCEPT(VCUDA_KIND_CONTEXT), 1, &context);
	if (result == CUDA_SUCCESS && r->has_context && r->context == id && r->context_calls == calls)
		return CUDA_SUCCESS;
	if (result == CUDA_SUCCESS)
		result = s->ops->cuCtxSetCurrent(context);
	r->has_context = result == CUDA_SUCCESS;
	r->context = id;
	r->context_calls = calls;
	return result;
}

/*
 * The first context that commands come in stays current. A second one, which often ends while others are in use, does
 * not: the driver was seen to fail where one thread ends a context and others, in which that is current, go on to
 * another one (doc/reference/driver-behaviour.md).
 */
static void leave_context(struct worker_session *s, struct runner *r)
{
	uint64_t first = atomic_load_explicit(&dispatcher.first_context, memory_order_relaxed);

	if (first == r->context || (!first && atomic_compare_exchange_strong(&dispatcher.first_context, &first, r->context)))
		return;
	s->ops->cuCtxSetCurrent(NULL);
	r->has_context = false;
}

/* The driver answers such a call at once, whatever the device does: the dispatcher is kept, and no follower made ready. */
static bool is_prompt(unsigned int op)
{
	return op == VCUDA_OP_cuStreamQuery || op == VCUDA_OP_cuEventQuery || op == VCUDA_OP_cuEventElapsedTime_v2;
}

/* True: the command's handler orders itself against copies of the stage queue. */
static bool minds_copies(unsigned int op)
{
	return op == VCUDA_OP_vcudaStageIn || op == VCUDA_OP_vcudaLaunchKernel;
}

/*
 * In such a call a back end compiles a guest's program, which may take long, or reads it to compile it later. The device
 * gets no work but a copy.
 */
static bool loads_code(unsigned int op)
{
	return op == VCUDA_OP_cuModuleLoadData || op == VCUDA_OP_cuLibraryLoadData || op == VCUDA_OP_vcudaLinkAdd ||
	       op == VCUDA_OP_vcudaLinkComplete;
}

static CUresult call(struct worker_session *s, unsigned int op, struct vcuda_reader *reader, struct vcuda_arena *arena,
		     struct vcuda_writer *w)
{
	struct worker_compile_watch watch;
	CUresult result;

	if (!loads_code(op))
		return worker_dispatch_table[op](s, reader, arena, w);
	worker_compile_watch_begin(&watch);
	result = worker_dispatch_table[op](s, reader, arena, w);
	worker_compile_watch_end(&watch);
	return result;
}

static CUresult dispatch(struct worker_session *s, struct runner *r, const struct vcuda_command *c, struct vcuda_writer *w)
{
	const uint8_t *body = (const uint8_t *)(c + 1);
	struct vcuda_reader reader = vcuda_reader_init(body, c->size - sizeof(*c));
	struct vcuda_arena arena = {r->arena, r->arena + sizeof(r->arena)};
	CUresult result;

	worker_command_begin(c);
	worker_release_wait();
	if (c->op >= VCUDA_OP_LIMIT || !worker_dispatch_table[c->op])
		return worker_malformed(s);
	if (!s->ops && c->op != VCUDA_OP_vcudaHello)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!minds_copies(c->op) && worker_stage_queue_any())
		worker_stage_queue_drain(s);
	if (vcuda_call_table[c->op].context) {
		result = enter_context(s, r, c->context);
		if (result != CUDA_SUCCESS)
			return result;
		result = call(s, c->op, &reader, &arena, w);
		leave_context(s, r);
		return result;
	}
	/* Calls without a context may change the thread's current one behind our back, and end those of other threads.
	 */
	result = call(s, c->op, &reader, &arena, w);
	atomic_fetch_add(&dispatcher.context_calls, 1);
	return result;
}

/* Not a query, and not a wait for what other commands have given the device. */
static bool passes_gate(unsigned int op)
{
	return op < VCUDA_OP_LIMIT && !is_prompt(op) && op != VCUDA_OP_cuStreamSynchronize &&
	       op != VCUDA_OP_cuEventSynchronize && op != VCUDA_OP_cuCtxSynchronize;
}

/* For probes. */
static const char *name_of(unsigned int op)
{
	return op < VCUDA_OP_LIMIT ? vcuda_call_table[op].name : NULL;
}

static void profile_command(const struct vcuda_command *c, unsigned int profile, uint64_t start)
{
	uint64_t end = vcuda_now_ns();

	if (profile & VCUDA_PROFILE_COUNTS)
		worker_profile_add(c->op, end - start);
	if (profile & VCUDA_PROFILE_ACTIVITIES)
		worker_activity_command(c, start, end);
}

static CUresult run_command(struct worker_session *s, struct runner *r, const struct vcuda_command *c, struct vcuda_writer *w)
{
	const struct vcuda_shm *shm = s->shm;
	unsigned int profile = atomic_load_explicit(&shm->profile, memory_order_relaxed);
	uint64_t start = profile ? vcuda_now_ns() : 0;
	bool is_gated = passes_gate(c->op), in_turn = false;
	CUresult result;

	VCUDA_PROBE3(command_begin, c->op, name_of(c->op), c->seq);
	if (is_gated)
		in_turn = worker_gate_enter(!loads_code(c->op));
	result = dispatch(s, r, c, w);
	worker_command_end(s);
	if (is_gated)
		worker_gate_leave(in_turn);
	if (in_turn && worker_command_may_wait())
		worker_turn_may_wait();
	VCUDA_PROBE3(command_end, c->op, c->seq, result);
	if (profile && c->op < VCUDA_OP_LIMIT)
		profile_command(c, profile, start);
	return result;
}

_Noreturn void worker_dispatcher_end(struct worker_session *s, CUresult reason)
{
	if (vcuda_complete_lost(s->shm, (int32_t)reason))
		worker_dispatcher_wake_guest(s);
	_exit(1);
}

static _Noreturn void end_session(struct worker_session *s)
{
	worker_dispatcher_end(s, CUDA_ERROR_LAUNCH_FAILED);
}

static void run_async(struct worker_session *s, struct runner *r, const struct vcuda_command *c)
{
	struct vcuda_writer w = vcuda_writer_init(r->reply, sizeof(r->reply));
	CUresult result = run_command(s, r, c, &w);

	if (result != CUDA_SUCCESS)
		worker_command_record_error(s, c, result);
	if (s->broken)
		end_session(s);
}

/* The first call of each kind, for who looks at start-up. */
static void trace_first_call(unsigned int op, const char *when)
{
	static _Atomic bool seen[2][VCUDA_OP_LIMIT];
	char line[100];

	if (op >= VCUDA_OP_LIMIT || atomic_exchange(&seen[*when == 'e'][op], true))
		return;
	snprintf(line, sizeof(line), "worker: first %s %s", vcuda_call_table[op].name, when);
	vcuda_trace_point(line);
}

/* Whether the command has done nothing when it fails. */
static bool may_run_again(const struct vcuda_command *c)
{
	return c->op < VCUDA_OP_LIMIT && vcuda_call_table[c->op].quiet && !vcuda_call_table[c->op].waits;
}

/*
 * Whether the command has done nothing when there is no device memory for it: if other VMs can make room, it waits and
 * runs again. Other commands take what they need at once, which is little.
 */
static bool may_wait_for_room(const struct vcuda_command *c)
{
	return may_run_again(c) || c->op == VCUDA_OP_cuMemAllocAsync || c->op == VCUDA_OP_cuMemAllocFromPoolAsync ||
	       c->op == VCUDA_OP_vcudaMemCreate || c->op == VCUDA_OP_vcudaArrayCreate ||
	       c->op == VCUDA_OP_vcudaMipmappedArrayCreate;
}

/*
 * Runs a command, again and again while memory for it may yet come: of other VMs, or once of a process that has ended,
 * whose memory may not be free yet, where natively it would be.
 */
static CUresult run_until_room(struct worker_session *s, struct runner *r, const struct vcuda_command *c,
			       struct vcuda_writer *w)
{
	bool waits_for_ends = may_run_again(c), again;
	CUresult result;

	do {
		*w = vcuda_writer_init(r->reply, sizeof(r->reply));
		worker_ledger_set_patient(may_wait_for_room(c));
		result = run_command(s, r, c, w);
		again = false;
		if (result == CUDA_ERROR_OUT_OF_MEMORY && !s->broken) {
			again = worker_ledger_wait_for_room();
			if (!again && waits_for_ends) {
				waits_for_ends = false;
				again = worker_table_wait_for_ends();
			}
		}
	} while (again);
	worker_ledger_set_patient(false);
	return result;
}

/* Runs a synchronous command. Returns its result; the reply's data are `bytes` bytes of r->reply. */
static CUresult run_sync(struct worker_session *s, struct runner *r, uint32_t *bytes)
{
	const struct vcuda_command *c = (const struct vcuda_command *)r->command;
	struct vcuda_writer w;
	CUresult result;

	if (dispatcher.has_trace_points)
		trace_first_call(c->op, "begins");
	result = run_until_room(s, r, c, &w);
	if (dispatcher.has_trace_points)
		trace_first_call(c->op, "ends");
	if (s->broken)
		end_session(s);
	if (w.error) {
		vcuda_log("the reply of %s does not fit", vcuda_call_table[c->op].name);
		result = CUDA_ERROR_UNKNOWN;
	}
	/*
	 * Kernel text is due where the guest waits for kernels, and where their context ends. It is also due with an error
	 * that the context keeps: the guest's later waits get that error without asking. NVIDIA's driver does the same.
	 */
	if (c->op < VCUDA_OP_LIMIT &&
	    (vcuda_call_table[c->op].waits || !vcuda_call_table[c->op].context || vcuda_is_sticky(result)))
		worker_output_check(s);
	if (c->op < VCUDA_OP_LIMIT && vcuda_call_table[c->op].waits) {
		CUresult earlier = worker_command_take_error(s, c);

		if (earlier != CUDA_SUCCESS)
			result = earlier;
	}
	*bytes = result == CUDA_SUCCESS ? (uint32_t)(w.at - r->reply) : 0;
	return result;
}

static void answer(struct worker_session *s, const struct runner *r, CUresult result, uint32_t bytes)
{
	const struct vcuda_command *c = (const struct vcuda_command *)r->command;
	struct vcuda_slot *slot = vcuda_shm_slot(s->shm, c->slot);

#ifdef __SANITIZE_THREAD__
	/*
	 * The last answer in this slot may be another thread's. The guest took it before it used the slot again, but of
	 * that the thread sanitizer sees nothing, as it happened in another process.
	 */
	atomic_load(&slot->done);
#endif
	memcpy(slot->data, r->reply, bytes);
	if (vcuda_complete_slot(s->shm, c->slot, c->seq, (int32_t)result, bytes))
		worker_dispatcher_wake_guest(s);
}

static void run_prompt(struct worker_session *s, struct runner *r)
{
	uint32_t bytes;
	CUresult result = run_sync(s, r, &bytes);

	answer(s, r, result, bytes);
}

static bool own(void)
{
	bool no = false;

	return atomic_compare_exchange_strong(&dispatcher.owned, &no, true);
}

/*
 * Gives the dispatcher up. A command that was published after the last look comes with a ring, unless the publisher
 * found us awake: then we look once more. Returns true if we own the dispatcher again.
 */
static bool disown_idle(void)
{
	uint64_t head = dispatcher.consumer.head;

	atomic_store(&dispatcher.owned, false);
	/* A flag that was taken: the ring may have gone to a follower that found the dispatcher owned, and the next publisher
	 * would not ring. */
	if (atomic_load(&dispatcher.consumer.shm->tail) == head && atomic_load(&dispatcher.consumer.shm->consumer_sleeps))
		return false;
	return own();
}

/*
 * A thread that has lost the dispatcher to another one is spare for a moment, and polls: where several threads of a
 * program wait for their streams, the next owner gives the dispatcher up soon, and to wake a follower takes long. True:
 * this thread owns the dispatcher.
 */
static bool be_spare(void)
{
	uint64_t since = vcuda_now_ns(), waited = 0;
	int none = NO_THREAD, spare = SPARE;

	if (!atomic_compare_exchange_strong(&dispatcher.spare, &none, SPARE))
		return false;
	for (; waited < GPU_SPIN_NS && atomic_load(&dispatcher.spare) == SPARE; waited = vcuda_now_ns() - since) {
		if (waited < SPIN_NS)
			for (int i = 0; i < 16 && atomic_load(&dispatcher.spare) == SPARE; i++)
				__builtin_ia32_pause();
		else
			sched_yield();
	}
	if (atomic_compare_exchange_strong(&dispatcher.spare, &spare, NO_THREAD))
		return false;
	atomic_store(&dispatcher.spare, NO_THREAD);
	return true;
}

/* Makes the spare thread the owner. False: there is none. */
static bool pass_on(void)
{
	int spare = SPARE;

	return atomic_compare_exchange_strong(&dispatcher.spare, &spare, PASSED);
}

/* Gives the dispatcher up to a follower that has commands to run. */
static void hand_over(struct worker_session *s)
{
	atomic_store(&dispatcher.owned, false);
	if (write(s->doorbell, &(uint64_t){1}, 8) < 0)
		vcuda_log("cannot ring a follower: %s", strerror(errno));
}

static void *follower(void *unused);

static void add_thread(void)
{
	pthread_attr_t attributes;
	pthread_t thread;

	if (atomic_fetch_add(&dispatcher.threads, 1) >= MAX_THREADS) {
		atomic_fetch_sub(&dispatcher.threads, 1);
		return;
	}
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	atomic_fetch_add(&dispatcher.idle, 1);
	if (pthread_create(&thread, &attributes, follower, NULL)) {
		atomic_fetch_sub(&dispatcher.idle, 1);
		atomic_fetch_sub(&dispatcher.threads, 1);
	}
	pthread_attr_destroy(&attributes);
}

/* Runs a synchronous command with the dispatcher given up. Returns true if this thread owns the dispatcher again afterwards. */
static bool run_sync_disowned(struct worker_session *s, struct runner *r, const struct worker_lanes_mark *mark)
{
	CUresult result;
	uint32_t bytes;
	bool owner;

	if (atomic_load(&dispatcher.idle) == 0)
		add_thread();
	/* Without a spare thread a publisher rings from here on; what it published before that must not wait. */
	if (!pass_on() && (!vcuda_consumer_prepare_sleep(&dispatcher.consumer) || disown_idle()))
		hand_over(s);
	worker_lanes_reach(mark);
	result = run_sync(s, r, &bytes);
	/* Before the guest has its answer: its next command then finds us awake and needs no doorbell. */
	owner = own();
	if (owner)
		vcuda_consumer_awake(&dispatcher.consumer);
	answer(s, r, result, bytes);
	return owner;
}

static bool with_gpu(const struct worker_session *s)
{
	return s->ops && strcmp(s->ops->name, "cpu");
}

/* For less time than it takes to look at the clock often. */
static void look_for_more(void)
{
	for (int i = 0; i < 16 && atomic_load(&dispatcher.consumer.shm->tail) == dispatcher.consumer.head; i++)
		__builtin_ia32_pause();
}

static void *open_lane(void)
{
	return calloc(1, sizeof(struct runner));
}

static void run_in_lane(void *runner, const struct vcuda_command *c)
{
	run_async(dispatcher.session, runner, c);
}

/* Runs what was taken from the ring. Returns true if this thread owns the dispatcher still. */
static bool run_taken(struct worker_session *s, struct runner *r)
{
	const struct vcuda_command *c = (const struct vcuda_command *)r->command;
	bool is_sync = c->flags & VCUDA_COMMAND_SYNC;
	struct worker_lanes_mark mark;

	if (!is_sync && worker_lanes_give(s, c))
		return true;
	worker_lanes_mark(s, c, &mark);
	if (is_sync && !is_prompt(c->op))
		return run_sync_disowned(s, r, &mark);
	worker_lanes_reach(&mark);
	if (is_sync)
		run_prompt(s, r);
	else
		run_async(s, r, c);
	return true;
}

/*
 * Owns the dispatcher until the ring has been empty for a while or another thread took over. Returns true in the latter
 * case.
 */
static bool lead(struct worker_session *s, struct runner *r)
{
	uint64_t idle_since = 0;

	for (;;) {
		const struct vcuda_command *c = (const struct vcuda_command *)r->command;
		int n = vcuda_consumer_take(&dispatcher.consumer, r->command);
		bool copies = !n && worker_stage_queue_any();

		if (n < 0 || (n > 0 && c->flags & VCUDA_COMMAND_SYNC && c->slot >= VCUDA_SLOTS)) {
			worker_malformed(s);
			end_session(s);
		} else if (n > 0) {
			idle_since = 0;
			if (atomic_load_explicit(&dispatcher.consumer.shm->profile, memory_order_relaxed))
				worker_profile_add(0, vcuda_consumer_backlog(&dispatcher.consumer) + (unsigned int)n);
			if (vcuda_consumer_made_room(&dispatcher.consumer))
				worker_dispatcher_wake_guest(s);
			if (!run_taken(s, r))
				return true;
		} else if (copies) {
			worker_stage_queue_look(s);
			idle_since = vcuda_now_ns();
		} else if (!idle_since) {
			idle_since = vcuda_now_ns();
		} else if (vcuda_now_ns() - idle_since < SPIN_NS) {
			look_for_more();
		} else if (with_gpu(s) && vcuda_now_ns() - idle_since < GPU_SPIN_NS) {
			sched_yield();
		} else if (vcuda_consumer_prepare_sleep(&dispatcher.consumer)) {
			if (!disown_idle())
				return false;
			vcuda_consumer_awake(&dispatcher.consumer);
			idle_since = 0;
		}
	}
}

/* A thread of the pool. Its creator has counted it as idle. */
static void *follower(void *unused)
{
	struct worker_session *s = dispatcher.session;
	struct runner *r = calloc(1, sizeof(*r));
	uint64_t rings;

	while (r) {
		ssize_t n;

		VCUDA_PROBE(worker_sleep);
		n = read(s->doorbell, &rings, sizeof(rings));
		VCUDA_PROBE(worker_wake);
		if (n < 0 && errno != EINTR)
			break;
		worker_callback_rung();
		if (n < 0 || !own())
			continue;
		atomic_fetch_sub(&dispatcher.idle, 1);
		vcuda_consumer_awake(&dispatcher.consumer);
		while (lead(s, r) && with_gpu(s) && be_spare())
			;
		atomic_fetch_add(&dispatcher.idle, 1);
	}
	free(r);
	return unused;
}

void worker_dispatcher_serve(struct worker_session *s)
{
	dispatcher.session = s;
	dispatcher.has_trace_points = vcuda_trace_points_wanted();
	vcuda_consumer_init(&dispatcher.consumer, s->shm);
	dispatcher.idle = 1;
	dispatcher.threads = 1;
	worker_lanes_start(open_lane, run_in_lane);
	worker_compiling_tell(s, worker_dispatcher_wake_guest);
	/* The first commands may be there already, published before anybody could be rung for. */
	if (write(s->doorbell, &(uint64_t){1}, 8) < 0)
		vcuda_log("cannot use the doorbell: %s", strerror(errno));
	follower(NULL);
}
