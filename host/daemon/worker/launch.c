/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/share-keeper.h"
#include "protocol/ipc/channel.h"
#include "worker/environment.h"
#include "worker/launch.h"
#include "worker/memory-group.h"
#include "worker/view.h"
#include "worker/worker-table.h"
#include "protocol/ipc/layout.h"
#include "protocol/ipc/ledger.h"
#include "protocol/ipc/worker-table.h"

struct launch {
	const struct daemon_options *options;
	struct daemon_worker_group *group;
	int channel, log, ledger, mapper, gate;
	char **arguments, **environment;
};

/* ---- in the child ---- */

/* -1: the worker has none of that number. */
static int give(int fd, int number)
{
	if (fd < 0) {
		close(number);
		return 0;
	}
	/* One that has its number already must lose the flag that closes it. */
	return (fd == number ? fcntl(fd, F_SETFD, 0) : dup2(fd, number)) < 0 ? -errno : 0;
}

/* stdin is /dev/null. */
static int set_streams(int log)
{
	int status = give(log, STDERR_FILENO);

	if (!status)
		status = give(log, STDOUT_FILENO);
	/* The lowest number that is free is the one that was closed. */
	close(STDIN_FILENO);
	if (!status && open("/dev/null", O_RDONLY))
		status = -errno;
	return status;
}

static int set_descriptors(const struct launch *launch)
{
	/*
	 * From VCUDA_CHANNEL_FD on, and set in this order. No descriptor but the channel has a lower number in vcudad
	 * than in the worker, so that none is overwritten before it is set.
	 */
	const int fds[] = {launch->channel, daemon_worker_table_fd(), launch->ledger, launch->mapper,
			   launch->gate};
	const int count = sizeof(fds) / sizeof(fds[0]);
	int status = set_streams(launch->log);

	for (int i = 0; !status && i < count; i++)
		status = give(fds[i], VCUDA_CHANNEL_FD + i);
	closefrom(VCUDA_CHANNEL_FD + count);
	return status;
}

static void set_signals(void)
{
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static int set_processors(const struct daemon_options *options)
{
	return CPU_COUNT(&options->cpus) && sched_setaffinity(0, sizeof(options->cpus), &options->cpus) ? -errno : 0;
}

/* The worker has its address layout from its first instruction on: it would else start a second time for it. */
static void set_layout(void)
{
	int layout = personality(0xffffffff);
	struct rlimit unused;

	if (layout >= 0)
		personality((unsigned long)layout | vcuda_worker_layout(&unused));
}

/*
 * Returns -errno where the worker does not start. Each worker is a session of its own: where Linux gives each session
 * its part of the processors (autogroup), a worker with many threads takes nothing from the others.
 */
static int become_worker(const struct launch *launch)
{
	int status = daemon_memory_group_enter();

	if (!status)
		status = daemon_worker_group_enter(launch->group);
	if (!status)
		status = daemon_view_enter();
	if (!status)
		status = set_descriptors(launch);
	if (!status)
		status = set_processors(launch->options);
	set_layout();
	if (!status)
		status = daemon_view_become_user(launch->options);
	if (status)
		return status;
	set_signals();
	setsid();
	execve(launch->options->worker, launch->arguments, launch->environment);
	return -errno;
}

/* The same for a keeper. No worker group ends it: it starts no process. */
static int become_keeper(const struct launch *launch)
{
	int status = daemon_view_enter();

	if (!status)
		status = set_streams(launch->log);
	if (!status)
		status = give(launch->channel, VCUDA_KEEPER_FD);
	closefrom(VCUDA_KEEPER_FD + 1);
	if (!status)
		status = set_processors(launch->options);
	if (!status)
		status = daemon_view_become_user(launch->options);
	if (status)
		return status;
	set_signals();
	setsid();
	execve(launch->options->keeper, launch->arguments, launch->environment);
	return -errno;
}

/* ---- in vcudad ---- */

/* The child has memory of its own but for `failure`. vcudad goes on after the child's exec or end. */
static int spawn(const struct launch *launch, int (*become)(const struct launch *launch), pid_t *pid)
{
	int *failure = mmap(NULL, sizeof(*failure), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;

	if (failure == MAP_FAILED)
		return -errno;
	*pid = daemon_worker_group_fork(launch->group);
	if (!*pid) {
		*failure = become(launch);
		_exit(127);
	}
	status = *pid < 0 ? *pid : *failure;
	if (*pid > 0 && status)
		waitpid(*pid, NULL, 0);
	munmap(failure, sizeof(*failure));
	return status;
}

static int run(struct launch *launch, enum daemon_launch_kind kind, pid_t *pid)
{
	static char *const transports[] = {"local", "virtio", "later", "later"};
	const struct daemon_options *options = launch->options;
	char *arguments[14] = {"vcuda-worker",           "--transport", transports[kind],        "--backend",
			       (char *)options->backend, "--sandbox",   (char *)options->sandbox};
	char device[16];
	unsigned int count = 7;

	/* A warm worker may become a VM's. */
	if (options->register_ram && kind != DAEMON_LAUNCH_LOCAL)
		arguments[count++] = "--register-ram";
	if (options->nvml_host_figures)
		arguments[count++] = "--nvml-host-figures";
	if (launch->mapper >= 0)
		arguments[count++] = "--mapper";
	if (kind == DAEMON_LAUNCH_WARM || kind == DAEMON_LAUNCH_WARM_QUIET) {
		snprintf(device, sizeof(device), "%d", options->warm_device);
		arguments[count++] = "--warm";
		arguments[count++] = device;
		arguments[count++] = kind == DAEMON_LAUNCH_WARM_QUIET ? "--quiet" : NULL;
	}
	launch->arguments = arguments;
	return spawn(launch, become_worker, pid);
}

int daemon_launch(const struct daemon_options *options, enum daemon_launch_kind kind, int channel, int log, int ledger,
		  int mapper, int gate, struct daemon_worker_group *group, pid_t *pid, int *pidfd)
{
	struct launch launch = {.options = options,
				.group = group,
				.channel = channel,
				.log = log,
				.ledger = ledger,
				.mapper = mapper,
				.gate = gate,
				.environment = daemon_worker_environment(options)};
	int status;

	if (!launch.environment)
		return -ENOMEM;
	daemon_view_refresh(options, launch.environment);
	status = run(&launch, kind, pid);
	free(launch.environment);
	if (status)
		return status;
	/* Ours and not yet waited for: the number cannot have passed to another process. */
	*pidfd = (int)syscall(SYS_pidfd_open, *pid, 0);
	if (*pidfd >= 0)
		return 0;
	status = -errno;
	kill(*pid, SIGKILL);
	waitpid(*pid, NULL, 0);
	return status;
}

int daemon_launch_keeper(const struct daemon_options *options, bool local, int socket, int log, pid_t *pid)
{
	char *arguments[] = {"vcuda-keeper", "--sandbox", (char *)options->sandbox, local ? "local" : "vm", NULL};
	struct daemon_worker_group none = {.way = VCUDA_GROUP_NONE};
	struct launch launch = {.options = options,
				.group = &none,
				.channel = socket,
				.log = log,
				.arguments = arguments,
				.environment = daemon_worker_environment(options)};
	int status;

	if (!launch.environment)
		return -ENOMEM;
	daemon_view_refresh(options, launch.environment);
	status = spawn(&launch, become_keeper, pid);
	free(launch.environment);
	return status;
}
