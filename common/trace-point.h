/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace points of the start-up. With VCUDA_TIMES=1 in the environment each part writes lines of
 * "vcuda-time SECONDS PROCESS WHAT" to standard error. The seconds are CLOCK_MONOTONIC's, the same for all processes of
 * a host.
 */
#ifndef VCUDA_TRACE_POINT_H
#define VCUDA_TRACE_POINT_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline bool vcuda_trace_points_wanted(void)
{
	const char *wanted = getenv("VCUDA_TIMES");

	return wanted && strcmp(wanted, "0");
}

/* Writes only with VCUDA_TIMES, since a line is a system call. */
static inline void vcuda_trace_point(const char *what)
{
	struct timespec now;

	if (!vcuda_trace_points_wanted())
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	dprintf(STDERR_FILENO, "vcuda-time %lld.%06ld %d %s\n", (long long)now.tv_sec, now.tv_nsec / 1000,
		(int)getpid(), what);
}

#endif
