/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "log.h"

#define VCUDA_LOG_BURST 10
#define VCUDA_LOG_PERIOD 10 /* seconds */

static bool log_verbose;

void vcuda_log_verbose(bool verbose)
{
	log_verbose = verbose;
}

/* One write a line: workers share this stderr. */
static void emit(const char *format, va_list arguments)
{
	char line[512];
	int used = snprintf(line, sizeof(line), "vcudad: ");

	vsnprintf(line + used, sizeof(line) - (size_t)used, format, arguments);
	fprintf(stderr, "%s\n", line);
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

	if (!log_verbose)
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
	if (now.tv_sec - limit->since >= VCUDA_LOG_PERIOD) {
		if (limit->count > VCUDA_LOG_BURST)
			vcuda_log("%u messages like the next one were left out", limit->count - VCUDA_LOG_BURST);
		limit->since = now.tv_sec;
		limit->count = 0;
	}
	if (++limit->count > VCUDA_LOG_BURST)
		return;
	va_start(arguments, format);
	emit(format, arguments);
	va_end(arguments);
}
