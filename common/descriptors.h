/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_DESCRIPTORS_H
#define VCUDA_DESCRIPTORS_H

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* As many as this process may have. The usual soft limit is for users of select(). 0 or -errno. */
static inline int vcuda_descriptors_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return 0;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &limit) ? -errno : 0;
}

/* A pair of SOCK_SEQPACKET sockets that close on exec. The second one's number is at least `lowest`. 0 or -errno. */
static inline int vcuda_descriptors_pair(int lowest, int pair[2])
{
	int second, error;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	second = fcntl(pair[1], F_DUPFD_CLOEXEC, lowest);
	error = -errno;
	close(pair[1]);
	pair[1] = second;
	if (second >= 0)
		return 0;
	close(pair[0]);
	return error;
}

#endif
