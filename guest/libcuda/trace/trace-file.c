/* SPDX-License-Identifier: Apache-2.0 */
/* The output of tracing: standard error or a file, in a process whose descriptors are the application's. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "trace/trace.h"

static bool reopen(struct libcuda_trace_file *f)
{
	int fd, err, guarded = vcuda_own_descriptor_guard();

	fd = open(f->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
	err = fd < 0 ? -errno : vcuda_own_descriptor_take(&f->own, fd);
	vcuda_own_descriptor_unguard(guarded);
	if (err)
		errno = -err;
	return !err;
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

	*f = (struct libcuda_trace_file){.own.fd = STDERR_FILENO};
	if (!value || !*value || !strcmp(value, "0"))
		return false;
	if (!strcmp(value, "1") || !strcmp(value, "-"))
		return true;
	f->path = absolute(value);
	if (f->path && reopen(f))
		return true;
	vcuda_log("%s: cannot write to %s: %s; it goes to standard error", variable, value, strerror(errno));
	free(f->path);
	*f = (struct libcuda_trace_file){.own.fd = STDERR_FILENO};
	return true;
}

void libcuda_trace_file_write(struct libcuda_trace_file *f, const char *text, size_t length)
{
	if (f->path && !vcuda_own_descriptor_is_there(&f->own) && !reopen(f))
		return;
	while (length) {
		ssize_t n = write(f->own.fd, text, length);

		if (n < 0 && errno != EINTR)
			return;
		if (n > 0) {
			text += n;
			length -= (size_t)n;
		}
	}
}
