/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static __thread char *kept;
static __thread size_t kept_bytes, kept_size;

size_t cpu_log_keep(char *buffer, size_t size)
{
	size_t bytes = kept_bytes;

	kept = size ? buffer : NULL;
	kept_size = size;
	kept_bytes = 0;
	if (kept)
		*kept = 0;
	return bytes;
}

static void keep(const char *line, size_t length)
{
	if (length > kept_size - kept_bytes - 1)
		length = kept_size - kept_bytes - 1;
	memcpy(kept + kept_bytes, line, length);
	kept_bytes += length;
	kept[kept_bytes] = 0;
}

void cpu_log(const char *format, ...)
{
	char line[1024] = "vcuda-cpu: ";
	size_t length = sizeof("vcuda-cpu: ") - 1;
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsnprintf(line + length, sizeof(line) - length - 1, format, arguments);
	va_end(arguments);
	if (n < 0)
		return;
	length += (size_t)n;
	if (length > sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	if (kept)
		keep(line + sizeof("vcuda-cpu: ") - 1, length - (sizeof("vcuda-cpu: ") - 1));
	/* One write: lines of several workers that share a log do not mix. */
	if (write(STDERR_FILENO, line, length) < 0)
		return;
}
