/* SPDX-License-Identifier: Apache-2.0 */
/* Launches: until the call returns, until all of many have run, until one has. */
#include "driver-bench.h"

enum { ROUNDS = 64 };

static void launch_and_wait(void *unused)
{
	driver_launch(KERNEL_EMPTY, NULL);
	check(cuCtxSynchronize(), "cuCtxSynchronize");
}

void bench_launches(void)
{
	double issue[ROUNDS], sustained[ROUNDS], begin;
	int n = 0;

	launch_and_wait(NULL);
	begin = now_us();
	while (n < ROUNDS && (n < 3 || now_us() - begin < 2 * settings.case_us)) {
		double start = now_us();

		for (int k = 0; k < settings.burst; k++)
			driver_launch(KERNEL_EMPTY, NULL);
		issue[n] = (now_us() - start) / settings.burst;
		check(cuCtxSynchronize(), "cuCtxSynchronize");
		sustained[n++] = (now_us() - start) / settings.burst;
	}
	report("launch_issue", median(issue, n), "us");
	report("launch_sustained", median(sustained, n), "us");
	report("launch_sync", time_call(launch_and_wait, NULL, NULL), "us");
}
