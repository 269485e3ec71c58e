/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks for warps and the switch between them, and the memory that an OS thread keeps from block to block. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(start, bytes) ((void)(start), (void)(bytes))
#endif

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include "runtime/ptx-thread.h"

#ifndef __x86_64__
#error "the switch between warps is written for x86-64 only"
#endif

/*
 * The saved state of a suspended stack, from below: a value, which is in %rax when the fiber resumes, the six
 * callee-saved registers, and the return address. A fiber that has not begun has an odd stack pointer. Its stack has
 * the argument of its first function, and that function's address.
 *
 * A processor predicts returns by the calls that it has seen, and the warps of a block mostly wait at the same place.
 * So compiled code is one call away from the switch, and a warp that ends jumps instead of calling. Then each return
 * goes to the place of the last suspended warp's call.
 */
#define SAVE                                                                                                           \
	"	pushq %rbp\n"                                                                                          \
	"	pushq %rbx\n"                                                                                          \
	"	pushq %r12\n"                                                                                          \
	"	pushq %r13\n"                                                                                          \
	"	pushq %r14\n"                                                                                          \
	"	pushq %r15\n"

#define BEGIN(name)                                                                                                    \
	"	.globl " name "\n"                                                                                     \
	"	.hidden " name "\n"                                                                                    \
	"	.type " name ", @function\n"                                                                           \
	"	.p2align 4\n" name ":\n"

#define END(name) "	.size " name ", . - " name "\n"

/* clang-format off */
__asm__("	.text\n"
	BEGIN("ptx_fiber_switch") /* from, to */
	SAVE
	"	pushq $0\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rsi, %rax\n"
	END("ptx_fiber_switch")
	BEGIN("ptx_fiber_go") /* %rax: to */
	"	testb $1, %al\n"
	"	jnz 1f\n"
	"	movq %rax, %rsp\n"
	"	popq %rax\n"
	"	popq %r15\n"
	"	popq %r14\n"
	"	popq %r13\n"
	"	popq %r12\n"
	"	popq %rbx\n"
	"	popq %rbp\n"
	"	ret\n"
	"1:	leaq -1(%rax), %rsp\n"
	"	popq %rdi\n"
	"	popq %rax\n"
	"	jmp *%rax\n"
	END("ptx_fiber_go"));

#ifndef __SANITIZE_THREAD__
/*
 * A function of the runtime that asks `next` which warp is to run now. The value is on the stack by then, and its
 * address the last argument.
 */
#define ASKS(name, next, value)                                                                                        \
	BEGIN(name)                                                                                                    \
	SAVE                                                                                                           \
	value                                                                                                          \
	"	movq %rsp, %r9\n"                                                                                      \
	"	call " next "\n"                                                                                       \
	"	testq %rax, %rax\n"                                                                                    \
	"	jz 1f\n"                                                                                               \
	"	movq %rsp, (%rdx)\n"                                                                                   \
	"	jmp ptx_fiber_go\n"                                                                                    \
	"1:	popq %rax\n"                                                                                           \
	"	addq $48, %rsp\n"                                                                                      \
	"	ret\n"                                                                                                 \
	END(name)

__asm__("	.text\n"
	/* all lanes, the fourth argument, go on: the upper half */
	ASKS("ptx_rt_sync", "ptx_sync_next",
	"	movl %ecx, %eax\n"
	"	shlq $32, %rax\n"
	"	pushq %rax\n")
	ASKS("ptx_rt_turn", "ptx_turn_next",
	"	pushq $0\n"));
#endif
/* clang-format on */

/* Saves the state at *from, and goes on at `to`. */
void ptx_fiber_switch(void **from, void *to);

/*
 * ThreadSanitizer learns here which warp runs next; otherwise it would take all warps of a thread for one. An
 * instrumented function would begin on one stack and end on another.
 */
#ifdef __SANITIZE_THREAD__
__attribute__((no_sanitize("thread")))
#endif
static void fiber_switch(void **from, void *to, void *tsan_fiber)
{
#ifdef __SANITIZE_THREAD__
	__tsan_switch_to_fiber(tsan_fiber, 0);
#else
	(void)tsan_fiber;
#endif
	ptx_fiber_switch(from, to);
}

static void drop_tsan_fiber(struct ptx_warp *warp)
{
#ifdef __SANITIZE_THREAD__
	if (warp->tsan_fiber)
		__tsan_destroy_fiber(warp->tsan_fiber);
#endif
	warp->tsan_fiber = NULL;
}

/* A stack's functions may not have returned: the sanitizer's marks of their frames are still there. */
void ptx_stack_clean(const struct ptx_warp *warp)
{
	ASAN_UNPOISON_MEMORY_REGION(warp->stack, warp->stack_bytes);
}

void ptx_fiber_start(struct ptx_warp *warp, void (*entry)(struct ptx_thread *t), struct ptx_thread *t)
{
	uint64_t *top = (uint64_t *)((char *)warp->stack + warp->stack_bytes);

	ptx_stack_clean(warp);
	drop_tsan_fiber(warp);
#ifdef __SANITIZE_THREAD__
	warp->tsan_fiber = __tsan_create_fiber(0);
#endif
	/* as if `entry` had been called: the return address is unused */
	*--top = 0;
	*--top = (uint64_t)(uintptr_t)entry;
	*--top = (uint64_t)(uintptr_t)t;
	warp->sp = (char *)top + 1;
}

#define STAGGER 320 /* bytes, a multiple of a cache line */
#define STAGGER_STEPS 12

static void free_stack(struct ptx_warp *warp, size_t page)
{
	if (!warp->stack)
		return;
	ASAN_UNPOISON_MEMORY_REGION(warp->stack, warp->stack_bytes);
	munmap((char *)((uintptr_t)warp->stack / page * page - page), warp->stack_bytes + 2 * page);
	warp->stack = NULL;
	warp->stack_bytes = 0;
}

/*
 * The page below the stack is inaccessible. Stacks begin at different offsets in a page: the warps of a block take
 * turns, and data at the same offset of all stacks would not fit into the first-level cache.
 */
bool ptx_thread_stack(struct ptx_warp *warp, size_t bytes)
{
	size_t page, offset = (uintptr_t)warp / sizeof(*warp) % STAGGER_STEPS * STAGGER;
	char *memory;

	if (warp->stack_bytes >= bytes)
		return true;
	page = (size_t)sysconf(_SC_PAGESIZE);
	bytes = (bytes + page - 1) / page * page;
	free_stack(warp, page);
	memory = mmap(NULL, bytes + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	if (mprotect(memory, page, PROT_NONE)) {
		munmap(memory, bytes + 2 * page);
		return false;
	}
	warp->stack = memory + page + offset;
	warp->stack_bytes = bytes;
	return true;
}

/* Untouched pages cost nothing, so that a kernel may ask for much more than it uses. */
bool ptx_thread_grow(void **memory, size_t *room, size_t bytes)
{
	size_t page;
	void *bigger;

	if (*room >= bytes)
		return true;
	page = (size_t)sysconf(_SC_PAGESIZE);
	bytes = (bytes + page - 1) / page * page;
	bigger = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (bigger == MAP_FAILED)
		return false;
	if (*memory)
		munmap(*memory, *room);
	*memory = bigger;
	*room = bytes;
	return true;
}

static void release(void **memory, size_t *room)
{
	if (*memory)
		munmap(*memory, *room);
	*memory = NULL;
	*room = 0;
}

/*
 * A stack and the page below it are two mappings, and Linux allows a process 65530. Optional blocks take fewer than
 * half of them. So on a host with hundreds of processors, every OS thread can still have its first block.
 */
#define MOST_RESERVED 12288

static uint32_t reserved;

bool ptx_thread_reserve(struct ptx_thread *t, uint32_t stacks)
{
	uint32_t more = stacks > t->reserved ? stacks - t->reserved : 0;

	if (more && __atomic_add_fetch(&reserved, more, __ATOMIC_RELAXED) > MOST_RESERVED) {
		__atomic_sub_fetch(&reserved, more, __ATOMIC_RELAXED);
		return false;
	}
	t->reserved += more;
	return true;
}

static void free_callees(struct ptx_warp *warp, size_t page)
{
	for (struct ptx_callee *c = warp->callees, *next; c; c = next) {
		next = c->next;
		free_stack(&c->warp, page);
		release(&c->frame, &c->frame_room);
		release(&c->cache, &c->cache_room);
		free(c);
	}
	warp->callees = warp->callee = NULL;
}

void ptx_thread_empty(struct ptx_thread *t)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (unsigned w = 0; w < PTX_MAX_WARPS; w++) {
		drop_tsan_fiber(&t->warps[w]);
		free_stack(&t->warps[w], page);
		free_callees(&t->warps[w], page);
	}
	release(&t->shared, &t->shared_room);
	release(&t->local, &t->local_room);
	release(&t->cache, &t->cache_room);
	release(&t->frames, &t->frames_room);
	release(&t->dropped, &t->dropped_room);
	__atomic_sub_fetch(&reserved, t->reserved, __ATOMIC_RELAXED);
	t->reserved = 0;
	t->serial = 0;
	ptx_memory_settle(t);
}

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void destroy(void *data)
{
	ptx_memory_remove(data);
	for (struct ptx_thread *t = data, *next; t; t = next) {
		next = t->next;
		ptx_thread_empty(t);
		free(t);
	}
}

static void make_key(void)
{
	pthread_key_create(&key, destroy);
}

struct ptx_thread *ptx_thread_get(void)
{
	static __thread struct ptx_thread *mine;
	static uint32_t count;

	if (mine)
		return mine;
	pthread_once(&once, make_key);
	mine = calloc(1, sizeof(*mine));
	if (!mine)
		return NULL;
	mine->number = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
	pthread_setspecific(key, mine);
	ptx_memory_add(mine);
	return mine;
}

struct ptx_thread *ptx_thread_next(struct ptx_thread *t)
{
	if (!t->next) {
		t->next = calloc(1, sizeof(*t));
		if (t->next)
			t->next->number = t->number;
	}
	return t->next;
}

void ptx_thread_resume(struct ptx_thread *t)
{
#ifdef __SANITIZE_THREAD__
	t->tsan_fiber = __tsan_get_current_fiber();
#endif
	fiber_switch(&t->scheduler, t->warps[t->current].sp, t->warps[t->current].tsan_fiber);
}

/*
 * Straight to the next warp that can run: the scheduler's calls would come between. After the last warp of a block that
 * polls, other blocks get their turn.
 */
struct ptx_next ptx_thread_next_warp(struct ptx_thread *t)
{
	struct ptx_warp *from = &t->warps[t->current];
	uint32_t next = t->ready & ~1u << t->current;

	if (!next && !t->ctx.binary->waits)
		next = t->ready & ~(1u << t->current);
	if (!next || t->faulted || t->wants_masked || t->wants_callee)
		return (struct ptx_next){t->scheduler, &from->sp};
	t->current = (uint32_t)__builtin_ctz(next);
	return (struct ptx_next){t->warps[t->current].sp, &from->sp};
}

/*
 * A turn waits for nothing: it only improves the order. After the last warp other blocks have their turn. After the
 * first round of a loop (`last`, its place before, is 0) they do not, since its stride is not known yet.
 */
struct ptx_next ptx_turn_next(struct ptx_context *ctx, uint64_t last)
{
	struct ptx_thread *t = ctx->thread;

	t->moved = true;
	if (last && t->companions && !(t->ready & ~1u << t->current)) {
		t->strides = true;
		return (struct ptx_next){t->scheduler, &t->warps[t->current].sp};
	}
	return t->ready & (t->ready - 1) ? ptx_thread_next_warp(t) : (struct ptx_next){NULL, NULL};
}

void ptx_thread_switch(struct ptx_thread *t, struct ptx_next next)
{
	fiber_switch(next.from, next.to, next.to == t->scheduler ? t->tsan_fiber : t->warps[t->current].tsan_fiber);
}

void ptx_thread_yield(struct ptx_thread *t)
{
	ptx_thread_switch(t, ptx_thread_next_warp(t));
}

#ifdef __SANITIZE_THREAD__
void ptx_thread_tsan_fiber(struct ptx_thread *t, struct ptx_next next)
{
	__tsan_switch_to_fiber(next.to == t->scheduler ? t->tsan_fiber : t->warps[t->current].tsan_fiber, 0);
}

/* A function that it looks at cannot end on another stack than it began on, so here they are functions like others. */
uint64_t ptx_rt_sync(struct ptx_context *ctx, uint32_t line, uint32_t id, uint32_t lanes, uint32_t live)
{
	uint64_t value = (uint64_t)lanes << 32;
	struct ptx_next next = ptx_sync_next(ctx, line, id, lanes, live, &value);

	if (next.to)
		ptx_thread_switch(ctx->thread, next);
	return value;
}

void ptx_rt_turn(struct ptx_context *ctx, uint64_t last)
{
	struct ptx_next next = ptx_turn_next(ctx, last);

	if (next.to)
		ptx_thread_switch(ctx->thread, next);
}
#endif
