/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls from core and the lower rooms into rooms above or beside them. The upper room registers itself or sets a
 * pointer; the lower room includes this header only. capture.h has the hook for stream capture.
 */
#ifndef VCUDA_HOOKS_H
#define VCUDA_HOOKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"
#include "protocol/profile-table.h"

struct libcuda_context;
struct libcuda_thread;

/* ---- observers ---- */

/* A room that keeps something for contexts or threads. Any function may be NULL. Each runs on the thread that ends the
 * context, or that ends itself. */
struct libcuda_observer {
	/* The context is about to end. Calls can still be made in it, and its generation is the old one. */
	void (*context_ends)(struct libcuda_context *context);
	/* The context's generation has moved on. Its memory is still there: a room that reads such memory stops here.
	 */
	void (*context_ended)(struct libcuda_context *context);
	/* No room reads the context's memory any more. Calls can still be made in it. */
	void (*context_memory_ends)(struct libcuda_context *context);
	void (*thread_exits)(struct libcuda_thread *thread);
	struct libcuda_observer *next; /* for libcuda_observe() */
};

/* Adds an observer for as long as the process lives. Only for functions that run while the library is loaded. */
void libcuda_observe(struct libcuda_observer *observer);

void libcuda_hooks_context_ends(struct libcuda_context *context);
void libcuda_hooks_context_ended(struct libcuda_context *context);
void libcuda_hooks_context_memory_ends(struct libcuda_context *context);
void libcuda_hooks_thread_exits(struct libcuda_thread *thread);

/* ---- completion ---- */

/* Runs around each command while memory/managed-mirror.c keeps copies of __managed__ variables. */
struct libcuda_mirror_ops {
	void (*before)(unsigned int op, struct libcuda_context *context);
	/* `waited`: the thread waited for an asynchronous command. `result`: the worker's. */
	void (*after)(unsigned int op, struct libcuda_context *context, bool waited, CUresult result);
};

/* NULL while there are no such copies. */
extern _Atomic(const struct libcuda_mirror_ops *) libcuda_mirror_hook;

static inline const struct libcuda_mirror_ops *libcuda_mirror_ops(void)
{
	return atomic_load_explicit(&libcuda_mirror_hook, memory_order_acquire);
}

/* ---- services; NULL: the library has no such room ---- */

/* Pinned memory of a context, until the context ends. memory/pinned.c */
extern CUresult (*libcuda_hook_pinned)(struct libcuda_context *context, void **memory, size_t bytes);

/* cuInit has succeeded for the first time: from now on calls may be made. trace/trace.c */
extern void (*libcuda_hook_open)(void);

/* The recorder's table for libcupti.so. trace/profile-sink.c */
extern const struct vcuda_profile_table libcuda_profile_table;

/*
 * For NVIDIA's runtime. A switch that is not 0: the function of that number tells of its calls, before and after.
 * trace/profile-runtime.c
 */
#define LIBCUDA_RUNTIME_FUNCTIONS 1024
extern uint32_t libcuda_runtime_switches[LIBCUDA_RUNTIME_FUNCTIONS];
void libcuda_runtime_callback(uint32_t number, const void *record);

/* A tool asks for the work of each node of a graph: graphs run node by node. trace/profile-sink.c */
extern _Atomic bool libcuda_hook_nodes;

/* Writes a line about an event that belongs to no call. NULL too while calls are not traced. trace/trace.c */
extern void (*libcuda_hook_note)(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
