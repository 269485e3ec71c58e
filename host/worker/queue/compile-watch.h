/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds calls in which a back end compiles code, or reads code to compile it later: such a call cannot be stopped. The
 * worker ends when the call's thread has used more time of a processor than vcudad's --max-compile-time. Thread-safe.
 */
#ifndef VCUDA_COMPILE_WATCH_H
#define VCUDA_COMPILE_WATCH_H

#include <stdint.h>
#include <time.h>

/* Belongs to one call, and is on the stack of the call's thread. */
struct worker_compile_watch {
	struct worker_compile_watch *next;
	clockid_t clock;
	uint64_t begin; /* ns of the clock */
};

/* Before the call and after it, on the same thread. */
void worker_compile_watch_begin(struct worker_compile_watch *watch);
void worker_compile_watch_end(struct worker_compile_watch *watch);

#endif
