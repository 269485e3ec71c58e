/* SPDX-License-Identifier: Apache-2.0 */
/* The layers that the kernel offers for the sandbox of workers. */
#ifndef VCUDA_SANDBOX_LAYERS_H
#define VCUDA_SANDBOX_LAYERS_H

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The newest that workers make use of (Linux 6.12). */
#define VCUDA_LANDLOCK_ABI 6

/* Landlock's ABI, 1 or more; 0: the kernel has none, or it is switched off. */
static inline int vcuda_landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1u /* LANDLOCK_CREATE_RULESET_VERSION */);

	return abi < 0 ? 0 : (int)abi;
}

/* Whether a process can be limited to a list of system calls. */
static inline bool vcuda_has_seccomp(void)
{
	uint32_t action = SECCOMP_RET_KILL_PROCESS;

	return !syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action);
}

#endif
