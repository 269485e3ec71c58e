/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest/libcuda/core/logs.h"

void vcuda_log(const char *format, ...)
{
	const char *wanted = getenv("VCUDA_LOG");
	int saved = errno;
	char line[1024] = "vcuda: ";
	size_t length = strlen(line);
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsnprintf(line + length, sizeof(line) - length - 1, format, arguments);
	va_end(arguments);
	if (n > 0)
		length = strlen(line);
	if (vcuda_logs_keep)
		vcuda_logs_keep(line + strlen("vcuda: "), length - strlen("vcuda: "));
	errno = saved;
	if (wanted && !strcmp(wanted, "0"))
		return;
	line[length++] = '\n';
	/* One write a line, past stdio: the application may be in the middle of its own output. */
	if (write(STDERR_FILENO, line, length) < 0)
		errno = saved;
	errno = saved;
}
