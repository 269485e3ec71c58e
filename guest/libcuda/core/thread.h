/* SPDX-License-Identifier: Apache-2.0 */
/* The library's state for each thread of the application. */
#ifndef VCUDA_THREAD_H
#define VCUDA_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/client/call.h"
#include "protocol/cuda-abi.h"
#include "protocol/profile-table.h"

struct libcuda_context;
struct libcuda_throttle;

#define LIBCUDA_CONTEXT_STACK 64
#define LIBCUDA_THREAD_THROTTLES 16

/* Rooms that keep something for each thread. */
enum libcuda_thread_slot { LIBCUDA_THREAD_STREAM, LIBCUDA_THREAD_GRAPH, LIBCUDA_THREAD_RUNTIME, LIBCUDA_THREAD_SLOTS };

struct libcuda_thread {
	struct call_thread calls;
	unsigned int depth; /* of the stack of current contexts; the top one is current */
	struct libcuda_context *stack[LIBCUDA_CONTEXT_STACK];
	struct libcuda_context
		*confirmed_context; /* the worker's last answer: this context had not failed; NULL: the worker lives */
	uint64_t confirmed_at;      /* libcuda_ticks() */
	bool in_names;              /* holds the lock of trace/profile-function.c, or is about to */
	bool in_callback;           /* runs a host function: those make no CUDA calls */
	/* The call that the thread is in, while calls are recorded (trace/profile.h). */
	struct libcuda_recorded {
		uint32_t correlation;    /* of the call, and of its commands; 0: it is not recorded */
		uint32_t copy;           /* number of the call, for the pieces of its copy */
		uint32_t pieces;         /* commands so far that may be a part of a copy */
		uint32_t nodes;          /* commands so far that are work of a graph's nodes */
		uint64_t wanted, detail; /* the sink's tags */
	} recorded;
	/* The executable graph that the thread launches, and its node; 0: none. */
	struct vcuda_profile_node launched;
	void *slots[LIBCUDA_THREAD_SLOTS]; /* data of each folder; NULL at first */
	struct libcuda_throttle
		*throttles[LIBCUDA_THREAD_THROTTLES]; /* of the streams that it used last (throttle.c) */
};

/*
 * The calling thread's state, or NULL before the first use. Each call reads it several times, so a read is no function
 * call (initial-exec). For that the loader places all thread-local variables of the library in some 1,700 bytes that it
 * reserves for libraries opened at run time. Thread-local variables of the library must therefore be small.
 */
extern _Thread_local struct libcuda_thread *libcuda_thread_cached __attribute__((tls_model("initial-exec")));

struct libcuda_thread *libcuda_thread_begin(void);

/* The calling thread's; never NULL. */
static inline struct libcuda_thread *libcuda_thread(void)
{
	return libcuda_thread_cached ? libcuda_thread_cached : libcuda_thread_begin();
}

/* Ticks of the processor's clock, 2 to 4 a ns. */
static inline uint64_t libcuda_ticks(void)
{
	return __builtin_ia32_rdtsc();
}

#endif
