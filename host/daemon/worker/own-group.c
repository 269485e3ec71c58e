/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/own-group.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* In clock ticks since the start of the machine; 0: it cannot be read. */
static unsigned long long start_of(pid_t process)
{
	unsigned long long start = 0;
	char path[64], text[1024];
	const char *rest;
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", process);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	bytes = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
	if (fd >= 0)
		close(fd);
	text[bytes > 0 ? bytes : 0] = '\0';
	/* The process's name, in parentheses, may have blanks and parentheses of its own. */
	rest = strrchr(text, ')');
	if (!rest || sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
			    &start) != 1)
		return 0;
	return start;
}

/* Numbers of processes mean something in their namespace only. */
static unsigned long long own_namespace(void)
{
	struct stat own;

	return stat("/proc/self/ns/pid", &own) ? 0 : own.st_ino;
}

static bool is_gone(pid_t process, unsigned long long start)
{
	unsigned long long now = start_of(process);

	return now ? now != start : kill(process, 0) && errno == ESRCH;
}

int daemon_own_group_make(const char *folder, const char *ending, char path[PATH_MAX])
{
	int length = snprintf(path, PATH_MAX, "%s/vcudad-%llu-%d-%llu%s", folder, own_namespace(), getpid(),
			      start_of(getpid()), ending);

	if (length >= PATH_MAX)
		return -ENAMETOOLONG;
	return mkdir(path, 0755) ? -errno : 0;
}

bool daemon_own_group_is_stale(const char *name)
{
	unsigned long long namespace, start;
	int process, length = 0;

	return sscanf(name, "vcudad-%llu-%d-%llu%n", &namespace, &process, &start, &length) == 3 &&
	       (!name[length] || !strcmp(name + length, DAEMON_OWN_GROUP_ASIDE)) && namespace == own_namespace() &&
	       is_gone(process, start);
}
