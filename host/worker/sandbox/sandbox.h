/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox of a worker: what a guest that takes over the worker can still reach.
 *
 * Stage 1 comes before the first byte of a guest: no new privileges, no capabilities, Landlock, first victim when
 * memory runs out. Stage 2 comes when the back end is up: a list of system calls (calls.c). All functions are called by
 * one thread at a time.
 */
#ifndef VCUDA_WORKER_SANDBOX_H
#define VCUDA_WORKER_SANDBOX_H

#include <stdbool.h>

/*
 * "best-effort": what the kernel offers. "strict": all of it, else the worker does not start; a system call that is not
 * on the list kills the worker at once. "log": such a call is logged and goes on. "off": nothing.
 */
bool worker_sandbox_choose(const char *mode);

/* The mode that was chosen. */
const char *worker_sandbox_mode(void);

struct worker_sandbox_needs {
	bool cpu, cuda;               /* which back ends may be loaded */
	const char *const *libraries; /* folders with libraries of ours, which may be missing; ends with NULL */
};

/* Stage 1, while there is one thread. False, logged: the worker must not go on. */
bool worker_sandbox_enter(const struct worker_sandbox_needs *needs);

/* Stage 2, for all threads; cpu: the back end is the software GPU. False, logged: the worker must not go on. */
bool worker_sandbox_close(bool cpu);

/*
 * The same for a process that the worker was allowed to fork before its own stage 2, and whose only work is to start
 * processes that compile; and then for each of those. False, logged: the process must not go on.
 */
bool worker_sandbox_close_spawner(void);
bool worker_sandbox_forbid_processes(void);

#endif
