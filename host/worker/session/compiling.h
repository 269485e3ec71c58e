/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the guest what is compiled while a command waits for it (ring/ring.h: struct vcuda_compiling). Thread-safe. */
#ifndef VCUDA_COMPILING_H
#define VCUDA_COMPILING_H

#include "protocol/compiler.h"
#include "session/session.h"

/* A compilation, in the memory of the waiting thread. */
struct worker_compiling {
	struct worker_compiling *next;
	const char *kernel; /* borrowed */
	uint32_t number;
};

/* From now on the session's guest is told; wake() wakes the guest's threads. */
void worker_compiling_tell(struct worker_session *s, void (*wake)(struct worker_session *s));

void worker_compiling_begin(struct worker_compiling *c, const char *kernel);
void worker_compiling_end(struct worker_compiling *c);

/* Counts a version of a kernel for the guest (compile-rows.h). */
void worker_compiling_count(const struct vcuda_compiled *compiled);

#endif
