/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

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
	/* One write: lines of several workers that share a log do not mix. */
	if (write(STDERR_FILENO, line, length) < 0)
		return;
}
