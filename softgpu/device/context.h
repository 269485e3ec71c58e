/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: the owners of a program's objects, and the unit of failure. After a fault `error` stays set in all contexts
 * of the device, and calls return it. As with NVIDIA's driver (580), the same process cannot make another context of
 * the device. Where struct softgpu_device has one_context, the fault's context alone fails.
 */
#ifndef VCUDA_CPU_CONTEXT_H
#define VCUDA_CPU_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/list.h"
#include "ops.h"
#include "device/schedule.h"

#define SOFTGPU_LIMITS CU_LIMIT_MAX

struct CUctx_st {
	struct vcuda_list node; /* all that are alive */
	uint64_t id;       /* tells a context from a later one at the same address, or in the same primary context */
	unsigned int refs; /* one for the context itself, and one for each thread that waits in one of its calls */
	CUdevice device;
	bool alive;
	bool primary;
	bool ending;    /* only its end is to come: waiters skip values that none of its operations writes */
	bool abandoned; /* work that has not started is dropped */
	bool cancel;    /* running kernels are to stop; atomic */
	CUresult error; /* sticky */
	unsigned int flags;
	CUfunc_cache cache;
	size_t limits[SOFTGPU_LIMITS]; /* by CUlimit */
	unsigned int holds;        /* streams that hold */
	struct CUstream_st null_stream;
	struct vcuda_list streams; /* all others */
	struct vcuda_list events;
	struct vcuda_list owned; /* objects of rooms above the device: struct softgpu_owned */
	uint64_t *peers;         /* the ids of peer_count contexts whose memory kernels may access (peer.c) */
	unsigned int peer_count;
	struct softgpu_map *map; /* with peers: the memory that kernels may access (map.c), or NULL */
	struct softgpu_heap *heap; /* module/heap.c; NULL: no kernel has needed it, and its limit was not set */
};

/*
 * Part of an object that ends with its context and whose type the device does not know. Its owner adds it to the
 * context's list, and removes it when the object ends before the context.
 */
struct softgpu_owned {
	struct vcuda_list node;
	/*
	 * The context's work is done and its memory is still there. Removes the object from the list. May drop the
	 * lock.
	 */
	void (*end)(struct softgpu_owned *owned);
};

/*
 * Takes the lock and gives the calling thread's current context. Fails, without the lock, if there is no context, or if
 * it is destroyed or failed: the caller returns this result. Waits while too much is queued.
 */
CUresult softgpu_enter(struct CUctx_st **context);

/*
 * The same, before the caller submits an operation that holds `bytes`. CUDA_ERROR_OUT_OF_MEMORY: there is no room, and
 * no running operation would make room.
 */
CUresult softgpu_enter_with(struct CUctx_st **context, uint64_t bytes);

/*
 * The calling thread never waits in softgpu_enter() from now on: other threads wait for the operations that it submits.
 */
void softgpu_enter_at_once(void);

/* The same, also in a context that has failed: for calls that must wait until its last kernels have stopped. */
CUresult softgpu_enter_failed(struct CUctx_st **context);

/* Releases the lock and returns `result`. */
CUresult softgpu_leave(CUresult result);

/* The rest: with the lock held. */

/* Waits for a scope inside `context`; returns the state of the context afterwards. Drops the lock meanwhile. */
CUresult softgpu_context_wait(struct CUctx_st *context, const struct softgpu_scope *scope);

/* Keeps the structure, not the context's life, over a dropped lock. */
void softgpu_context_get(struct CUctx_st *context);
void softgpu_context_put(struct CUctx_st *context);

/* CUDA_SUCCESS, the sticky error, or that the context is destroyed. */
CUresult softgpu_context_state(const struct CUctx_st *context);

/*
 * The context has failed, and with it all contexts of its device, unless that has one_context. Only the first error
 * counts: returns false for others.
 */
bool softgpu_context_fail(struct CUctx_st *context, CUresult error);

/* Whether kernels of `context` may access the memory of `peer`, of another device (peer.c). */
bool softgpu_peer_has(const struct CUctx_st *context, const struct CUctx_st *peer);

/* The context ends: it has no peers any more. */
void softgpu_peers_drop(struct CUctx_st *context);

#endif
