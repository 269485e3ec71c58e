/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of the workers' sandbox that this machine offers. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/sandbox-layers.h"
#include "doctor.h"

static void check_landlock(void)
{
	int abi = vcuda_landlock_abi();

	if (!abi)
		doctor_say(NOTED, "sandbox: Landlock",
			   "It comes with Linux 5.13; the kernel's command line may need lsm=landlock,...",
			   "none: a worker that a guest takes over can open the files of its user");
	else if (abi < VCUDA_LANDLOCK_ABI)
		doctor_say(FOUND, "sandbox: Landlock", NULL, "ABI %d; ABI %d (Linux 6.12) limits more", abi,
			   VCUDA_LANDLOCK_ABI);
	else
		doctor_say(FOUND, "sandbox: Landlock", NULL, "ABI %d", abi);
}

static void check_seccomp(void)
{
	if (vcuda_has_seccomp())
		doctor_say(FOUND, "sandbox: seccomp", NULL, "workers have a list of system calls");
	else
		doctor_say(NOTED, "sandbox: seccomp", "The kernel needs CONFIG_SECCOMP_FILTER.",
			   "none: a worker that a guest takes over can make any system call");
}

/* In a child, which alone gets them. */
static void check_namespaces(void)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0)
		_exit(unshare(CLONE_NEWNET | CLONE_NEWIPC) ? errno : 0);
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return;
	if (!WEXITSTATUS(status))
		doctor_say(FOUND, "sandbox: namespaces", NULL, "a VM's workers have a network and an IPC namespace");
	else
		doctor_say(FOUND, "sandbox: namespaces", NULL, "none for workers (%s): they need CAP_SYS_ADMIN",
			   strerror(WEXITSTATUS(status)));
}

void doctor_sandbox(void)
{
	check_landlock();
	check_seccomp();
	check_namespaces();
}
