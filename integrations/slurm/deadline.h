/* SPDX-License-Identifier: Apache-2.0 */
/* Ends of waits, in ms of CLOCK_MONOTONIC. */
#ifndef VCUDA_SLURM_DEADLINE_H
#define VCUDA_SLURM_DEADLINE_H

#include <stdint.h>
#include <time.h>

static inline int64_t deadline_after(int64_t milliseconds)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000 + milliseconds;
}

/* The ms that are left, 0 after the deadline. */
static inline int deadline_left(int64_t deadline)
{
	int64_t left = deadline - deadline_after(0);

	return left > 0 ? (int)left : 0;
}

#endif
