/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/group-file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int daemon_group_open(const char *folder, const char *name, int flags)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return open(path, flags | O_CLOEXEC);
}

int daemon_group_write(const char *folder, const char *name, const char *text)
{
	int fd = daemon_group_open(folder, name, O_WRONLY), status;

	if (fd < 0)
		return -errno;
	status = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return status;
}

/* The text behind "KEY " at the beginning of a line; NULL: there is no such line. */
static const char *behind(const char *text, const char *key)
{
	size_t length = strlen(key);

	while (text && (strncmp(text, key, length) || text[length] != ' ')) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	return text ? text + length + 1 : NULL;
}

uint64_t daemon_group_number(const char *folder, const char *name, const char *key)
{
	int fd = daemon_group_open(folder, name, O_RDONLY);
	const char *digits;
	char text[1024], *end;
	ssize_t bytes;
	uint64_t number;

	if (fd < 0)
		return UINT64_MAX;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[bytes > 0 ? bytes : 0] = '\0';
	digits = key ? behind(text, key) : text;
	if (!digits)
		return UINT64_MAX;
	number = strtoull(digits, &end, 10);
	return end == digits ? UINT64_MAX : number;
}
