/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time and deadlines by CLOCK_MONOTONIC, which is never set: a step of the real-time clock would lengthen a wait. For
 * pthread_cond_clockwait(). Thread-safe.
 */
#ifndef VCUDA_DEADLINE_H
#define VCUDA_DEADLINE_H

#include <stdint.h>
#include <time.h>

static inline uint64_t vcuda_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* The moment so many nanoseconds from now. */
static inline struct timespec vcuda_deadline(uint64_t nanoseconds)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	nanoseconds += (uint64_t)t.tv_nsec;
	t.tv_sec += (time_t)(nanoseconds / 1000000000);
	t.tv_nsec = (long)(nanoseconds % 1000000000);
	return t;
}

#endif
