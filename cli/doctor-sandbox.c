/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of the workers' sandbox that this machine offers. */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mount.h>
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

#define ALL (CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC)

/* In a child, which alone gets them. 0 or errno: a kernel may give a user namespace that may not mount anything. */
static int try_namespaces(int which)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0)
		_exit(unshare(which) || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) ? errno : 0);
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return EAGAIN;
	return WEXITSTATUS(status);
}

static void say_no_namespaces(int error)
{
	doctor_say(NOTED, "sandbox: namespaces",
		   geteuid() ? "The kernel must allow user namespaces (sysctl kernel.unprivileged_userns_clone, "
			       "kernel.apparmor_restrict_unprivileged_userns, user.max_user_namespaces)."
			     : "vcudad needs CAP_SYS_ADMIN.",
		   "none for workers (%s): a worker that a guest takes over can connect to sockets in the file system",
		   strerror(error));
}

/* vcudad tries the same (host/daemon/worker/view-make.c). */
static void check_namespaces(void)
{
	bool own = !try_namespaces(ALL);
	int error = own ? 0 : try_namespaces(ALL | CLONE_NEWUSER);

	if (error)
		say_no_namespaces(error);
	else
		doctor_say(FOUND, "sandbox: namespaces", NULL,
			   "a VM's workers have a file system, a network and an IPC namespace of their own%s",
			   own ? "" : ", in a user namespace");
	if (own && !geteuid())
		doctor_say(FOUND, "sandbox: user", NULL, "a VM's workers have a user of their own");
	else
		doctor_say(FOUND, "sandbox: user", NULL,
			   "workers have vcudad's user: only root with CAP_SYS_ADMIN gives them another");
}

void doctor_sandbox(void)
{
	check_landlock();
	check_seccomp();
	check_namespaces();
}
