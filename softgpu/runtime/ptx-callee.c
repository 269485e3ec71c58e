/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of functions of machine code by their addresses. A function is compiled as a kernel is, when it is first
 * called, and runs amid the caller's block for the lanes of a warp that call it: on a stack and in a frame of its own,
 * with the block's shared and local memory. The scheduler's stack prepares the call, since compiling needs more stack
 * than a warp has.
 */
#include "runtime/ptx-callee.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "runtime/ptx-thread.h"

#ifndef __x86_64__
#error "the call on another stack is written for x86-64 only"
#endif

/* Runs a version of a kernel, whose stack ends at `top`. */
uint32_t ptx_call_on_stack(void *top, ptx_code code, struct ptx_context *ctx, uint32_t thread, struct ptx_frame *frame);

__asm__("	.text\n"
	"	.globl ptx_call_on_stack\n"
	"	.hidden ptx_call_on_stack\n"
	"	.type ptx_call_on_stack, @function\n"
	"	.p2align 4\n"
	"ptx_call_on_stack:\n"
	"	pushq %rbp\n"
	"	movq %rsp, %rbp\n"
	"	movq %rdi, %rsp\n"
	"	movq %rsi, %rax\n"
	"	movq %rdx, %rdi\n"
	"	movl %ecx, %esi\n"
	"	movq %r8, %rdx\n"
	"	call *%rax\n"
	"	movq %rbp, %rsp\n"
	"	popq %rbp\n"
	"	ret\n"
	"	.size ptx_call_on_stack, . - ptx_call_on_stack\n");

/* ---- on the scheduler's stack ---- */

/* Better code has other places where a warp goes on: a call keeps the full version that it began with. */
static struct ptx_machine_code *code_of(const struct ptx_callee *c)
{
	if (c->full && !c->warp.masked)
		return c->full;
	return __atomic_load_n(c->warp.masked ? &c->ctx.binary->masked : &c->ctx.binary->full, __ATOMIC_ACQUIRE);
}

static bool fail(struct ptx_thread *t, const char *why)
{
	static bool told;

	if (!told)
		vcuda_log("a kernel's call of a function ends the kernel: %s", why);
	told = true;
	*t->ctx.fault = (struct ptx_fault){.kind = PTX_FAULT_TRAP, .space = "generic"};
	t->faulted = true;
	return false;
}

/* The function's code for the block's shape. */
static bool find_binary(struct ptx_thread *t, struct ptx_callee *c)
{
	const struct ptx_launch *launch = t->ctx.launch;
	const struct ptx_binary *binary = NULL, *better;
	enum ptx_fault_kind kind = PTX_FAULT_BAD_TARGET;

	if (launch->callee)
		kind = launch->callee(launch->device, c->address, &binary);
	if (kind != PTX_FAULT_NONE) {
		*t->ctx.fault = (struct ptx_fault){.kind = kind, .space = "generic"};
		t->faulted = true;
		return false;
	}
	better = __atomic_load_n(&binary->better, __ATOMIC_ACQUIRE);
	binary = better ? better : binary;
	if (binary->lanes != PTX_SITE_LANES || !binary->fibers || binary->local_stride != t->ctx.binary->local_stride ||
	    binary->static_shared || binary->kernel->info.param_bytes)
		return fail(t, "the function's code is not of the kernel's kind");
	c->ctx.binary = binary;
	return true;
}

/* Quick code is replaced at once: a function that is called once is called often. */
static void improve(const struct ptx_binary *binary, struct ptx_machine_code *code, bool masked)
{
	if (code->quick && !__atomic_exchange_n(&code->hot, true, __ATOMIC_RELAXED))
		binary->improve((struct ptx_binary *)(uintptr_t)binary, masked);
}

bool ptx_callee_provide(struct ptx_thread *t)
{
	struct ptx_callee *c = t->wants_callee;
	struct ptx_binary *binary;

	t->wants_callee = NULL;
	if (!c->ctx.binary && !find_binary(t, c))
		return false;
	binary = (struct ptx_binary *)(uintptr_t)c->ctx.binary;
	if (c->warp.masked && !binary->complete(binary))
		return fail(t, "there is no code for parts of warps");
	c->code = code_of(c);
	improve(binary, c->code, c->warp.masked);
	if (!ptx_memory_provide_callee(t, c))
		return fail(t, "there is no memory for it (VCUDA_CPU_BLOCK_MEMORY)");
	return true;
}

/* ---- on the warp's stack ---- */

/* The scheduler calls ptx_callee_provide(), and comes back if that succeeds. */
static void provide(struct ptx_thread *t, struct ptx_callee *c)
{
	t->wants_callee = c;
	ptx_thread_yield(t);
}

static struct ptx_callee *enter(struct ptx_context *ctx, struct ptx_warp *w)
{
	struct ptx_callee **place = w->callee ? &w->callee->next : &w->callees, *c;

	if (!*place)
		*place = calloc(1, sizeof(**place));
	c = *place;
	if (!c) {
		fail(ctx->thread, "there is no memory for it");
		ptx_thread_yield(ctx->thread);
	}
	c->caller = w->callee;
	w->callee = c;
	return c;
}

static void begin(struct ptx_callee *c, const struct ptx_context *ctx, uint32_t lanes, uint32_t live)
{
	const struct ptx_binary *binary = c->ctx.binary;

	c->ctx = *ctx;
	c->ctx.binary = binary;
	c->ctx.variables = binary->kernel->function->module->addresses;
	c->ctx.cache = c->cache;
	c->ctx.caller_live = live | ctx->caller_live;
	memset(c->cache, 0xff, binary->site_count * sizeof(struct ptx_cached_range));
	ptx_check_provenances(&c->ctx);
	c->warp.frame->live = lanes;
}

static void run(struct ptx_thread *t, struct ptx_callee *c, uint32_t thread)
{
	for (;;) {
		char *top = (char *)c->warp.stack + c->warp.stack_bytes;

		ptx_stack_clean(&c->warp);
		if (ptx_call_on_stack(top, c->code->code, &c->ctx, thread, c->warp.frame) == PTX_LEAVE_DONE)
			return;
		c->warp.masked = !c->warp.masked;
		provide(t, c);
	}
}

static void call(struct ptx_context *ctx, uint64_t address, uint32_t lanes, uint32_t live, uint32_t thread)
{
	struct ptx_thread *t = ctx->thread;
	struct ptx_warp *w = &t->warps[t->current];
	struct ptx_callee *c;

	/* calls may recur without a loop */
	if (__atomic_load_n(ctx->cancel, __ATOMIC_RELAXED))
		ptx_rt_cancelled(ctx, 0, thread);
	c = enter(ctx, w);

	/* the other warps run in between, and `t->current` is this one again afterwards */
	c->address = address;
	c->ctx.binary = NULL;
	c->full = NULL;
	c->warp.masked = false;
	provide(t, c);
	c->full = c->code;
	c->warp.masked = lanes != UINT32_MAX && !c->ctx.binary->standalone;
	if (c->warp.masked)
		provide(t, c);
	begin(c, ctx, lanes, live);
	c->warp.frame->entry = c->warp.masked ? UINT32_MAX : 0;
	run(t, c, thread);
	w->callee = c->caller;
}

void ptx_call_address(struct ptx_context *ctx, uint32_t mask, const uint64_t *addresses, uint32_t thread, uint32_t live)
{
	while (mask) {
		uint64_t address = addresses[__builtin_ctz(mask)];
		uint32_t same = 0;

		for (uint32_t left = mask; left; left &= left - 1)
			if (addresses[__builtin_ctz(left)] == address)
				same |= left & -left;
		mask &= ~same;
		call(ctx, address, same, live, thread);
	}
}
