/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors of a program: the limit, the numbers 0 to 2, and pairs of sockets. */
#ifndef VCUDA_DESCRIPTORS_H
#define VCUDA_DESCRIPTORS_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Raises the soft limit of descriptors to the hard one. The usual soft limit is for users of select(). Returns 0 or
 * -errno.
 */
static inline int vcuda_descriptors_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return 0;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &limit) ? -errno : 0;
}

/*
 * Puts /dev/null in place of the descriptors 0, 1 and 2 that the process has begun without, so that none of its files
 * gets such a number. `inherited`: programs that it starts have them too; else they begin without, as it has itself.
 * Called first in main().
 */
static inline void vcuda_descriptors_standard(bool inherited)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR | (inherited ? 0 : O_CLOEXEC));
	} while (fd >= 0 && fd <= 2);
	if (fd > 2)
		close(fd);
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
