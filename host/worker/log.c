/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static _Atomic bool quiet;

void vcuda_log_quiet(bool is_quiet)
{
	quiet = is_quiet;
}

void vcuda_log(const char *format, ...)
{
	char line[1024];
	va_list args;

	if (quiet)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "vcuda-worker[%d]: %s\n", (int)getpid(), line);
}
