/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/ipc/channel.h"
#include "launch.h"
#include "worker-table.h"
#include "protocol/ipc/layout.h"
#include "protocol/ipc/ledger.h"
#include "protocol/ipc/worker-table.h"

/* "X=" is that variable, "X_" all that begin so. */
static const char *const passed_on[] = {
	"HOME=", "PATH=",   "TMPDIR=",       "LD_LIBRARY_PATH=", "XDG_",          "VCUDA_",
	"CUDA_", "NVIDIA_", "ASAN_OPTIONS=", "UBSAN_OPTIONS=",   "LSAN_OPTIONS=", "TSAN_OPTIONS="};

static bool wanted(const char *variable)
{
	size_t i;

	for (i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
		if (!strncmp(variable, passed_on[i], strlen(passed_on[i])))
			return true;
	return false;
}

static char **worker_environment(void)
{
	size_t count = 0, kept = 0, i;
	char **result;

	while (environ[count])
		count++;
	result = calloc(count + 1, sizeof(*result));
	for (i = 0; result && i < count; i++)
		if (wanted(environ[i]))
			result[kept++] = environ[i];
	return result;
}

/* Without a worker table the worker has no descriptor of that number. */
static int give_table(posix_spawn_file_actions_t *actions)
{
	int fd = daemon_worker_table_fd();

	if (fd >= 0)
		return posix_spawn_file_actions_adddup2(actions, fd, VCUDA_WORKER_TABLE_FD);
	return posix_spawn_file_actions_addclose(actions, VCUDA_WORKER_TABLE_FD);
}

static int set_actions(posix_spawn_file_actions_t *actions, int channel, int log, int ledger)
{
	int error = posix_spawn_file_actions_adddup2(actions, log, STDERR_FILENO);

	if (!error)
		error = posix_spawn_file_actions_adddup2(actions, log, STDOUT_FILENO);
	if (!error)
		error = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	/* Equal numbers are fine: the close-on-exec flag is then cleared. */
	if (!error)
		error = posix_spawn_file_actions_adddup2(actions, channel, VCUDA_CHANNEL_FD);
	if (!error)
		error = give_table(actions);
	if (!error)
		error = posix_spawn_file_actions_adddup2(actions, ledger, VCUDA_LEDGER_FD);
	if (!error)
		error = posix_spawn_file_actions_addclosefrom_np(actions, VCUDA_LEDGER_FD + 1);
	return error;
}

static int set_attributes(posix_spawnattr_t *attributes)
{
	sigset_t set;
	int error;

	sigemptyset(&set);
	error = posix_spawnattr_setsigmask(attributes, &set);
	sigfillset(&set);
	if (!error)
		error = posix_spawnattr_setsigdefault(attributes, &set);
	if (!error)
		error = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	return error;
}

/*
 * The worker has our processors and address layout from its first instruction on: the latter it would else choose
 * itself, and start a second time for it.
 */
static int spawn(pid_t *pid, const struct daemon_options *options, const posix_spawn_file_actions_t *actions,
		 const posix_spawnattr_t *attributes, char **arguments, char **environment)
{
	int layout = personality(0xffffffff), error;
	cpu_set_t ours;
	bool moves = CPU_COUNT(&options->cpus) && !sched_getaffinity(0, sizeof(ours), &ours);

	if (moves && sched_setaffinity(0, sizeof(options->cpus), &options->cpus))
		return errno;
	if (layout >= 0)
		personality((unsigned long)layout | VCUDA_WORKER_LAYOUT);
	error = posix_spawn(pid, options->worker, actions, attributes, arguments, environment);
	if (layout >= 0)
		personality((unsigned long)layout);
	if (moves)
		sched_setaffinity(0, sizeof(ours), &ours);
	return error;
}

static int run(const struct daemon_options *options, enum daemon_launch_kind kind, int channel, int log, int ledger,
	       char **environment, pid_t *pid)
{
	static char *const transports[] = {"local", "virtio", "later", "later"};
	char *arguments[10] = {"vcuda-worker", "--transport", transports[kind], "--backend", (char *)options->backend};
	char device[16];
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	unsigned int count = 5;
	int error;

	/* A warm one may become a VM's. */
	if (options->register_ram && kind != DAEMON_LAUNCH_LOCAL)
		arguments[count++] = "--register-ram";
	if (kind == DAEMON_LAUNCH_WARM || kind == DAEMON_LAUNCH_WARM_QUIET) {
		snprintf(device, sizeof(device), "%d", options->warm_device);
		arguments[count++] = "--warm";
		arguments[count++] = device;
		arguments[count++] = kind == DAEMON_LAUNCH_WARM_QUIET ? "--quiet" : NULL;
	}
	error = posix_spawn_file_actions_init(&actions);
	if (error)
		return error;
	error = posix_spawnattr_init(&attributes);
	if (error)
		goto destroy_actions;
	error = set_actions(&actions, channel, log, ledger);
	if (!error)
		error = set_attributes(&attributes);
	if (!error)
		error = spawn(pid, options, &actions, &attributes, arguments, environment);
	posix_spawnattr_destroy(&attributes);
destroy_actions:
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

int daemon_launch(const struct daemon_options *options, enum daemon_launch_kind kind, int channel, int log, int ledger,
		  pid_t *pid, int *pidfd)
{
	char **environment = worker_environment();
	int error;

	if (!environment)
		return -ENOMEM;
	error = run(options, kind, channel, log, ledger, environment, pid);
	free(environment);
	if (error)
		return -error;
	/* Ours and not yet waited for: the number cannot have passed to another process. */
	*pidfd = (int)syscall(SYS_pidfd_open, *pid, 0);
	if (*pidfd >= 0)
		return 0;
	error = errno;
	kill(*pid, SIGKILL);
	waitpid(*pid, NULL, 0);
	return -error;
}
