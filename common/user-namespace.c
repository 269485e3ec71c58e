/* SPDX-License-Identifier: Apache-2.0 */
#include "user-namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	int error = errno;

	if (fd >= 0)
		close(fd);
	errno = error;
	return done;
}

enum vcuda_user_namespace vcuda_user_namespace_enter(int others, uid_t uid, gid_t gid)
{
	char users[64], groups[64];

	snprintf(users, sizeof(users), "%u %u 1", uid, geteuid());
	snprintf(groups, sizeof(groups), "%u %u 1", gid, getegid());
	if (unshare(CLONE_NEWUSER | others))
		return VCUDA_USER_NAMESPACE_REFUSED;
	return write_file("/proc/self/uid_map", users) && write_file("/proc/self/setgroups", "deny") &&
			       write_file("/proc/self/gid_map", groups)
		       ? VCUDA_USER_NAMESPACE_ENTERED
		       : VCUDA_USER_NAMESPACE_NO_MAP;
}
