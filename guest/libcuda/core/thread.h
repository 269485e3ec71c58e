/* SPDX-License-Identifier: Apache-2.0 */
/* What the library keeps for each thread of the application. */
#ifndef VCUDA_THREAD_H
#define VCUDA_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

struct vcuda_context;
struct vcuda_pace;

#define VCUDA_CONTEXT_STACK 64
#define VCUDA_THREAD_PACES 16

/* Rooms that keep something for each thread. */
enum vcuda_thread_slot { VCUDA_THREAD_STREAM, VCUDA_THREAD_GRAPH, VCUDA_THREAD_SLOTS };

struct vcuda_thread {
	uint32_t number;    /* small; goes with each command */
	unsigned int depth; /* of the stack of current contexts; the top one is current */
	struct vcuda_context *stack[VCUDA_CONTEXT_STACK];
	struct vcuda_context *call_context; /* in place of the current one for the calls made meanwhile, or NULL */
	bool call_sync;                     /* an async call made meanwhile waits for its result */
	bool call_settled;                  /* a call made meanwhile is only made if the context is settled (call.h) */
	uint64_t seq;                       /* of its last command */
	uint64_t position;                  /* where its last command ends in the ring */
	bool launched;                      /* that was a launch */
	struct vcuda_context
		*heard_of; /* known.c: of this context, that nothing has failed; NULL: that the worker lives */
	uint64_t heard_at; /* in ticks of the processor's clock */
	bool in_callback;  /* runs a host function: those make no CUDA calls */
	bool marks;        /* pace.c is at work */
	bool reads_output; /* output.c is at work */
	uint32_t waits, queued, stalls; /* so far: answers waited for, commands that nobody waited for, times that
					   the ring was full */
	uint64_t waited_ns;             /* for answers and room, if that is counted */
	bool (*meanwhile)(
		void *); /* or NULL: what the thread can do while it waits for an answer; false: nothing now */
	void *meanwhile_argument;
	void *slots[VCUDA_THREAD_SLOTS];              /* what each room keeps; NULL at first */
	struct vcuda_pace *paces[VCUDA_THREAD_PACES]; /* of the streams that it used last (pace.c) */
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

#endif
