/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one block. Compiled code runs on fibers: one for all warps in turn where they never wait, else one per warp. A
 * fault leaves the fiber where it is and goes back to the loop below, so nothing of the block runs on.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ptx-thread.h"

static struct ptx_thread *thread_of(struct ptx_context *ctx)
{
	return ctx->thread;
}

void ptx_fault_at(struct ptx_context *ctx, const struct ptx_site *site, enum ptx_fault_kind kind, uint64_t address,
		  uint32_t thread)
{
	static const char *const spaces[] = {"generic", "global", "shared", "local", "const", "param", "register",
					   "texture", "surface"};
	const uint32_t *d = ctx->binary->blockdim;
	struct ptx_thread *t = thread_of(ctx);

	*ctx->fault = (struct ptx_fault){.kind = kind, .address = address, .space = "generic"};
	if (site) {
		ctx->fault->bytes = (uint32_t)site->size * site->count;
		ctx->fault->write = site->write;
		ctx->fault->space = spaces[site->space];
		ctx->fault->line = site->line;
	}
	memcpy(ctx->fault->block, ctx->ctaid, sizeof(ctx->ctaid));
	ctx->fault->thread[0] = thread % d[0];
	ctx->fault->thread[1] = thread / d[0] % d[1];
	ctx->fault->thread[2] = thread / d[0] / d[1];
	t->faulted = true;
	ptx_thread_yield(t);
	abort(); /* the scheduler never resumes a block that has faulted */
}

static void fault_line(struct ptx_context *ctx, enum ptx_fault_kind kind, uint32_t line, uint32_t thread)
{
	struct ptx_site site = {.line = line};

	ptx_fault_at(ctx, &site, kind, 0, thread);
}

void ptx_rt_cancelled(struct ptx_context *ctx, uint32_t line, uint32_t thread)
{
	fault_line(ctx, PTX_FAULT_CANCELLED, line, thread);
}

void ptx_rt_trap(struct ptx_context *ctx, uint32_t line, uint32_t thread)
{
	fault_line(ctx, PTX_FAULT_TRAP, line, thread);
}

void ptx_rt_bad_target(struct ptx_context *ctx, uint32_t line, uint32_t thread)
{
	fault_line(ctx, PTX_FAULT_BAD_TARGET, line, thread);
}

void ptx_rt_yield(struct ptx_context *ctx, uint32_t line)
{
	struct ptx_thread *t = thread_of(ctx);

	if (*ctx->cancel)
		ptx_rt_cancelled(ctx, line, t->current * 32);
	if (ctx->binary->fibers)
		ptx_thread_yield(t);
}

uint64_t ptx_rt_nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t ptx_rt_clock(void)
{
	return __builtin_ia32_rdtsc();
}

/* ---- barriers ---- */

static void release(struct ptx_thread *t, struct ptx_barrier *b, uint32_t id)
{
	for (uint32_t w = 0; w < t->warp_count; w++) {
		struct ptx_warp *warp = &t->warps[w];

		if (warp->state != PTX_WARP_WAITING || warp->barrier != id)
			continue;
		warp->state = PTX_WARP_READY;
		/* kind: 2 and, 4 or, 8 popc */
		warp->result = warp->result & 2 ? b->all : warp->result & 4 ? b->any : b->count;
	}
	memset(b, 0, sizeof(*b));
}

static bool complete(const struct ptx_thread *t, const struct ptx_barrier *b)
{
	return b->arrived && b->arrived >= (b->expected ? b->expected : t->live_warps);
}

uint32_t ptx_rt_barrier(struct ptx_context *ctx, uint32_t line, uint32_t id, uint32_t count, uint32_t lanes,
			uint32_t kind, uint32_t predicates)
{
	struct ptx_thread *t = thread_of(ctx);
	struct ptx_warp *warp = &t->warps[t->current];
	uint32_t number = id == PTX_CLUSTER_BARRIER ? PTX_BARRIERS - 1 : id % (PTX_BARRIERS - 1);
	struct ptx_barrier *b = &t->barriers[number];

	if (*ctx->cancel)
		ptx_rt_cancelled(ctx, line, t->current * 32);
	if (id >= PTX_BARRIERS - 1 && id != PTX_CLUSTER_BARRIER)
		fault_line(ctx, PTX_FAULT_BARRIER, line, t->current * 32);
	if (!b->arrived)
		b->all = true;
	b->arrived++;
	b->expected = (count + 31) / 32;
	b->all &= (predicates & lanes) == lanes;
	b->any |= predicates != 0;
	b->count += (uint32_t)__builtin_popcount(predicates);
	if (!(kind & 1)) {
		warp->state = PTX_WARP_WAITING;
		warp->barrier = number;
		warp->result = kind;
	}
	if (complete(t, b))
		release(t, b, number);
	if (warp->state == PTX_WARP_WAITING)
		ptx_thread_yield(t);
	return warp->result;
}

static void warp_done(struct ptx_thread *t)
{
	t->warps[t->current].state = PTX_WARP_DONE;
	t->live_warps--;
	for (uint32_t id = 0; id < PTX_BARRIERS; id++)
		if (complete(t, &t->barriers[id]))
			release(t, &t->barriers[id], id);
}

/* ---- warps ---- */

static void begin_warp(const struct ptx_binary *binary, struct ptx_warp *w)
{
	uint32_t left = binary->threads - w->number * binary->lanes;

	if (binary->zero_frame)
		memset(w->frame, 0, binary->frame_bytes);
	/* code of one lane goes through the threads by itself */
	w->frame->live = left < binary->lanes ? (1u << left) - 1 : UINT32_MAX;
	w->masked = w->frame->live != UINT32_MAX;
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

static void run_warp(struct ptx_thread *t, struct ptx_warp *w)
{
	const struct ptx_binary *binary = t->ctx.binary;

	for (;;) {
		ptx_code code = w->masked ? masked_code(t, w) : t->full;

		if (code(&t->ctx, w->number * binary->lanes, w->frame) == PTX_LEAVE_DONE)
			return;
		w->masked = !w->masked;
	}
}

static void one_warp(void)
{
	struct ptx_thread *t = ptx_thread_get();

	run_warp(t, &t->warps[t->current]);
	warp_done(t);
	ptx_thread_yield(t);
}

/* Warps that never wait for one another, one after the other. */
static void all_warps(void)
{
	struct ptx_thread *t = ptx_thread_get();
	const struct ptx_binary *binary = t->ctx.binary;
	struct ptx_warp *w = &t->warps[0];

	run_warp(t, w);
	while (binary->lanes > 1 && ++w->number * binary->lanes < binary->threads) {
		begin_warp(binary, w);
		run_warp(t, w);
	}
	w->state = PTX_WARP_DONE;
	ptx_thread_yield(t);
}

static void start_fiber(const struct ptx_binary *binary, struct ptx_warp *w)
{
	w->sp = ptx_fiber_start(w->stack, w->stack_bytes, binary->fibers ? one_warp : all_warps);
}

static bool provide_masked(struct ptx_thread *t)
{
	struct ptx_binary *binary = (struct ptx_binary *)(uintptr_t)t->ctx.binary;
	struct ptx_warp *w = &t->warps[t->current];

	t->wants_masked = false;
	if (ptx_binary_complete(binary, &t->compile_error) == PTX_OK &&
	    ptx_thread_stack(w, __atomic_load_n(&binary->masked, __ATOMIC_ACQUIRE)->stack)) {
		start_fiber(binary, w);
		return true;
	}
	/* the full version was compiled from the same instructions: only memory can be missing */
	*t->ctx.fault = (struct ptx_fault){.kind = PTX_FAULT_TRAP, .space = "generic"};
	t->faulted = true;
	return false;
}

static bool schedule(struct ptx_thread *t)
{
	bool progress = true;

	while (progress) {
		progress = false;
		for (uint32_t w = 0; w < t->warp_count; w++) {
			if (t->warps[w].state != PTX_WARP_READY)
				continue;
			progress = true;
			t->current = w;
			do {
				ptx_fiber_switch(&t->scheduler, t->warps[w].sp);
				if (t->faulted)
					return false;
			} while (t->wants_masked && provide_masked(t));
			if (t->faulted)
				return false;
		}
	}
	for (uint32_t w = 0; w < t->warp_count; w++)
		if (t->warps[w].state != PTX_WARP_DONE) {
			struct ptx_context *ctx = &t->ctx;

			*ctx->fault = (struct ptx_fault){.kind = PTX_FAULT_BARRIER,
							 .space = "generic",
							 .thread = {w * 32 % ctx->binary->blockdim[0]}};
			memcpy(ctx->fault->block, ctx->ctaid, sizeof(ctx->ctaid));
			return false;
		}
	return true;
}

/* ---- a block ---- */

static bool prepare_memory(struct ptx_thread *t, const struct ptx_launch *launch)
{
	const struct ptx_binary *b = launch->binary;
	const struct ptx_machine_code *full = __atomic_load_n(&b->full, __ATOMIC_ACQUIRE);
	struct ptx_context *ctx = &t->ctx;
	size_t frame = (b->frame_bytes + 63) & ~63ull;

	t->full = full->code;
	ctx->shared_bytes = b->static_shared;
	ctx->dynamic_bytes = launch->dynamic_shared;
	if (launch->dynamic_shared)
		ctx->shared_bytes = ((b->static_shared + 127) & ~127ull) + launch->dynamic_shared;
	ctx->local_bytes = b->local_stride * b->threads;
	if (!ptx_thread_grow(&t->shared, &t->shared_room, ctx->shared_bytes + 128) ||
	    !ptx_thread_grow(&t->local, &t->local_room, ctx->local_bytes + 128) ||
	    !ptx_thread_grow(&t->frames, &t->frames_room, frame * t->warp_count) ||
	    !ptx_thread_grow(&t->cache, &t->cache_room, (b->site_count + 1) * sizeof(struct ptx_cached_range)))
		return false;
	for (uint32_t w = 0; w < t->warp_count; w++) {
		if (!ptx_thread_stack(&t->warps[w], full->stack))
			return false;
		t->warps[w].frame = (struct ptx_frame *)(void *)((char *)t->frames + w * frame);
	}
	ctx->shared = t->shared;
	ctx->local = t->local;
	ctx->cache = t->cache;
	memset(t->cache, 0xff, b->site_count * sizeof(struct ptx_cached_range));
	return true;
}

bool ptx_run_block(const struct ptx_launch *launch, uint64_t index, struct ptx_fault *fault)
{
	static const volatile bool never;
	const struct ptx_binary *b = launch->binary;
	struct ptx_thread *t = ptx_thread_get();
	struct ptx_context *ctx;
	bool ok;

	*fault = (struct ptx_fault){.kind = PTX_FAULT_TRAP, .space = "generic"};
	if (!t || memcmp(launch->block, b->blockdim, sizeof(launch->block)))
		return false;
	ctx = &t->ctx;
	ctx->launch = launch;
	ctx->binary = b;
	ctx->thread = t;
	ctx->fault = fault;
	ctx->params = launch->params;
	ctx->variables = b->kernel->function->module->addresses;
	ctx->cancel = launch->cancel ? launch->cancel : &never;
	memcpy(ctx->nctaid, launch->grid, sizeof(ctx->nctaid));
	ctx->ctaid[0] = (uint32_t)(index % launch->grid[0]);
	ctx->ctaid[1] = (uint32_t)(index / launch->grid[0] % launch->grid[1]);
	ctx->ctaid[2] = (uint32_t)(index / launch->grid[0] / launch->grid[1]);
	t->warp_count = b->fibers ? (b->threads + 31) / 32 : 1;
	t->live_warps = t->warp_count;
	t->faulted = t->wants_masked = false;
	if (b->fibers)
		memset(t->barriers, 0, sizeof(t->barriers));
	if (!prepare_memory(t, launch))
		return false;
	for (uint32_t w = 0; w < t->warp_count; w++) {
		t->warps[w].state = PTX_WARP_READY;
		t->warps[w].number = w;
		begin_warp(b, &t->warps[w]);
		start_fiber(b, &t->warps[w]);
	}
	ok = schedule(t);
	if (ok)
		fault->kind = PTX_FAULT_NONE;
	return ok;
}
