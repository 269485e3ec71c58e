/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spawner: a process of a worker that starts the processes that compile, and does nothing else. The worker itself
 * must not start any. The spawner ends with the worker, and its processes with it.
 *
 * It takes messages from a SOCK_SEQPACKET socket: struct worker_spawn. The answer has two descriptors, a new process's
 * socket (compile-process.h) and the read end of a pipe; without them there is no such process. When the process has
 * ended, its status (int, as of wait()) is written to the pipe. A process whose pipe is closed is killed.
 */
#ifndef VCUDA_WORKER_COMPILE_SPAWNER_H
#define VCUDA_WORKER_COMPILE_SPAWNER_H

#include <stdint.h>

#include "protocol/compiler.h"

enum worker_spawn_what {
	WORKER_SPAWN_PROCESS,
	WORKER_SPAWN_BACKGROUND, /* a process that leaves the processors to others */
	WORKER_SPAWN_SOON,       /* a process will be asked for; there is no answer */
};

struct worker_spawn {
	uint32_t what;
};

/* In the spawner, which has no other descriptor than the socket and the standard ones. own_bytes: as for a process. */
_Noreturn void worker_spawner_run(int socket, vcuda_compile compile, uint64_t own_bytes);

#endif
