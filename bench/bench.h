/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the timed programs: clock, error check, output and median. */
#ifndef BENCH_H
#define BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* 0 is success in every library. */
static inline void check(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s failed with error %d\n", what, result);
	exit(1);
}

static inline void report(const char *name, double value, const char *unit)
{
	printf("%s %.6g %s\n", name, value, unit);
}

static inline int bench_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), bench_compare);
	return v[n / 2];
}

#endif
