/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For LD_PRELOAD: epoll_ctl() takes no process descriptor, as where the user has too many descriptors in epolls
 * (fs.epoll.max_user_watches). It fails once there is a file of the name that VCUDA_TEST_WAITS_FOR has.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static bool is_process(int fd)
{
	char path[32], name[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, name, sizeof(name) - 1) > 0 && (strstr(name, "pidfd") || strstr(name, "pidfs"));
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	int (*real)(int, int, int, struct epoll_event *);

	if (operation == EPOLL_CTL_ADD && is_process(fd)) {
		while (access(getenv("VCUDA_TEST_WAITS_FOR"), F_OK))
			usleep(1000);
		errno = ENOSPC;
		return -1;
	}
	*(void **)&real = dlsym(RTLD_NEXT, "epoll_ctl");
	return real(epoll, operation, fd, event);
}
