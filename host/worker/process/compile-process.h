/* SPDX-License-Identifier: Apache-2.0 */
/* A process that compiles for a worker: orders come over a stream socket, one at a time, and results go back. */
#ifndef VCUDA_WORKER_COMPILE_PROCESS_H
#define VCUDA_WORKER_COMPILE_PROCESS_H

#include <stdint.h>

#include "protocol/compiler.h"

/* With the descriptor of the module's file. */
struct worker_compile_order {
	uint64_t seconds, memory; /* processor time; bytes beyond the use of an idle compile process */
	uint32_t bytes;
	uint8_t order[VCUDA_COMPILE_ORDER_BYTES];
};

/* The answer is this, and `bytes` of result. A process that ends instead tells by its status why. */
struct worker_compile_answer {
	uint64_t bytes;
};

/* SIGXCPU says that the time was over. */
enum {
	WORKER_COMPILE_IDLE = 0, /* took no order, and is not needed now */
	WORKER_COMPILE_BAD = 1,
	WORKER_COMPILE_NO_MEMORY = 3,
};

/* In a process that has no descriptor of others. own_bytes: its writable memory before it has compiled anything. */
_Noreturn void worker_compile_process_run(int socket, vcuda_compile compile, uint64_t own_bytes);

#endif
