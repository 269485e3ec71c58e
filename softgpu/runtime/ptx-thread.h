/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state that an OS thread keeps to run blocks: for each resident block, stacks for the warps, shared and local
 * memory, and the block's state. Mostly there is one block; blocks that may wait for one another are resident together
 * (see ptx-run.c). Only its own OS thread uses a warp's stack.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_THREAD_H
#define VCUDA_BACKEND_CPU_PTX_THREAD_H

#include "runtime/ptx-run.h"

#define PTX_MAX_WARPS 32
#define PTX_BARRIERS 17 /* 16 that programs name, and one of the cluster */

/*
 * Between two versions of the kernel all state of a warp is here and in its frame, so that the warp can go on on
 * another stack. The stack that the masked version needs is known only once that version has been compiled.
 */
struct ptx_warp {
	void *sp;
	void *stack;
	size_t stack_bytes;
	void *tsan_fiber; /* ThreadSanitizer's name of the stack */
	struct ptx_frame *frame;
	uint32_t number; /* of the warp in its block */
	bool masked;     /* the version with lane masks runs */
	uint32_t live;                                          /* lanes that had not exited, at its last barrier */
	uint32_t parked[PTX_BARRIERS], released[PTX_BARRIERS]; /* lanes: see ptx-barrier.c */
	uint32_t result[PTX_BARRIERS];                         /* of the last phase that released lanes */
	uint32_t full;                                         /* barriers, as bits, that have counted the whole warp */
	uint32_t line;                                         /* of the barrier that it waits at */
	struct ptx_callee *callees, *callee; /* memory for calls, the outermost first; the call at hand, or NULL */
};

/* A function that a warp calls by its address (ptx-callee.c). */
struct ptx_callee {
	struct ptx_callee *next;   /* for a call that this one makes */
	struct ptx_callee *caller; /* NULL: the kernel */
	uint64_t address;
	struct ptx_context ctx;               /* the caller's, for this function */
	struct ptx_machine_code *code, *full; /* the version that runs; the full one, once it is known */
	struct ptx_warp warp;                 /* its stack, its frame, and which version runs */
	void *frame, *cache;
	size_t frame_room, cache_room;
};

/* One phase of a barrier. */
struct ptx_barrier {
	uint32_t arrived, expected; /* threads */
	uint32_t full_warps;        /* warps whose live lanes have all arrived */
	uint32_t kind, count;
	bool all, any;
};

struct ptx_thread {
	struct ptx_thread *next; /* for another resident block */
	uint32_t number;         /* of the OS thread, in the order of their first blocks */
	struct ptx_context ctx;
	struct ptx_warp warps[PTX_MAX_WARPS];
	struct ptx_barrier barriers[PTX_BARRIERS];
	uint32_t warp_count, live_warps, current;
	uint32_t ready;                  /* warps, as bits, that can run */
	uint32_t together[PTX_BARRIERS]; /* warps that wait there as a whole, with nothing of them anywhere else */
	uint32_t arrived;                /* barriers, as bits, with an arrival in this phase */
	bool parted;                     /* some warp of the block has arrived at a barrier in parts */
	ptx_code full; /* for the present block */
	void *scheduler; /* stack pointer of the loop that switches between warps */
	void *tsan_fiber;      /* ThreadSanitizer's name of its stack */
	bool faulted, wants_masked;
	struct ptx_callee *wants_callee; /* of the present warp, for the scheduler; NULL: none */
	bool busy;  /* with a block */
	bool companions; /* other blocks stride through memory beside this one, or may yet */
	bool strides;    /* and it does: its last warp has given them a turn */
	bool moved; /* a warp did something else than poll for the value that it waits for */
	uint64_t serial; /* of the launch that memory is prepared for, or 0 */
	void *shared, *local, *cache, *frames;
	void *dropped; /* memory for dropped accesses: ptx-stray.c */
	size_t shared_room, local_room, cache_room, frames_room, dropped_room;
	uint32_t reserved; /* stacks; see ptx_thread_reserve() */
	uint64_t charged;  /* bytes that ptx-memory.c has charged for it */
	/* Only in the first of an OS thread: the first of the next OS thread, and whether it runs blocks. */
	struct ptx_thread *other;
	int state; /* atomic */
};

/* The warp begins with entry(t), which must not return. */
void ptx_fiber_start(struct ptx_warp *warp, void (*entry)(struct ptx_thread *t), struct ptx_thread *t);

/* Before a stack is used anew. */
void ptx_stack_clean(const struct ptx_warp *warp);

/* Makes *memory at least `bytes` long, zeroed and aligned to a page; its old contents are lost if it grows. */
bool ptx_thread_grow(void **memory, size_t *room, size_t bytes);
bool ptx_thread_stack(struct ptx_warp *warp, size_t bytes);
/* Whether a block that may as well run later may have that many stacks: there are only so many in a process. */
bool ptx_thread_reserve(struct ptx_thread *t, uint32_t stacks);
/* Gives all its memory back, until the next block. */
void ptx_thread_empty(struct ptx_thread *t);
/* The calling OS thread's first, and the one after `t`, which is made if it is not there; NULL: no memory. */
struct ptx_thread *ptx_thread_get(void);
struct ptx_thread *ptx_thread_next(struct ptx_thread *t);
void ptx_thread_resume(struct ptx_thread *t); /* from the scheduler to the current warp */
void ptx_thread_yield(struct ptx_thread *t); /* from a warp to another, or back to the scheduler */

/*
 * The stack to run in place of the current warp's, and where to save the current stack pointer. to NULL: the current
 * warp goes on.
 */
struct ptx_next {
	void *to, **from;
};

/* Chooses the warp, or the scheduler, and makes it the current one. */
struct ptx_next ptx_thread_next_warp(struct ptx_thread *t);
void ptx_thread_switch(struct ptx_thread *t, struct ptx_next next);
void ptx_thread_tsan_fiber(struct ptx_thread *t, struct ptx_next next); /* for ThreadSanitizer only */

/* The same at the end of a warp: no call, for the sake of the returns that follow (ptx-fiber.c). */
#ifdef __SANITIZE_THREAD__
__attribute__((no_sanitize("thread")))
#else
__attribute__((always_inline))
#endif
static inline void ptx_thread_exit(struct ptx_thread *t)
{
	struct ptx_next next = ptx_thread_next_warp(t);

#ifdef __SANITIZE_THREAD__
	ptx_thread_tsan_fiber(t, next);
#endif
	__asm__ volatile("jmp ptx_fiber_go" : : "a"(next.to) : "memory");
	__builtin_unreachable();
}

/*
 * The part of ptx_rt_sync() and ptx_rt_turn() before the switch. *value: the result of ptx_rt_sync(), at first all
 * lanes.
 */
struct ptx_next ptx_sync_next(struct ptx_context *ctx, uint32_t line, uint32_t id, uint32_t lanes, uint32_t live,
			      uint64_t *value);
struct ptx_next ptx_turn_next(struct ptx_context *ctx, uint64_t last);

/* Ends the block with a fault at a line of the PTX. */
void ptx_fault_line(struct ptx_context *ctx, enum ptx_fault_kind kind, uint32_t line, uint32_t thread)
	__attribute__((noreturn));

/* ---- ptx-memory.c: the process's account of memory of blocks ---- */
/* Makes the first struct ptx_thread of an OS thread, and ends it. */
void ptx_memory_add(struct ptx_thread *t);
void ptx_memory_remove(struct ptx_thread *t);
/* The OS thread runs blocks from the one call to the other. In between, other threads leave its memory alone. */
void ptx_memory_enter(struct ptx_thread *t);
void ptx_memory_leave(struct ptx_thread *t);

uint32_t ptx_warps(const struct ptx_binary *binary); /* number of warps with a stack */
bool ptx_memory_is_prepared(const struct ptx_thread *t, const struct ptx_launch *launch);

enum ptx_provided {
	PTX_PROVIDED,
	PTX_NOT_NOW, /* other blocks hold the memory that it needs */
	PTX_TOO_MUCH,
};

/* The part of the limit that blocks may have together for one more block to begin. */
enum ptx_share {
	PTX_HALF,  /* beside other blocks of its OS thread: the rest is for launches that these may wait for */
	PTX_WHOLE, /* for the only block of an OS thread */
	PTX_TWICE, /* for a block that must go on */
};

/*
 * Maps the memory that a block of the launch needs, if that fits into the share. Then ptx_memory_prepare() tells the
 * block's context.
 */
enum ptx_provided ptx_memory_provide(struct ptx_thread *t, const struct ptx_launch *launch, enum ptx_share share);
void ptx_memory_prepare(struct ptx_thread *t, const struct ptx_launch *launch);
/* A larger stack for a warp of a resident block. */
bool ptx_memory_provide_stack(struct ptx_thread *t, struct ptx_warp *warp, size_t bytes);
/* The stack, the frame and the cache for the code of a callee. */
bool ptx_memory_provide_callee(struct ptx_thread *t, struct ptx_callee *c);
/* Memory of `t` has been unmapped. */
void ptx_memory_settle(struct ptx_thread *t);
/* Frees unused memory of the calling OS thread, whose first one is `t`, or else waits a moment for others. */
void ptx_memory_wait(struct ptx_thread *t);
/* Whether an OS thread waits. */
bool ptx_memory_wanted(void);

/* ---- ptx-barrier.c ---- */
void ptx_barrier_reset(struct ptx_thread *t);     /* a block begins */
void ptx_barrier_warp_done(struct ptx_thread *t); /* the present warp has exited */
void ptx_barrier_describe(const struct ptx_thread *t, struct ptx_fault *fault);

#endif
