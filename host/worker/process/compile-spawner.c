/* SPDX-License-Identifier: Apache-2.0 */
#include "process/compile-spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fds.h"
#include "process/compile-process.h"
#include "host/sandbox/sandbox.h"

/* More than a worker has at once, with those that have nothing to do. */
#define MOST_PROCESSES 16
#define BACKGROUND_NICE 10

/* A process's only descriptor, beside the standard ones. */
#define ORDERS 3

static struct {
	pid_t pid; /* 0: none */
	int end;
} processes[MOST_PROCESSES];

/* The worker's two descriptors of a process, and what the process is made with. */
struct spawned {
	bool there;
	int orders, end;
};

static struct {
	int socket;
	uint64_t own_bytes;
	vcuda_compile compile;
	struct spawned ready; /* started early, and not asked for yet */
} spawner;

/* ---- the end of processes ---- */

static void has_ended(pid_t pid, int status)
{
	for (unsigned int i = 0; i < MOST_PROCESSES; i++) {
		ssize_t written;

		if (processes[i].pid != pid)
			continue;
		/* The pipe has room, and perhaps no reader. */
		written = write(processes[i].end, &status, sizeof(status));
		(void)written;
		close(processes[i].end);
		processes[i].pid = 0;
	}
}

static void reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		has_ended(pid, status);
}

static void kill_process(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) == pid)
		has_ended(pid, status);
}

/* ---- their beginning ---- */

_Noreturn static void be_process(int orders, bool background, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || dup2(orders, ORDERS) < 0)
		_exit(WORKER_COMPILE_BAD);
	closefrom(ORDERS + 1);
	/* Named only now: who stops a process of that name stops none that has a copy of its pipe's reading end. */
	prctl(PR_SET_NAME, "vcuda-compile");
	if (!sandbox_forbid_processes())
		_exit(WORKER_COMPILE_BAD);
	if (background)
		setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + BACKGROUND_NICE);
	worker_compile_process_run(ORDERS, spawner.compile, spawner.own_bytes);
}

/* False: there is no room for another process. */
static bool start(int orders, int end, bool background)
{
	pid_t own = getpid(), pid;
	unsigned int i = 0;

	while (i < MOST_PROCESSES && processes[i].pid)
		i++;
	pid = i < MOST_PROCESSES ? fork() : -1;
	if (!pid)
		be_process(orders, background, own);
	if (pid < 0)
		return false;
	processes[i].pid = pid;
	processes[i].end = end;
	return true;
}

static struct spawned spawn(bool background)
{
	struct spawned s = {.there = false};
	int orders[2], end[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, orders))
		return s;
	if (!pipe2(end, O_CLOEXEC)) {
		s = (struct spawned){start(orders[1], end[1], background), orders[0], end[0]};
		if (!s.there) {
			close(end[0]);
			close(end[1]);
		}
	}
	if (!s.there)
		close(orders[0]);
	close(orders[1]);
	return s;
}

/* ---- messages ---- */

/* The list of calls takes a while to make, and a worker whose code is in the cache needs none. */
static void limit_calls(void)
{
	static bool limited;

	if (!limited && !sandbox_close(SANDBOX_SPAWNER))
		_exit(1);
	limited = true;
}

static void answer(const struct spawned *s)
{
	const int fds[2] = {s->orders, s->end};
	const struct iovec part = {"", 1};

	if (vcuda_fds_send(spawner.socket, &part, 1, fds, s->there ? 2 : 0, 0) < 0)
		_exit(1);
	if (!s->there)
		return;
	close(s->orders);
	close(s->end);
}

static void serve(enum worker_spawn_what what)
{
	struct spawned s;

	limit_calls();
	if (what == WORKER_SPAWN_SOON) {
		if (!spawner.ready.there)
			spawner.ready = spawn(false);
		return;
	}
	if (what == WORKER_SPAWN_PROCESS && spawner.ready.there) {
		s = spawner.ready;
		spawner.ready.there = false;
	} else {
		s = spawn(what == WORKER_SPAWN_BACKGROUND);
	}
	answer(&s);
}

/* ---- */

static void wakes_up(int signal)
{
	(void)signal;
}

/* Only while the spawner waits a signal tells it of a process's end. */
static void choose_signals(sigset_t *waiting)
{
	sigset_t child;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, wakes_up);
	sigemptyset(waiting);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_SETMASK, &child, NULL);
}

/* Until a message comes, a process has ended, or its pipe has no reader. */
static void wait_for_events(struct pollfd events[1 + MOST_PROCESSES], const sigset_t *waiting)
{
	events[0] = (struct pollfd){.fd = spawner.socket, .events = POLLIN};
	for (unsigned int i = 0; i < MOST_PROCESSES; i++)
		events[1 + i] = (struct pollfd){.fd = processes[i].pid ? processes[i].end : -1};
	if (ppoll(events, 1 + MOST_PROCESSES, NULL, waiting) >= 0)
		return;
	if (errno != EINTR)
		_exit(1);
	for (unsigned int i = 0; i < 1 + MOST_PROCESSES; i++)
		events[i].revents = 0;
}

void worker_spawner_run(int socket, vcuda_compile compile, uint64_t own_bytes)
{
	struct pollfd events[1 + MOST_PROCESSES];
	struct worker_spawn message;
	sigset_t waiting;

	spawner.socket = socket;
	spawner.compile = compile;
	spawner.own_bytes = own_bytes;
	choose_signals(&waiting);
	for (;;) {
		wait_for_events(events, &waiting);
		for (unsigned int i = 0; i < MOST_PROCESSES; i++)
			if (processes[i].pid && events[1 + i].revents & POLLERR)
				kill_process(processes[i].pid);
		reap();
		if (!events[0].revents)
			continue;
		/* Nothing comes from a worker that has ended. */
		if (recv(socket, &message, sizeof(message), 0) != sizeof(message))
			_exit(0);
		serve((enum worker_spawn_what)message.what);
	}
}
