/* SPDX-License-Identifier: Apache-2.0 */
/* Probes: forks, other programs, daemons, limits and threads. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"

extern char **environ;

#define THREADS 4
#define MANY 700

static void fork_before(unsigned int unused)
{
	pid_t child = fork();

	(void)unused;
	probe_start();
	if (!child)
		exit(0);
	probe_wait(child);
	OK(probe_use());
}

/* `how`: 0 _exit(), 1 exit(), 2 closes all before, 3 opens files, 4 closes 0 to 2 and asks CUDA */
static void in_child(unsigned int how)
{
	struct precious p[8];

	for (int i = 0; i < ours_count; i++)
		CHECK(!probe_is_open(ours[i]));
	if (how == 2)
		closefrom(3);
	if (how == 4)
		closefrom(0);
	for (int i = 0; i < 8 && how >= 3; i++)
		p[i] = precious_make((enum kind)(i % KINDS));
	CHECK(probe_use() != CUDA_SUCCESS);
	for (int i = 0; i < 8 && how >= 3; i++)
		precious_check(&p[i], p[i].fd);
	if (how == 0)
		_exit(0);
	exit(0);
}

static void fork_after(unsigned int how)
{
	pid_t child;

	probe_start();
	child = fork();
	if (!child)
		in_child(how);
	probe_wait(child);
	OK(probe_use());
}

/* The other program has no descriptor of ours, and a session of its own. */
static void execs(unsigned int how)
{
	char *arguments[] = {"descriptors", "--run", "child-of-another", NULL};
	pid_t child;

	probe_start();
	if (how == 0) {
		child = fork();
		if (!child) {
			execv("/proc/self/exe", arguments);
			_exit(126);
		}
	} else if (how == 1) {
		OK(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ));
	} else if (how == 3) {
		execv("/proc/self/exe", arguments);
		CHECK(false);
	} else {
		OK(system("exit 0"));
		child = vfork();
		if (!child)
			_exit(0);
	}
	probe_wait(child);
	OK(probe_use());
}

static void child_of_another(unsigned int unused)
{
	(void)unused;
	for (int fd = 3; fd < 4096; fd++)
		CHECK(!probe_is_open(fd));
	probe_start();
}

/* As daemon() does: `how` 1 keeps stdio, 2 closes all of it, 3 closes all descriptors. */
static void daemonises(unsigned int how)
{
	pid_t child = fork();

	if (child) {
		probe_wait(child);
		return;
	}
	CHECK(setsid() > 0);
	child = fork();
	if (child) {
		probe_wait(child);
		_exit(0);
	}
	CHECK(chdir("/") == 0);
	if (how == 3)
		closefrom(0);
	for (int fd = 0; fd < 3 && how == 2; fd++)
		close(fd);
	for (int fd = 0; fd < 3 && how == 0; fd++) {
		int null = open("/dev/null", O_RDWR);

		CHECK(dup2(null, fd) == fd);
		close(null);
	}
	probe_start();
	for (int fd = 0; fd < 3 && how >= 2; fd++)
		CHECK(!probe_is_open(fd));
	OK(probe_use());
	_exit(0);
}

/* After CUDA's begin the daemon has none, and says so by errors. */
static void daemon_after(unsigned int unused)
{
	pid_t child;

	(void)unused;
	probe_start();
	child = fork();
	if (!child) {
		closefrom(0);
		CHECK(cuInit(0) == CUDA_ERROR_NOT_INITIALIZED);
		_exit(0);
	}
	probe_wait(child);
	OK(probe_use());
}

static void limit_to(rlim_t most)
{
	struct rlimit limit;

	OK(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = most;
	OK(setrlimit(RLIMIT_NOFILE, &limit));
}

static void limited(unsigned int most)
{
	limit_to(most);
	probe_start();
	for (int i = 0; i < ours_count; i++)
		CHECK(ours[i] > 2 && ours[i] < (int)most);
	OK(probe_use());
}

static void limited_after(unsigned int most)
{
	probe_start();
	limit_to(most);
	OK(cuCtxSynchronize());
	limit_to(256);
	OK(probe_use());
}

/* All that the limit allows is open but for `left`; later all. */
static void full(unsigned int left)
{
	int last = -1, fd;

	limit_to(256);
	while ((fd = open("/dev/null", O_RDONLY)) >= 0)
		last = fd;
	CHECK(last > 0);
	for (unsigned int i = 0; i < left; i++)
		close(last - (int)i);
	probe_start();
	while (open("/dev/null", O_RDONLY) >= 0)
		;
	OK(probe_use());
}

static void many(unsigned int count)
{
	limit_to(4096);
	for (unsigned int i = 0; i < count; i++)
		CHECK(open("/dev/null", O_RDONLY) >= 0);
	probe_start();
	for (unsigned int i = 0; i < count; i++)
		CHECK(open("/dev/null", O_RDONLY) >= 0);
	OK(probe_use());
}

/* A program that counts on the lowest numbers finds them free. */
static void low_stay_free(unsigned int unused)
{
	int before = dup(0), after;

	(void)unused;
	close(before);
	probe_start();
	after = dup(0);
	CHECK(after == before);
	for (int i = 0; i < ours_count; i++)
		CHECK(ours[i] >= 64);
}

static _Atomic bool stop;

static void *opens_and_closes(void *unused)
{
	struct precious p;

	while (!stop) {
		p = precious_make(FILE_WITH_TEXT);
		precious_check(&p, p.fd);
		close(p.fd);
	}
	return unused;
}

static void *uses(void *unused)
{
	CUcontext context;

	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	for (int i = 0; i < 10; i++)
		OK(probe_use());
	return unused;
}

/* `how`: which numbers the threads meet closed. */
static void threads(unsigned int how)
{
	pthread_t users[THREADS], other;

	for (int fd = 0; fd < 2 && how; fd++)
		close(fd);
	OK(pthread_create(&other, NULL, opens_and_closes, NULL));
	OK(cuInit(0));
	for (int i = 0; i < THREADS; i++)
		OK(pthread_create(&users[i], NULL, uses, NULL));
	for (int i = 0; i < THREADS; i++)
		OK(pthread_join(users[i], NULL));
	stop = true;
	OK(pthread_join(other, NULL));
}

const struct probe probes_of_life[] = {
	{"fork-before", fork_before, 0, 0, 0},
	{"fork-before-closed", fork_before, 0, 7, 0},
	{"fork-after-_exit", fork_after, 0, 0, 0},
	{"fork-after-exit", fork_after, 1, 0, 0},
	{"fork-after-closefrom", fork_after, 2, 0, 0},
	{"fork-after-opens", fork_after, 3, 0, 0},
	{"fork-after-closes-all", fork_after, 4, 0, 0},
	{"fork-exec", execs, 0, 0, 0},
	{"fork-exec-closed", execs, 0, 7, 0},
	{"spawn", execs, 1, 0, 0},
	{"system-vfork", execs, 2, 0, 0},
	{"exec", execs, 3, 0, 0},
	{"child-of-another", child_of_another, 0, 0, 0},
	{"daemon", daemonises, 0, 0, 0},
	{"daemon-keeps", daemonises, 1, 0, 0},
	{"daemon-closed", daemonises, 2, 0, 0},
	{"daemon-closefrom", daemonises, 3, 0, 0},
	{"daemon-after", daemon_after, 0, 0, 0},
	{"limit-16", limited, 16, 0, 0},
	{"limit-8", limited, 8, 0, 0},
	{"limit-8-closed", limited, 8, 7, 0},
	{"limit-later", limited_after, 3, 0, 0},
	{"full-but-8", full, 8, 0, 0},
	{"full-but-4", full, 4, 0, 0},
	{"many-700", many, MANY, 0, 0},
	{"many-1500", many, 1500, 0, 0},
	{"low-stay-free", low_stay_free, 0, 0, 0},
	{"threads", threads, 0, 0, 0},
	{"threads-closed", threads, 1, 0, 0},
	{0},
};
