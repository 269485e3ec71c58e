/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs blocks. Compiled code runs on fibers: one for all warps in turn where they never wait, else one per warp. A fault
 * leaves the fiber where it is and goes back to the loop below, so nothing of the block runs on.
 *
 * A loop may wait for what a thread of another block does. Blocks start in increasing order, so one that waits for an
 * earlier block finds it done or running; but a barrier of the grid, or a lock that another block has, may need blocks
 * to which no OS thread has come yet. So an OS thread whose blocks all wait starts another one beside them.
 *
 * Other blocks run one after the other, but for those that stride through memory and have no means to say anything to
 * one another: a few of them take turns, as their warps do. Measured: a triad of 16 Mi elements takes 10% less time for
 * that.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/ptx-callee.h"
#include "runtime/ptx-hot.h"
#include "runtime/ptx-thread.h"

static struct ptx_thread *thread_of(struct ptx_context *ctx)
{
	return ctx->thread;
}

void ptx_fault_bytes(struct ptx_context *ctx, const struct ptx_site *site, enum ptx_fault_kind kind, uint64_t address,
		     uint64_t bytes, uint32_t thread)
{
	struct ptx_thread *t = thread_of(ctx);

	ptx_fault_describe(ctx, site, kind, address, bytes, thread, ctx->fault);
	t->faulted = true;
	ptx_thread_yield(t);
	abort(); /* the scheduler never resumes a block that has faulted */
}

void ptx_fault_at(struct ptx_context *ctx, const struct ptx_site *site, enum ptx_fault_kind kind, uint64_t address,
		  uint32_t thread)
{
	ptx_fault_bytes(ctx, site, kind, address, site ? (uint64_t)site->size * site->count : 0, thread);
}

void ptx_fault_line(struct ptx_context *ctx, enum ptx_fault_kind kind, uint32_t line, uint32_t thread)
{
	struct ptx_site site = {.line = line};

	ptx_fault_at(ctx, &site, kind, 0, thread);
}

void ptx_rt_cancelled(struct ptx_context *ctx, uint32_t line, uint32_t thread)
{
	ptx_fault_line(ctx, PTX_FAULT_CANCELLED, line, thread);
}

void ptx_rt_trap(struct ptx_context *ctx, uint32_t line, uint32_t thread)
{
	ptx_fault_line(ctx, PTX_FAULT_TRAP, line, thread);
}

void ptx_rt_bad_target(struct ptx_context *ctx, uint32_t line, uint32_t thread)
{
	ptx_fault_line(ctx, PTX_FAULT_BAD_TARGET, line, thread);
}

void ptx_rt_yield(struct ptx_context *ctx, uint32_t line)
{
	struct ptx_thread *t = thread_of(ctx);

	if (__atomic_load_n(ctx->cancel, __ATOMIC_RELAXED))
		ptx_rt_cancelled(ctx, line, t->current * 32);
	if (ctx->binary->fibers)
		ptx_thread_yield(t);
}

static uint64_t nanoseconds_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The time of day at a kernel's first query, plus the time since by the monotonic clock, which cannot be set. */
uint64_t ptx_rt_nanoseconds(void)
{
	static uint64_t begin;
	uint64_t passed = nanoseconds_of(CLOCK_MONOTONIC), known = 0, first = __atomic_load_n(&begin, __ATOMIC_RELAXED);

	if (!first) {
		first = nanoseconds_of(CLOCK_REALTIME) - passed;
		if (!__atomic_compare_exchange_n(&begin, &known, first, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			first = known;
	}
	return first + passed;
}

uint64_t ptx_rt_clock(void)
{
	return __builtin_ia32_rdtsc();
}

/* ---- warps ---- */

static void begin_warp(const struct ptx_binary *binary, struct ptx_warp *w)
{
	uint32_t left = binary->threads - w->number * binary->lanes;

	/* code of one lane goes through the threads by itself */
	w->frame->live = left < binary->lanes ? (1u << left) - 1 : UINT32_MAX;
	w->masked = w->frame->live != UINT32_MAX && !binary->standalone;
	w->frame->entry = w->masked ? UINT32_MAX : 0;
}

/* Asks for the masked version and a stack that it fits on; the scheduler starts the fiber again. */
static ptx_code masked_code(struct ptx_thread *t, const struct ptx_warp *w)
{
	const struct ptx_machine_code *masked = __atomic_load_n(&t->ctx.binary->masked, __ATOMIC_ACQUIRE);

	if (masked && w->stack_bytes >= masked->stack)
		return masked->code;
	t->wants_masked = true;
	ptx_thread_yield(t);
	abort(); /* never resumed here */
}

static uint32_t run_version(struct ptx_thread *t, struct ptx_warp *w)
{
	ptx_code code = w->masked ? masked_code(t, w) : t->full;

	return code(&t->ctx, w->number * t->ctx.binary->lanes, w->frame);
}

static void run_warp(struct ptx_thread *t, struct ptx_warp *w)
{
	while (run_version(t, w) != PTX_LEAVE_DONE)
		w->masked = !w->masked;
}

/* Runs the warps of a block one after the other, from the present one on. The full version does as many as it can. */
static void run_warps(struct ptx_thread *t, struct ptx_warp *w)
{
	const struct ptx_binary *binary = t->ctx.binary;

	for (;;) {
		bool masked = w->masked, done = run_version(t, w) == PTX_LEAVE_DONE;

		if (binary->lanes == 1)
			return;
		if (masked && done && binary->warp_loop && w->number < binary->threads / binary->lanes) {
			/* the other warps of the loop go on */
			w->masked = false;
			w->frame->entry = PTX_WARP_ENDED;
			continue;
		}
		w->number = masked || binary->standalone ? w->number + done : w->frame->thread / binary->lanes;
		if (!done)
			w->masked = !masked;
		else if (w->number * binary->lanes < binary->threads)
			begin_warp(binary, w);
		else
			return;
	}
}

static void one_warp(struct ptx_thread *t)
{
	run_warp(t, &t->warps[t->current]);
	ptx_barrier_warp_done(t);
	ptx_thread_exit(t);
}

static bool is_cancelled(const struct ptx_context *ctx)
{
	return __atomic_load_n(ctx->cancel, __ATOMIC_RELAXED);
}

static void next_block(struct ptx_context *ctx)
{
	for (unsigned n = 0; n < 3 && ++ctx->ctaid[n] == ctx->nctaid[n]; n++)
		ctx->ctaid[n] = 0;
}

/*
 * Warps that never wait for one another, one after the other, and blocks of them: beginning each from the scheduler
 * costs as much as a small one takes.
 */
static void all_warps(struct ptx_thread *t)
{
	const struct ptx_binary *binary = t->ctx.binary;
	struct ptx_warp *w = &t->warps[0];

	for (;;) {
		run_warps(t, w);
		if (!t->ctx.more)
			break;
		t->ctx.more--;
		next_block(&t->ctx);
		if (is_cancelled(&t->ctx))
			ptx_rt_cancelled(&t->ctx, 0, 0);
		w->number = 0;
		begin_warp(binary, w);
	}
	t->ready = 0;
	t->live_warps = 0;
	t->moved = true;
	ptx_thread_yield(t);
}

static void start_fiber(struct ptx_thread *t, struct ptx_warp *w)
{
	ptx_fiber_start(w, t->ctx.binary->fibers ? one_warp : all_warps, t);
}

static bool provide_masked(struct ptx_thread *t)
{
	struct ptx_binary *binary = (struct ptx_binary *)(uintptr_t)t->ctx.binary;
	struct ptx_warp *w = &t->warps[t->current];

	t->wants_masked = false;
	if (binary->complete(binary) &&
	    ptx_memory_provide_stack(t, w, __atomic_load_n(&binary->masked, __ATOMIC_ACQUIRE)->stack)) {
		start_fiber(t, w);
		return true;
	}
	/* the full version was compiled from the same instructions: mostly, memory is missing */
	*t->ctx.fault = (struct ptx_fault){.kind = PTX_FAULT_TRAP, .space = "generic"};
	t->faulted = true;
	return false;
}

enum turn { TURN_DONE, TURN_FAULT, TURN_MOVED, TURN_IDLE };

/* Runs each warp that can run until it waits. */
static enum turn take_turn(struct ptx_thread *t)
{
	bool ran = false;

	t->moved = false;
	for (uint32_t w = 0; w < t->warp_count; w++) {
		if (!(t->ready >> w & 1))
			continue;
		ran = true;
		t->current = w;
		do {
			ptx_thread_resume(t);
			if (t->faulted)
				return TURN_FAULT;
		} while (t->wants_callee ? ptx_callee_provide(t) : t->wants_masked && provide_masked(t));
		if (t->faulted)
			return TURN_FAULT;
		if (t->current > w)
			w = t->current;
	}
	if (t->live_warps == 0)
		return TURN_DONE;
	if (ran)
		return t->moved ? TURN_MOVED : TURN_IDLE;
	ptx_barrier_describe(t, t->ctx.fault);
	return TURN_FAULT;
}

/* ---- a block ---- */

static const volatile bool never;

static bool begin_block(struct ptx_thread *t, const struct ptx_launch *launch, uint64_t index, struct ptx_fault *fault)
{
	const struct ptx_binary *b = launch->binary;
	struct ptx_context *ctx = &t->ctx;

	ctx->launch = launch;
	ctx->binary = b;
	ctx->thread = t;
	ctx->fault = fault;
	ctx->params = launch->params;
	ctx->variables = b->kernel->function->module->addresses;
	ctx->workspace = launch->workspace;
	ctx->cancel = launch->cancel ? launch->cancel : &never;
	ctx->nsmid = launch->multiprocessors ? launch->multiprocessors : 1;
	ctx->smid = t->number % ctx->nsmid;
	ctx->gridid = launch->serial;
	memcpy(ctx->nctaid, launch->grid, sizeof(ctx->nctaid));
	ctx->ctaid[0] = (uint32_t)(index % launch->grid[0]);
	ctx->ctaid[1] = (uint32_t)(index / launch->grid[0] % launch->grid[1]);
	ctx->ctaid[2] = (uint32_t)(index / launch->grid[0] / launch->grid[1]);
	t->warp_count = ptx_warps(b);
	t->live_warps = t->warp_count;
	t->ready = UINT32_MAX >> (32 - t->warp_count);
	ctx->more = 0;
	t->faulted = t->wants_masked = t->companions = t->strides = false;
	t->wants_callee = NULL;
	if (b->fibers)
		ptx_barrier_reset(t);
	if (!ptx_memory_is_prepared(t, launch)) {
		/* the code may be another one than that which the memory was provided for */
		if (ptx_memory_provide(t, launch, PTX_TWICE) != PTX_PROVIDED)
			return false;
		ptx_memory_prepare(t, launch);
	}
	for (uint32_t w = 0; w < t->warp_count; w++) {
		t->warps[w].number = w;
		t->warps[w].callee = NULL;
		begin_warp(b, &t->warps[w]);
		start_fiber(t, &t->warps[w]);
	}
	t->busy = true;
	return true;
}

/* ---- blocks that may wait for one another ---- */

/* After this many turns that only polled, the OS thread lets others run. */
#define IDLE_TURNS 64
/* After this long, the blocks may be waiting for blocks beyond this thread's share. */
#define PATIENCE_NS 5000000u

/*
 * Blocks that stride through memory side by side, at most, where each warp has a stack and where none has; and the
 * shared and local memory that they may have.
 */
#define PACK 4
#define PACK_OF_ROUNDS 16
#define PACK_BYTES (16u << 10)

/* The resident blocks of one OS thread: those of its list that are `busy`. */
struct residents {
	const struct ptx_launch *launch;
	struct ptx_fault *fault;
	struct ptx_thread *first;
	uint64_t begin, next, end; /* blocks of the call; from `next` on they are to be begun */
	uint32_t pack;       /* largest number of blocks that stride side by side */
	uint32_t companions; /* the number of blocks that may begin beside the resident ones */
	uint32_t count, idle_turns;
	uint64_t idle_since, stalled_at;
	uint64_t rest_ns; /* between two looks at blocks that wait; 0: none */
	bool claims;    /* blocks wait for one another: it asks for more */
	bool exhausted; /* no block is left to claim */
};

/* A place for one more block. NULL: no memory. */
static struct ptx_thread *find_idle(struct residents *r)
{
	struct ptx_thread *t = r->first;

	while (t && t->busy)
		t = ptx_thread_next(t);
	return t;
}

static bool begin_in(struct residents *r, struct ptx_thread *t, uint64_t index)
{
	if (!begin_block(t, r->launch, index, r->fault))
		return false;
	t->companions = !r->claims && (r->companions || r->count);
	r->count++;
	return true;
}

/* Starts one more block. False: it faults, for want of memory. */
static bool begin_beside(struct residents *r, uint64_t index)
{
	struct ptx_thread *t = find_idle(r);

	*r->fault = (struct ptx_fault){.kind = PTX_FAULT_TRAP, .space = "generic"};
	return t && begin_in(r, t, index);
}

/* A claimed block must run: without memory for it none is claimed. */
static bool claim_block(struct residents *r)
{
	struct ptx_thread *t = find_idle(r);
	uint64_t index;

	if (!t || ptx_memory_provide(t, r->launch, PTX_HALF) != PTX_PROVIDED)
		return true;
	if (r->launch->claim(r->launch->owner, &index))
		return begin_beside(r, index);
	r->exhausted = true;
	return true;
}

static bool cancelled(struct residents *r)
{
	*r->fault = (struct ptx_fault){.kind = PTX_FAULT_CANCELLED, .space = "generic"};
	return false;
}

/* Whether the call has been cancelled, so that its next block does not begin. */
static bool ends_here(struct residents *r)
{
	return r->next != r->begin && is_cancelled(&r->first->ctx) && !cancelled(r);
}

/* The next block of the call waits for memory that blocks of other OS threads have. False: a fault, or no block follows. */
static bool begin_next(struct residents *r)
{
	enum ptx_provided provided;

	if (ends_here(r))
		return false;
	while ((provided = ptx_memory_provide(r->first, r->launch, PTX_WHOLE)) == PTX_NOT_NOW) {
		if (__atomic_load_n(r->launch->cancel ? r->launch->cancel : &never, __ATOMIC_RELAXED))
			return cancelled(r);
		if (r->launch->stalled)
			r->launch->stalled(r->launch->owner);
		ptx_memory_wait(r->first);
	}
	return provided == PTX_PROVIDED && begin_beside(r, r->next++);
}

/* Lets other threads run. */
static void rest(const struct residents *r)
{
	struct timespec time = {.tv_nsec = (long)r->rest_ns};

	if (r->rest_ns)
		nanosleep(&time, NULL);
	else
		sched_yield();
}

/* True now and then while all blocks have done nothing but look again for long. */
static bool is_stalled(struct residents *r, bool idle)
{
	uint64_t now;

	if (!idle) {
		r->idle_turns = 0;
		r->rest_ns = 0;
		return false;
	}
	if (r->idle_turns++ == 0)
		r->idle_since = nanoseconds_of(CLOCK_MONOTONIC);
	if (r->idle_turns % IDLE_TURNS && !r->rest_ns)
		return false;
	rest(r);
	now = nanoseconds_of(CLOCK_MONOTONIC);
	if (now - r->idle_since < PATIENCE_NS)
		return false;
	if (r->launch->stalled && now - r->stalled_at > PATIENCE_NS) {
		r->stalled_at = now;
		r->rest_ns = r->launch->stalled(r->launch->owner);
	}
	return true;
}

static bool want_more(struct residents *r, bool idle)
{
	bool stalled = is_stalled(r, idle);

	if (r->exhausted || r->count >= r->launch->resident)
		return false;
	return stalled || r->count < r->launch->share;
}

/*
 * Blocks that stride through memory go through it side by side, as the warps of each do. The next one begins once a
 * second round has shown that they stride. Each has these two to itself, so that all are in the same one from then on.
 * Without the memory for that they run one after the other.
 */
static bool begin_companion(struct residents *r, const struct ptx_thread *t)
{
	struct ptx_thread *other;

	if (!t->strides || !r->companions)
		return true;
	if (ends_here(r))
		return false;
	r->companions--;
	other = find_idle(r);
	if (other && ptx_thread_reserve(other, t->warp_count)) {
		if (ptx_memory_provide(other, r->launch, PTX_HALF) == PTX_PROVIDED && begin_in(r, other, r->next)) {
			r->next++;
			return true;
		}
		ptx_thread_empty(other);
	}
	r->companions = 0;
	r->pack = 1;
	return true;
}

/* A turn for each block. Returns false after a fault. */
static bool take_turns(struct residents *r, bool *idle)
{
	enum turn turn;

	*idle = true;
	for (struct ptx_thread *t = r->first; t; t = t->next) {
		if (!t->busy)
			continue;
		turn = take_turn(t);
		if (turn == TURN_FAULT)
			return false;
		if (turn == TURN_DONE) {
			t->busy = false;
			r->count--;
			if (ptx_memory_wanted())
				ptx_thread_empty(t);
		} else if (!begin_companion(r, t)) {
			return false;
		}
		*idle &= turn == TURN_IDLE;
	}
	return true;
}

static bool run_residents(struct residents *r)
{
	bool idle;

	while (r->count) {
		if (!take_turns(r, &idle))
			return false;
		if (r->count && r->claims && want_more(r, idle) && !claim_block(r))
			return false;
	}
	return true;
}

bool ptx_binary_waits(const struct ptx_binary *binary)
{
	return binary->waits;
}

/* The number of blocks that may stride side by side: their own memory should stay in the first-level cache. */
static uint32_t pack_size(const struct ptx_launch *launch)
{
	const struct ptx_binary *b = launch->binary;
	uint64_t own = b->static_shared + launch->dynamic_shared + b->local_stride * b->threads;
	uint32_t most = b->warp_loop ? PACK_OF_ROUNDS : PACK;

	if (!b->strides || own > PACK_BYTES)
		return 1;
	return own * most <= PACK_BYTES ? most : (uint32_t)(PACK_BYTES / own);
}

uint32_t ptx_launch_side(const struct ptx_launch *launch)
{
	return launch->binary->warp_loop ? pack_size(launch) : 1;
}

/* The next block, and those that begin beside it; or, if warps never wait, all blocks of the call. */
static bool run_next(struct residents *r)
{
	uint64_t left = r->end - r->next - 1;

	r->companions = left < r->pack - 1 ? (uint32_t)left : r->pack - 1;
	if (!begin_next(r))
		return false;
	if (!r->launch->binary->fibers && !r->launch->binary->warp_loop) {
		r->first->ctx.more = left;
		r->next = r->end;
	}
	return run_residents(r);
}

static bool run_all(const struct ptx_launch *launch, struct ptx_thread *t, uint64_t index, uint64_t count,
		    struct ptx_fault *fault)
{
	struct residents r = {.launch = launch, .fault = fault, .first = t, .begin = index, .next = index,
			      .end = index + count, .pack = pack_size(launch),
			      .claims = launch->binary->waits && launch->claim};

	/* threads that a fault left */
	for (struct ptx_thread *other = t; other; other = other->next)
		other->busy = false;
	while (r.next < r.end)
		if (!run_next(&r))
			return false;
	fault->kind = PTX_FAULT_NONE;
	return true;
}

bool ptx_run_blocks(const struct ptx_launch *launch, uint64_t index, uint64_t count, struct ptx_fault *fault)
{
	const struct ptx_binary *better = __atomic_load_n(&launch->binary->better, __ATOMIC_ACQUIRE);
	struct ptx_thread *t = ptx_thread_get();
	struct ptx_launch other;
	struct ptx_hot hot;
	bool ok;

	if (better) {
		other = *launch;
		other.binary = better;
		launch = &other;
	}
	*fault = (struct ptx_fault){.kind = PTX_FAULT_TRAP, .space = "generic"};
	if (!t || memcmp(launch->block, launch->binary->blockdim, sizeof(launch->block)))
		return false;
	ptx_memory_enter(t);
	ptx_hot_begin(&hot, launch->binary);
	ok = run_all(launch, t, index, count, fault);
	ptx_hot_end(&hot, launch->binary);
	ptx_memory_leave(t);
	return ok;
}
