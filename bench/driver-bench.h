/* SPDX-License-Identifier: Apache-2.0 */
/* driver-bench: one file a group of cases. Each figure is a line: NAME VALUE UNIT, the median of its repetitions. */
#ifndef DRIVER_BENCH_H
#define DRIVER_BENCH_H

#include "driver.h"

struct settings {
	double case_us;    /* time for which a case is repeated */
	size_t max_bytes;  /* of a copy */
	int burst;         /* launches and other short calls at a time */
	int large_kernels; /* of the large module */
};

extern struct settings settings;

/*
 * Repeats `call` for settings.case_us, a few times at least, with `before`, unless it is NULL, in front of each and not
 * timed. Returns the median in microseconds.
 */
double time_call(void (*call)(void *), void (*before)(void *), void *argument);

void bench_launches(void);
void bench_copies(void);
void bench_memory(void);
void bench_events(void);
void bench_modules(void);
void bench_images(void);
void bench_graphs(void);
void bench_start(void);

#endif
