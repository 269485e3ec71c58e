/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox of a program that serves guests: what a guest that takes over the program can still reach.
 *
 * Stage 1 comes before the first byte of a guest: no new privileges, no capabilities, Landlock, first victim when
 * memory runs out. Stage 2 is a list of system calls (calls.c); a worker's comes when the back end is up. All functions
 * are called by one thread at a time.
 */
#ifndef VCUDA_SANDBOX_H
#define VCUDA_SANDBOX_H

#include <stdbool.h>

/*
 * "best-effort": what the kernel offers. "strict": all of it, else the program does not start; a system call that is
 * not on the list kills the process at once. "log": such a call is logged and goes on. "off": nothing.
 */
bool sandbox_choose(const char *mode);

/* The mode that was chosen. */
const char *sandbox_mode(void);

struct sandbox_needs {
	bool cpu, cuda;               /* the back ends that may be loaded */
	const char *const *libraries; /* folders with libraries of ours, which may be missing; ends with NULL */
};

/* Stage 1, while there is one thread. NULL: the process opens no file. False, logged: the process must not go on. */
bool sandbox_enter(const struct sandbox_needs *needs);

enum sandbox_role {
	SANDBOX_CPU,  /* a worker whose back end is the software GPU */
	SANDBOX_CUDA, /* a worker whose back end is NVIDIA's driver */
	/* A process that the worker forks before its own stage 2, and that only starts processes that compile. */
	SANDBOX_SPAWNER,
	SANDBOX_KEEPER,
};

/* Stage 2, for all threads: the role's list. False, logged: the process must not go on. */
bool sandbox_close(enum sandbox_role role);

/* After the spawner's list, in a process that compiles. False, logged: the process must not go on. */
bool sandbox_forbid_processes(void);

#endif
