/* SPDX-License-Identifier: Apache-2.0 */
/* `vcuda run --check`: what the worker of the software GPU logs about kernels is counted on its way to standard error.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Faults beyond this number are counted, and not printed. */
#define MOST_PRINTED 100
#define END_MS 5000

/* So the software GPU begins the line of each fault (softgpu/module/fault.c). */
static bool is_fault(const char *line)
{
	static const char begin[] = "vcuda-cpu: check: kernel ";

	return !strncmp(line, begin, sizeof(begin) - 1);
}

static void take_line(struct cli_check *c, const char *line)
{
	if (is_fault(line) && c->faults++ >= MOST_PRINTED)
		return;
	fputs(line, c->out);
}

static void *relay(void *data)
{
	struct cli_check *c = data;
	char *line = NULL;
	size_t size = 0;
	sigset_t pipe_signal;

	/* Faults are counted also when no reader is left, and the daemon must not wait for one. */
	sigemptyset(&pipe_signal);
	sigaddset(&pipe_signal, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_signal, NULL);
	while (getline(&line, &size, c->in) > 0)
		take_line(c, line);
	free(line);
	if (write(c->done[1], "", 1) < 0)
		return NULL;
	return NULL;
}

/* Replaces the standard error of this process, which a daemon that is started now gets. */
static bool redirect(struct cli_check *c, int to)
{
	c->terminal = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	return c->terminal >= 0 && dup2(to, STDERR_FILENO) >= 0;
}

bool cli_check_begin(struct cli_check *c)
{
	int pipe_ends[2];

	*c = (struct cli_check){.terminal = -1};
	if (pipe2(pipe_ends, O_CLOEXEC) || pipe2(c->done, O_CLOEXEC) || !redirect(c, pipe_ends[1])) {
		cli_message("--check: cannot make a pipe: %s", strerror(errno));
		return false;
	}
	close(pipe_ends[1]);
	c->in = fdopen(pipe_ends[0], "r");
	c->out = fdopen(c->terminal, "w");
	if (c->in && c->out && !setvbuf(c->out, NULL, _IOLBF, 0) && !pthread_create(&c->thread, NULL, relay, c))
		return true;
	cli_check_started(c);
	cli_message("--check: cannot start a thread");
	return false;
}

void cli_check_started(const struct cli_check *c)
{
	dup2(c->terminal, STDERR_FILENO);
}

/* The daemon and its workers have ended. Something else that has their standard error is not waited for longer. */
void cli_check_wait(struct cli_check *c)
{
	struct pollfd p = {.fd = c->done[0], .events = POLLIN};

	while (poll(&p, 1, END_MS) < 0 && errno == EINTR)
		continue;
	if (p.revents)
		pthread_join(c->thread, NULL);
}

int cli_check_end(struct cli_check *c, int status)
{
	cli_check_wait(c);
	if (c->faults > MOST_PRINTED)
		cli_message("check: %llu more faults are not printed", (unsigned long long)c->faults - MOST_PRINTED);
	cli_message("check: %llu fault%s", (unsigned long long)c->faults, c->faults == 1 ? "" : "s");
	return c->faults && !status ? CLI_CHECK_FAULTS : status;
}
