/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes: programs that close descriptors of their CUDA session, or put files of their own in their place. CUDA ends
 * with an error and a line that says why; the program's files stay as they are.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"

static int our(unsigned int index)
{
	if ((int)index >= ours_count)
		probe_skip();
	return ours[index];
}

static void closed(unsigned int index)
{
	probe_start();
	close(our(index));
	probe_use_until_error();
	CHECK(!probe_is_open(our(index)));
}

/* `how`: the kind, and for the second descriptor 16. */
static void replaced(unsigned int how)
{
	struct precious p = precious_make((enum kind)(how & 15));
	int fd;

	probe_start();
	fd = our(how >> 4);
	CHECK(dup2(p.fd, fd) == fd);
	if (p.kind == PIPE)
		close(p.fd);
	probe_use_until_error();
	precious_check(&p, fd);
	CHECK(fork() >= 0);
	precious_check(&p, fd);
	while (wait(NULL) > 0)
		;
}

/* closed, and later the number is given to a file by chance */
static void recycled(unsigned int index)
{
	struct precious p = precious_make(FILE_WITH_TEXT);
	int fd;

	probe_start();
	fd = our(index);
	close(fd);
	CHECK(fcntl(p.fd, F_DUPFD, fd) == fd);
	probe_use_until_error();
	precious_check(&p, fd);
}

static void close_from(unsigned int how)
{
	if (how == 0)
		closefrom(3);
	else if (how == 1)
		OK(syscall(SYS_close_range, 3u, ~0u, 0u));
	else
		for (int fd = 3; fd < 4096; fd++)
			close(fd);
}

static void closes_before(unsigned int how)
{
	close_from(how);
	probe_start();
	OK(probe_use());
}

static void closes_after(unsigned int how)
{
	struct precious p[8];

	probe_start();
	close_from(how);
	for (int i = 0; i < 8; i++)
		p[i] = precious_make((enum kind)(i % KINDS));
	probe_use_until_error();
	for (int i = 0; i < 8; i++)
		precious_check(&p[i], p[i].fd);
}

/* on exec only, which changes nothing */
static void marks_all(unsigned int unused)
{
	(void)unused;
	probe_start();
	OK(syscall(SYS_close_range, 3u, ~0u, 4u));
	OK(probe_use());
}

/* A program of a former library closes a number too often; it is a low one. */
static void closes_twice(unsigned int unused)
{
	int fd = open("/dev/null", O_RDONLY);

	(void)unused;
	close(fd);
	probe_start();
	close(fd);
	close(fd + 1);
	close(fd + 2);
	OK(probe_use());
}

/* A process that replaced a descriptor before it forked has it in the child as well. */
static void replaced_then_forks(unsigned int index)
{
	struct precious p = precious_make(FILE_WITH_TEXT);
	pid_t child;
	int fd;

	probe_start();
	fd = our(index);
	CHECK(dup2(p.fd, fd) == fd);
	child = fork();
	if (!child) {
		precious_check(&p, fd);
		_exit(0);
	}
	probe_wait(child);
}

static void exits(unsigned int how)
{
	probe_start();
	if (how == 0)
		close_from(0);
	else
		for (int i = 0; i < ours_count; i++)
			CHECK(dup2(STDERR_FILENO, ours[i]) == ours[i]);
	exit(0);
}

#define REPLACED(index, name)                                                                                          \
	{"replaced-" name "-file", replaced, FILE_WITH_TEXT + 16 * index, 0, 1},                                       \
		{"replaced-" name "-pipe", replaced, PIPE + 16 * index, 0, 1},                                         \
		{"replaced-" name "-event", replaced, EVENT + 16 * index, 0, 1},                                       \
		{"replaced-" name "-socket", replaced, SOCKET + 16 * index, 0, 1},                                     \
		{"replaced-" name "-sequenced", replaced, SEQUENCED + 16 * index, 0, 1},                               \
	{                                                                                                              \
		"replaced-" name "-null", replaced, NULL_DEVICE + 16 * index, 0, 1                                     \
	}

const struct probe probes_of_ours[] = {
	{"closed-first", closed, 0, 0, 1},
	{"closed-second", closed, 1, 0, 1},
	REPLACED(0, "first"),
	REPLACED(1, "second"),
	{"recycled-first", recycled, 0, 0, 1},
	{"recycled-second", recycled, 1, 0, 1},
	{"closefrom-before", closes_before, 0, 0, 0},
	{"close-range-before", closes_before, 1, 0, 0},
	{"close-each-before", closes_before, 2, 0, 0},
	{"closefrom-after", closes_after, 0, 0, 1},
	{"close-range-after", closes_after, 1, 0, 1},
	{"close-each-after", closes_after, 2, 0, 1},
	{"close-range-on-exec", marks_all, 0, 0, 0},
	{"closes-twice", closes_twice, 0, 0, 0},
	{"replaced-then-forks-first", replaced_then_forks, 0, 0, 0},
	{"replaced-then-forks-second", replaced_then_forks, 1, 0, 0},
	{"exits-after-closefrom", exits, 0, 0, 0},
	{"exits-after-replacing", exits, 1, 0, 0},
	{0},
};
