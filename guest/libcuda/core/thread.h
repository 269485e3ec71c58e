/* SPDX-License-Identifier: Apache-2.0 */
/* What the library keeps for each thread of the application. */
#ifndef VCUDA_THREAD_H
#define VCUDA_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/client/call.h"
#include "protocol/cuda-abi.h"

struct vcuda_context;
struct vcuda_pace;

#define VCUDA_CONTEXT_STACK 64
#define VCUDA_THREAD_PACES 16

/* Rooms that keep something for each thread. */
enum vcuda_thread_slot { VCUDA_THREAD_STREAM, VCUDA_THREAD_GRAPH, VCUDA_THREAD_SLOTS };

struct vcuda_thread {
	struct call_thread calls;
	unsigned int depth; /* of the stack of current contexts; the top one is current */
	struct vcuda_context *stack[VCUDA_CONTEXT_STACK];
	struct vcuda_context
		*heard_of; /* the worker's last answer: this context had not failed; NULL: the worker lives */
	uint64_t heard_at; /* vcuda_ticks() */
	bool in_callback;  /* runs a host function: those make no CUDA calls */
	void *slots[VCUDA_THREAD_SLOTS];              /* what each room keeps; NULL at first */
	struct vcuda_pace *paces[VCUDA_THREAD_PACES]; /* of the streams that it used last (throttle.c) */
};

/*
 * The calling thread's, once it is known. Each call asks several times: 8 bytes of the room that the loader keeps for
 * such variables of libraries that come later, so that it is no function call.
 */
extern _Thread_local struct vcuda_thread *vcuda_thread_known __attribute__((tls_model("initial-exec")));

struct vcuda_thread *vcuda_thread_begin(void);

/* The calling thread's; never NULL. */
static inline struct vcuda_thread *vcuda_thread(void)
{
	return vcuda_thread_known ? vcuda_thread_known : vcuda_thread_begin();
}

/* Ticks of the processor's clock, 2 to 4 a ns. */
static inline uint64_t vcuda_ticks(void)
{
	return __builtin_ia32_rdtsc();
}

#endif
