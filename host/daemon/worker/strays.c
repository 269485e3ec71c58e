/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/strays.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
	struct daemon_loop *loop;
	struct daemon_source signals;
	int children;   /* the kernel's list */
	pid_t *earlier; /* children of the program that became vcudad */
	size_t earlier_count;
	bool (*known)(pid_t child);
	void (*ended)(void);
	bool adopts;
} strays;

static bool is_earlier(pid_t child)
{
	for (size_t i = 0; i < strays.earlier_count; i++)
		if (strays.earlier[i] == child)
			return true;
	return false;
}

struct pass {
	char text[4096];
	size_t at, length;
	off_t offset;
};

/* -1 after the last character, or where the list cannot be read. */
static int next_character(struct pass *pass)
{
	ssize_t bytes;

	if (pass->at == pass->length) {
		bytes = pread(strays.children, pass->text, sizeof(pass->text), pass->offset);
		if (bytes <= 0)
			return -1;
		pass->offset += bytes;
		pass->length = (size_t)bytes;
		pass->at = 0;
	}
	return pass->text[pass->at++];
}

/* The list is of numbers with a blank after each. 0 after the last. */
static pid_t next_child(struct pass *pass)
{
	pid_t child = 0;
	int c;

	while ((c = next_character(pass)) >= '0')
		child = child * 10 + c - '0';
	return child;
}

/*
 * The list is read in parts, and changes in between: a number may be put together of two, and be that of a process that
 * is no child. A child's number stays the child's until vcudad waits for it.
 */
enum state { NO_CHILD, RUNS, HAS_ENDED };

static enum state look_at(pid_t child)
{
	siginfo_t info = {0};

	if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | __WALL))
		return NO_CHILD;
	return info.si_pid ? HAS_ENDED : RUNS;
}

/* One that is waited for leaves the list, and the pass may then miss its neighbour. */
static void make_pass(bool *seen, bool *again)
{
	struct pass pass = {.at = 0};
	enum state state;
	pid_t child;

	*seen = *again = false;
	while ((child = next_child(&pass))) {
		if (is_earlier(child) || strays.known(child))
			continue;
		*seen = strays.adopts;
		state = look_at(child);
		*again |= state == HAS_ENDED;
		if (state == RUNS && strays.adopts)
			kill(child, SIGKILL);
	}
}

bool daemon_strays_left(void)
{
	bool seen, again;

	do
		make_pass(&seen, &again);
	while (again);
	return seen;
}

static void signals_ready(struct daemon_source *source, uint32_t events)
{
	struct signalfd_siginfo info;

	while (read(source->fd, &info, sizeof(info)) == sizeof(info))
		continue;
	daemon_strays_left();
	strays.ended();
}

static bool keep_earlier(void)
{
	struct pass pass = {.at = 0};
	pid_t child, *more;

	while ((child = next_child(&pass))) {
		more = realloc(strays.earlier, (strays.earlier_count + 1) * sizeof(*more));
		if (!more)
			return false;
		strays.earlier = more;
		strays.earlier[strays.earlier_count++] = child;
	}
	return true;
}

static bool watch_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return false;
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	strays.signals = (struct daemon_source){.fd = -1, .ready = signals_ready};
	return fd >= 0 && !daemon_source_add(strays.loop, &strays.signals, fd, EPOLLIN);
}

void daemon_strays_open(struct daemon_loop *loop, bool (*known)(pid_t child), void (*ended)(void))
{
	char path[64];

	strays.loop = loop;
	strays.known = known;
	strays.ended = ended;
	/* vcudad has one thread, whose number is the process's. */
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	strays.children = open(path, O_RDONLY | O_CLOEXEC);
	if (strays.children >= 0 && (!keep_earlier() || !watch_signals())) {
		close(strays.children);
		strays.children = -1;
	}
}

bool daemon_strays_adopt(void)
{
	/* Process 1 of a container has the orphans of all programs there, which are not vcudad's to end. */
	strays.adopts = strays.children >= 0 && getpid() != 1 && !prctl(PR_SET_CHILD_SUBREAPER, 1);
	return strays.adopts;
}
