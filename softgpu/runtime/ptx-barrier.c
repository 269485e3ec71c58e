/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers. They count threads, not warps: lanes of a warp may arrive one after the other, at different instructions
 * even. Lanes that have arrived and whose barrier is not complete are `parked`; once it is, they are `released` and go
 * on when their code comes by again. A warp whose live lanes all wait gives the OS thread to others.
 *
 * Nearly always a warp comes as a whole to a barrier of the whole block: ptx_rt_sync() only notes that it is there
 * (`together`), and struct ptx_barrier counts what else has arrived. Nothing has while the block has not `parted`.
 */
#include <string.h>

#include "runtime/ptx-thread.h"

/* kind */
#define ARRIVE 1
#define RED_AND 2
#define RED_OR 4

static void release_parts(struct ptx_thread *t, uint32_t id)
{
	struct ptx_barrier *b = &t->barriers[id];
	uint32_t result = b->kind & RED_AND ? b->all : b->kind & RED_OR ? b->any : b->count;

	for (uint32_t w = 0; w < t->warp_count; w++) {
		struct ptx_warp *warp = &t->warps[w];

		if (!warp->parked[id])
			continue;
		warp->released[id] |= warp->parked[id];
		warp->parked[id] = 0;
		warp->result[id] = result;
		t->ready |= 1u << w;
	}
	memset(b, 0, sizeof(*b));
}

static inline void release(struct ptx_thread *t, uint32_t id)
{
	t->ready |= t->together[id];
	t->together[id] = 0;
	t->arrived &= ~(1u << id);
	if (t->parted)
		release_parts(t, id);
}

static bool all_are_there(const struct ptx_thread *t, uint32_t id)
{
	return t->barriers[id].full_warps + (uint32_t)__builtin_popcount(t->together[id]) >= t->live_warps;
}

/* Without a count a barrier waits for all threads of the block that have not exited. */
static void try_release(struct ptx_thread *t, uint32_t id)
{
	const struct ptx_barrier *b = &t->barriers[id];
	uint32_t arrived = b->arrived + 32u * (uint32_t)__builtin_popcount(t->together[id]);

	if (arrived && (b->expected ? arrived >= b->expected : all_are_there(t, id)))
		release(t, id);
}

/*
 * Warps whose live lanes are all parked there. A count is one of whole warps, so lanes that have exited, or that the
 * last warp of a block never had, count with them.
 */
static void note_full(struct ptx_warp *warp, struct ptx_barrier *b, uint32_t id)
{
	if (warp->full >> id & 1 || warp->parked[id] != warp->live)
		return;
	warp->full |= 1u << id;
	b->full_warps++;
	b->arrived += 32u - (uint32_t)__builtin_popcount(warp->live);
}

static void arrive(struct ptx_barrier *b, uint32_t lanes, uint32_t count, uint32_t kind, uint32_t predicates)
{
	if (!b->arrived)
		b->all = true;
	b->arrived += (uint32_t)__builtin_popcount(lanes);
	b->expected = count;
	b->kind = kind;
	b->all &= (predicates & lanes) == lanes;
	b->any |= (predicates & lanes) != 0;
	b->count += (uint32_t)__builtin_popcount(predicates & lanes);
}

static struct ptx_next next_of(struct ptx_thread *t, struct ptx_warp *warp, uint32_t line)
{
	t->ready &= ~(1u << t->current);
	warp->line = line;
	t->moved = true;
	return ptx_thread_next_warp(t);
}

static void wait(struct ptx_thread *t, struct ptx_warp *warp, uint32_t line)
{
	ptx_thread_switch(t, next_of(t, warp, line));
}

/* The lanes that go on, in the upper half; the result of the reduction, in the lower. */
uint64_t ptx_rt_barrier(struct ptx_context *ctx, uint32_t line, uint32_t id, uint32_t count, uint32_t lanes,
			uint32_t live, uint32_t kind, uint32_t predicates)
{
	struct ptx_thread *t = ctx->thread;
	struct ptx_warp *warp = &t->warps[t->current];
	struct ptx_barrier *b;
	uint32_t fresh, go;
	bool all_here;

	if (__atomic_load_n(ctx->cancel, __ATOMIC_RELAXED))
		ptx_rt_cancelled(ctx, line, t->current * 32);
	/* in a function other lanes of the warp may wait for its end */
	all_here = lanes == live;
	live |= ctx->caller_live;
	if (id == PTX_CLUSTER_BARRIER)
		id = PTX_BARRIERS - 1;
	else if (id >= PTX_BARRIERS - 1)
		ptx_fault_line(ctx, PTX_FAULT_BARRIER, line, t->current * 32);
	b = &t->barriers[id];
	t->arrived |= 1u << id;
	t->parted = true;
	warp->live = live;
	fresh = lanes & ~warp->parked[id] & ~warp->released[id];
	if (fresh) {
		warp->full &= warp->parked[id] ? UINT32_MAX : ~(1u << id);
		arrive(b, fresh, count, kind, predicates);
		if (kind & ARRIVE) {
			b->arrived += lanes == live ? 32u - (uint32_t)__builtin_popcount(fresh) : 0;
		} else {
			warp->parked[id] |= fresh;
		}
	}
	/* also without fresh lanes: the other lanes of the warp may have exited since these were parked */
	if (!(kind & ARRIVE))
		note_full(warp, b, id);
	try_release(t, id);
	if (kind & ARRIVE)
		return (uint64_t)lanes << 32;
	if (all_here && !(warp->released[id] & lanes))
		wait(t, warp, line);
	go = warp->released[id] & lanes;
	warp->released[id] &= ~go;
	return (uint64_t)go << 32 | warp->result[id];
}

/* The rare rest of ptx_sync_next(). A separate function keeps register saves out of the fast path. */
__attribute__((noinline)) static struct ptx_next sync_parts(struct ptx_context *ctx, uint32_t line, uint32_t id,
							    uint32_t lanes, uint32_t live, uint64_t *value)
{
	*value = ptx_rt_barrier(ctx, line, id, 0, lanes, live, 0, 0);
	return (struct ptx_next){NULL, NULL};
}

/* The last warp that can run: all others have arrived, or wait for something else. */
__attribute__((noinline)) static struct ptx_next sync_last(struct ptx_thread *t, uint32_t id)
{
	if (all_are_there(t, id)) {
		release(t, id);
		return (struct ptx_next){NULL, NULL};
	}
	t->ready = 0;
	return (struct ptx_next){t->scheduler, &t->warps[t->current].sp};
}

/*
 * The same for bar.sync without a count, which needs no reduction. The function decides the cost of a barrier, so it
 * omits needless checks: while another warp can run, not all have arrived, and a running warp has not faulted.
 */
struct ptx_next ptx_sync_next(struct ptx_context *ctx, uint32_t line, uint32_t id, uint32_t lanes, uint32_t live,
			      uint64_t *value)
{
	struct ptx_thread *t = ctx->thread;
	struct ptx_warp *warp = &t->warps[t->current];
	uint32_t left, next;

	if (lanes != (live | ctx->caller_live) || id >= PTX_BARRIERS - 1 ||
	    __atomic_load_n(ctx->cancel, __ATOMIC_RELAXED) || (t->parted && (warp->parked[id] | warp->released[id])))
		return sync_parts(ctx, line, id, lanes, live, value);
	if (t->parted)
		t->barriers[id].kind = t->barriers[id].expected = 0;
	t->together[id] |= 1u << t->current;
	t->arrived |= 1u << id;
	t->moved = true;
	warp->live = live;
	warp->line = line;
	left = t->ready & ~(1u << t->current);
	if (!left)
		return sync_last(t, id);
	t->ready = left;
	next = left & ~1u << t->current;
	if (!next && !ctx->binary->waits)
		next = left;
	if (!next)
		return (struct ptx_next){t->scheduler, &warp->sp};
	t->current = (uint32_t)__builtin_ctz(next);
	return (struct ptx_next){t->warps[t->current].sp, &warp->sp};
}

/* All live lanes of the warp are parked, at more than one instruction: sleeps until some are released. */
void ptx_rt_park(struct ptx_context *ctx, uint32_t line, uint32_t live)
{
	struct ptx_thread *t = ctx->thread;
	struct ptx_warp *warp = &t->warps[t->current];

	if (__atomic_load_n(ctx->cancel, __ATOMIC_RELAXED))
		ptx_rt_cancelled(ctx, line, t->current * 32);
	warp->live = live | ctx->caller_live;
	for (uint32_t id = 0; id < PTX_BARRIERS; id++)
		if (warp->parked[id]) {
			note_full(warp, &t->barriers[id], id);
			try_release(t, id);
		}
	for (uint32_t id = 0; id < PTX_BARRIERS; id++)
		if (warp->released[id])
			return;
	wait(t, warp, line);
}

void ptx_barrier_warp_done(struct ptx_thread *t)
{
	t->ready &= ~(1u << t->current);
	t->live_warps--;
	t->moved = true;
	for (uint32_t left = t->arrived; left; left &= left - 1)
		try_release(t, (uint32_t)__builtin_ctz(left));
}

void ptx_barrier_reset(struct ptx_thread *t)
{
	memset(t->barriers, 0, sizeof(t->barriers));
	memset(t->together, 0, sizeof(t->together));
	t->arrived = 0;
	for (uint32_t w = 0; w < t->warp_count; w++)
		t->warps[w].full = 0;
	for (uint32_t w = 0; w < PTX_MAX_WARPS && t->parted; w++) {
		memset(t->warps[w].parked, 0, sizeof(t->warps[w].parked));
		memset(t->warps[w].released, 0, sizeof(t->warps[w].released));
	}
	t->parted = false;
}

/* For the report: the place of the first waiting warp, and the number of threads that wait at the same barrier. */
void ptx_barrier_describe(const struct ptx_thread *t, struct ptx_fault *fault)
{
	uint32_t lane = 0, warps = t->warp_count, waiting[PTX_BARRIERS] = {0};
	const uint32_t *d = t->ctx.binary->blockdim;

	*fault = (struct ptx_fault){.kind = PTX_FAULT_BARRIER, .space = "generic"};
	memcpy(fault->block, t->ctx.ctaid, sizeof(fault->block));
	while (warps--)
		for (uint32_t id = 0; id < PTX_BARRIERS; id++) {
			const struct ptx_warp *warp = &t->warps[warps];
			uint32_t there = t->together[id] >> warps & 1 ? warp->live : warp->parked[id];

			if (there && !(t->ready >> warps & 1)) {
				lane = warps * 32 + (uint32_t)__builtin_ctz(there);
				fault->address = id;
				fault->line = warp->callee ? 0 : ptx_line_of(t->ctx.binary, warp->line);
				waiting[id] += (uint32_t)__builtin_popcount(there);
				fault->bytes = waiting[id];
			}
		}
	fault->thread[0] = lane % d[0];
	fault->thread[1] = lane / d[0] % d[1];
	fault->thread[2] = lane / d[0] / d[1];
}
