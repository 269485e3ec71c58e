/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an OS thread keeps to run blocks: stacks for the warps, shared and local memory, the state of the block at hand.
 * A warp's stack is used by its own OS thread only.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_THREAD_H
#define VCUDA_BACKEND_CPU_PTX_THREAD_H

#include "ptx-run.h"

#define PTX_MAX_WARPS 32
#define PTX_BARRIERS 17 /* 16 that programs name, and one of the cluster */

enum ptx_warp_state { PTX_WARP_READY, PTX_WARP_WAITING, PTX_WARP_DONE };

/*
 * Between two versions of the kernel all that a warp knows is here and in its frame, so that it can go on on another
 * stack: how much the masked version needs is known only once it has been compiled.
 */
struct ptx_warp {
	void *sp;
	void *stack;
	size_t stack_bytes;
	struct ptx_frame *frame;
	uint32_t number; /* of the warp in its block */
	bool masked;     /* which version runs */
	enum ptx_warp_state state;
	uint32_t barrier, result;
};

struct ptx_barrier {
	uint32_t arrived, expected, count;
	bool all, any;
};

struct ptx_thread {
	struct ptx_context ctx;
	struct ptx_warp warps[PTX_MAX_WARPS];
	struct ptx_barrier barriers[PTX_BARRIERS];
	uint32_t warp_count, live_warps, current;
	ptx_code full; /* for the block at hand */
	void *scheduler; /* stack pointer of the loop that switches between warps */
	bool faulted, wants_masked;
	void *shared, *local, *cache, *frames;
	size_t shared_room, local_room, cache_room, frames_room;
	struct ptx_error compile_error;
};

/* Stores the callee-saved state at *from, and goes on at `to`. */
void ptx_fiber_switch(void **from, void *to);
/* A stack pointer to switch to that calls `entry`, which must not return. */
void *ptx_fiber_start(void *stack, size_t bytes, void (*entry)(void));

/* Makes *memory at least `bytes` long, zeroed and aligned to a page; its old contents are lost if it grows. */
bool ptx_thread_grow(void **memory, size_t *room, size_t bytes);
bool ptx_thread_stack(struct ptx_warp *warp, size_t bytes);
struct ptx_thread *ptx_thread_get(void);
void ptx_thread_yield(struct ptx_thread *t); /* from a warp back to the scheduler */

#endif
