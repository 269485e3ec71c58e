/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes of one guest with a socket between them. */
#ifndef TEST_LOCAL_PAIR_H
#define TEST_LOCAL_PAIR_H

#include <sys/socket.h>
#include <unistd.h>

#include "api.h"

/* In each process by itself: what was begun before a fork is of no use to the child. */
static inline void start(void)
{
	CUcontext context;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
}

/*
 * Like fork(), with this process's end of the socket. A process that fails closes its end, so the other one does not
 * wait for it.
 */
static inline pid_t fork_pair(int *end)
{
	int ends[2];
	pid_t pid;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	pid = fork();
	CHECK(pid >= 0);
	close(ends[pid ? 1 : 0]);
	*end = ends[pid ? 0 : 1];
	return pid;
}

static inline void say(int to)
{
	CHECK(write(to, "x", 1) == 1);
}

static inline void hear(int from)
{
	char c;

	CHECK(read(from, &c, 1) == 1);
}

#endif
