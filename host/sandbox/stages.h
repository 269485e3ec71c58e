/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the sandbox. Each function returns 0 or -errno. */
#ifndef VCUDA_SANDBOX_STAGES_H
#define VCUDA_SANDBOX_STAGES_H

#include <stdbool.h>

#include "host/sandbox/sandbox.h"

/* Takes all capabilities but the one to read files that Landlock lets the worker read. */
int sandbox_drop_privileges(bool keep_reading);

/* The kernel ends this process before others when memory runs out. */
int sandbox_be_first_victim(void);

/* -ENOSYS, -EOPNOTSUPP: the kernel has no Landlock. Otherwise only what files.c names can be opened from now on;
 * NULL: nothing. */
int sandbox_limit_files(const struct sandbox_needs *needs);

/* The reaction to a system call that is not on the list. */
enum sandbox_unknown {
	SANDBOX_LOG_AND_GO_ON,
	SANDBOX_LOG_AND_END,
	SANDBOX_KILL,
};

/* For all threads. */
int sandbox_limit_calls(enum sandbox_role role, enum sandbox_unknown unknown);

/* This thread and those that it starts get no new processes, and may signal this process only. */
int sandbox_limit_processes(void);

#endif
