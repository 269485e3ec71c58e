/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/helper.h"

#include <errno.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct vcuda_list helpers = VCUDA_LIST_INIT(helpers);

static void forget(struct daemon_helper *helper)
{
	int pidfd = helper->source.fd;

	daemon_source_remove(helper->loop, &helper->source);
	if (pidfd >= 0)
		close(pidfd);
	vcuda_list_remove(&helper->entry);
	helper->process = 0;
}

static void exited(struct daemon_source *source, uint32_t events)
{
	struct daemon_helper *helper = container_of(source, struct daemon_helper, source);
	siginfo_t info = {0};

	if (waitid(P_PIDFD, (id_t)source->fd, &info, WEXITED | WNOHANG) || !info.si_pid)
		return;
	forget(helper);
	helper->ended(helper, &info);
}

void daemon_helper_init(struct daemon_helper *helper, struct daemon_loop *loop,
			void (*ended)(struct daemon_helper *helper, const siginfo_t *info))
{
	*helper = (struct daemon_helper){.loop = loop, .source = {.fd = -1, .ready = exited}, .ended = ended};
	vcuda_list_init(&helper->entry);
}

static int spawn(struct daemon_helper *helper, char *const arguments[], int fd, int number)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int err;

	sigemptyset(&none);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	posix_spawn_file_actions_init(&actions);
	err = posix_spawn_file_actions_adddup2(&actions, fd, number);
	if (!err)
		err = posix_spawn_file_actions_addclosefrom_np(&actions, number + 1);
	if (!err)
		err = posix_spawn(&helper->process, arguments[0], &actions, &attributes, arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	if (err)
		helper->process = 0;
	return -err;
}

static int watch(struct daemon_helper *helper)
{
	int pidfd = (int)syscall(SYS_pidfd_open, helper->process, 0);
	int status = pidfd < 0 ? -errno : daemon_source_add(helper->loop, &helper->source, pidfd, EPOLLIN);

	if (status && pidfd >= 0)
		close(pidfd);
	return status;
}

int daemon_helper_start(struct daemon_helper *helper, char *const arguments[], int fd, int number)
{
	int status = spawn(helper, arguments, fd, number);

	return status ? status : daemon_helper_adopt(helper, helper->process);
}

int daemon_helper_adopt(struct daemon_helper *helper, pid_t child)
{
	int status;

	helper->process = child;
	vcuda_list_add(&helper->entry, &helpers);
	status = watch(helper);
	if (!status)
		return 0;
	if (!kill(helper->process, SIGKILL))
		waitpid(helper->process, NULL, 0);
	forget(helper);
	return status;
}

void daemon_helper_kill(struct daemon_helper *helper)
{
	if (helper->process)
		kill(helper->process, SIGKILL);
}

void daemon_helper_leave(struct daemon_helper *helper)
{
	if (helper->process)
		forget(helper);
}

void daemon_helper_close(struct daemon_helper *helper)
{
	daemon_helper_kill(helper);
	daemon_helper_leave(helper);
}

bool daemon_helper_is(pid_t child)
{
	vcuda_list_for_each (entry, &helpers)
		if (container_of(entry, struct daemon_helper, entry)->process == child)
			return true;
	return false;
}
