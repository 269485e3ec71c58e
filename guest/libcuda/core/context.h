/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA contexts. The application's CUcontext is the address of a struct libcuda_context, which is never freed: so a
 * primary context has its handle before it is active, and a dead handle is told from a live one. Handles from the
 * application are looked up, never followed.
 */
#ifndef VCUDA_CONTEXT_H
#define VCUDA_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/thread.h"
#include "guest/client/call.h"
#include "protocol/cuda-abi.h"

/* The page to which streams write their progress, and the number of these streams. */
struct libcuda_fence_page {
	_Atomic uint64_t generation; /* of the context: all this is of that generation */
	_Atomic unsigned int streams;
	_Atomic uint64_t refused; /* the generation, plus one, that has no page, so that it is not asked for again */
	uint32_t *page;
	uint64_t page_generation;
	unsigned int taken;
	_Atomic unsigned int readers; /* threads that look at a word now */
	_Atomic unsigned int waits;   /* the first few */
};

/* The progress of waits, as positions in the ring (completion.h). */
struct libcuda_completion {
	_Atomic uint64_t all;            /* all work that was issued before this is done */
	_Atomic uint64_t blocking;       /* all such work that the default stream depends on is done */
	_Atomic uint64_t output_flushed; /* the last wait that flushed the printf output of kernels */
	_Atomic uint64_t polled;         /* the last work that was found to be done without such a wait */
};

struct libcuda_context {
	struct call_context calls;   /* id NULL: an inactive primary context, or a destroyed context */
	_Atomic int error;           /* CUresult that ended it (a kernel's fault): every later call gives it */
	_Atomic uint64_t generation; /* changes when the context's objects are gone (reset, destroyed) */
	CUdevice device;
	bool primary;
	_Atomic int64_t flags; /* of a primary context, or -1: not known yet */
	unsigned int refs;     /* under the contexts' lock: of a primary context; of another, those beyond its first */
	unsigned int api_version;
	uint64_t number;                     /* number of the present activation, for cuCtxGetId; 0: none yet */
	uint64_t stream_number;              /* number of the default stream */
	struct libcuda_fence_page fences;    /* throttle.c */
	struct libcuda_completion completed; /* completion.c */
	struct libcuda_context *next;
};

/* The calling thread's current context, NULL if it has none. */
static inline struct libcuda_context *libcuda_context_current(void)
{
	const struct libcuda_thread *t = libcuda_thread();

	return t->depth ? t->stack[t->depth - 1] : NULL;
}

/* Whether the process never had another context. */
bool libcuda_context_is_only_one(void);

/*
 * Whether no work of any stream is outstanding (guest/client/call.h), so that nothing on the device can tell when a
 * copy is made. False where the process had several contexts.
 */
bool libcuda_context_is_idle(const struct libcuda_context *context);

static inline struct libcuda_context *libcuda_context_of_calls(struct call_context *calls)
{
	return (struct libcuda_context *)((char *)calls - offsetof(struct libcuda_context, calls));
}

/* The context behind a handle, NULL if there never was such a one. */
struct libcuda_context *libcuda_context_find(CUcontext handle);

/*
 * libcuda_require_init(), and the context that an application names; NULL: the current one. CUDA_ERROR_INVALID_CONTEXT,
 * CUDA_ERROR_CONTEXT_IS_DESTROYED.
 */
CUresult libcuda_context_named(CUcontext handle, struct libcuda_context **context);

static inline CUcontext libcuda_context_handle(struct libcuda_context *context)
{
	return (CUcontext)context;
}

/* The handle of a device's primary context, which stays the same for ever. NULL if memory ran out. */
struct libcuda_context *libcuda_context_primary(CUdevice device);

/* Why no call can be made in `context`: CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED, its error; or
 * CUDA_SUCCESS. */
CUresult libcuda_context_usable(struct libcuda_context *context);

/* The options of a call in a context, which may be NULL: the current one. */
static inline struct call_options libcuda_context_options(struct libcuda_context *context)
{
	return (struct call_options){.context = context ? &context->calls : NULL};
}

#endif
