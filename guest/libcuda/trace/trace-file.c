/* SPDX-License-Identifier: Apache-2.0 */
/* Where tracing writes to: standard error or a file, from a process whose descriptors are the application's. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "trace/trace.h"

/* The descriptor, if it still is the file: the application may close what it did not open, and open something else. */
static bool is_ours(const struct libcuda_trace_file *f)
{
	struct stat s;

	return f->fd >= 0 && !fstat(f->fd, &s) && s.st_dev == f->device && s.st_ino == f->inode;
}

static bool reopen(struct libcuda_trace_file *f)
{
	struct stat s;

	f->fd = open(f->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
	if (f->fd < 0 || fstat(f->fd, &s))
		return false;
	f->device = s.st_dev;
	f->inode = s.st_ino;
	return true;
}

/* The application may change its directory. */
static char *absolute(const char *path)
{
	char *directory = *path == '/' ? NULL : getcwd(NULL, 0), *whole;
	size_t room = strlen(path) + (directory ? strlen(directory) : 0) + 2;

	whole = malloc(room);
	if (whole) {
		*whole = 0;
		if (directory)
			strcat(strcpy(whole, directory), "/");
		strcat(whole, path);
	}
	free(directory);
	return whole;
}

bool libcuda_trace_file_open(struct libcuda_trace_file *f, const char *variable)
{
	/* Not in programs that run with more rights than their caller has. */
	const char *value = secure_getenv(variable);

	*f = (struct libcuda_trace_file){.fd = STDERR_FILENO};
	if (!value || !*value || !strcmp(value, "0"))
		return false;
	if (!strcmp(value, "1") || !strcmp(value, "-"))
		return true;
	f->path = absolute(value);
	if (f->path && reopen(f))
		return true;
	vcuda_log("%s: cannot write to %s: %s; it goes to standard error", variable, value, strerror(errno));
	free(f->path);
	*f = (struct libcuda_trace_file){.fd = STDERR_FILENO};
	return true;
}

void libcuda_trace_file_write(struct libcuda_trace_file *f, const char *text, size_t length)
{
	if (f->path && !is_ours(f) && !reopen(f))
		return;
	while (length) {
		ssize_t n = write(f->fd, text, length);

		if (n < 0 && errno != EINTR)
			return;
		if (n > 0) {
			text += n;
			length -= (size_t)n;
		}
	}
}
