/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 1024
#define BURST 10
#define PERIOD_S 10

static _Atomic bool is_quiet, is_verbose;
static bool has_no_stderr;
static __thread bool is_unobserved;
static __thread struct {
	char *buffer; /* NULL: none */
	size_t bytes, size;
} captured;

/* In a process that began without stderr, the number 2 may later belong to any file. */
__attribute__((constructor)) static void look_for_stderr(void)
{
	has_no_stderr = fcntl(STDERR_FILENO, F_GETFD) < 0;
}

void vcuda_log_unobserved(void)
{
	is_unobserved = true;
}

void vcuda_log_quiet(bool quiet)
{
	is_quiet = quiet;
}

void vcuda_log_verbose(bool verbose)
{
	is_verbose = verbose;
}

size_t vcuda_log_capture(char *buffer, size_t size)
{
	size_t bytes = captured.bytes;

	captured.buffer = size ? buffer : NULL;
	captured.size = size;
	captured.bytes = 0;
	if (captured.buffer)
		*captured.buffer = 0;
	return bytes;
}

static void capture(const char *line, size_t length)
{
	if (length > captured.size - captured.bytes - 1)
		length = captured.size - captured.bytes - 1;
	memcpy(captured.buffer + captured.bytes, line, length);
	captured.bytes += length;
	captured.buffer[captured.bytes] = 0;
}

/* Returns the length of the line's beginning. */
static size_t write_name(char *line, size_t size)
{
	int n = vcuda_log_program.with_pid ? snprintf(line, size, "%s[%d]: ", vcuda_log_program.name, (int)getpid())
					   : snprintf(line, size, "%s: ", vcuda_log_program.name);

	return (size_t)n;
}

static bool is_wanted(void)
{
	const char *value = vcuda_log_program.variable ? getenv(vcuda_log_program.variable) : NULL;

	return !is_quiet && !has_no_stderr && !(value && !strcmp(value, "0"));
}

/* A failure of stderr cannot be reported. */
static void write_line(const char *line, size_t length)
{
	ssize_t written = write(STDERR_FILENO, line, length);

	(void)written;
}

static void emit(const char *format, va_list arguments)
{
	char line[LINE_BYTES];
	int saved = errno;
	size_t start = write_name(line, sizeof(line)), length;

	/* The last byte is for the newline. */
	if (vsnprintf(line + start, sizeof(line) - start - 1, format, arguments) < 0)
		line[start] = 0;
	length = start + strlen(line + start);
	if (vcuda_log_program.observe && !is_unobserved)
		vcuda_log_program.observe(line + start, length - start);
	line[length++] = '\n';
	if (captured.buffer)
		capture(line + start, length - start);
	if (is_wanted())
		write_line(line, length);
	errno = saved;
}

void vcuda_log(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	emit(format, arguments);
	va_end(arguments);
}

void vcuda_log_debug(const char *format, ...)
{
	va_list arguments;

	if (!is_verbose)
		return;
	va_start(arguments, format);
	emit(format, arguments);
	va_end(arguments);
}

void vcuda_log_limited(struct vcuda_log_limit *limit, const char *format, ...)
{
	struct timespec now;
	va_list arguments;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec - limit->since >= PERIOD_S) {
		if (limit->count > BURST)
			vcuda_log("%u messages like the next one were left out", limit->count - BURST);
		limit->since = now.tv_sec;
		limit->count = 0;
	}
	if (++limit->count > BURST)
		return;
	va_start(arguments, format);
	emit(format, arguments);
	va_end(arguments);
}
