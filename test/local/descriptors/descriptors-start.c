/* SPDX-License-Identifier: Apache-2.0 */
/* Probes: programs that have descriptors 0, 1 or 2 closed, from the start, before or after CUDA's begin. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "descriptors.h"

static void check_closed(unsigned int mask)
{
	for (int fd = 0; fd < 3; fd++)
		if (mask & 1u << fd) {
			CHECK(!probe_is_open(fd));
			CHECK(write(fd, "text", 4) < 0 && errno == EBADF);
		}
}

static void close_all(unsigned int mask)
{
	for (int fd = 0; fd < 3; fd++)
		if (mask & 1u << fd)
			close(fd);
}

static void none_is_low(void)
{
	CHECK(ours_count > 0);
	for (int i = 0; i < ours_count; i++)
		CHECK(ours[i] > 2);
}

static void started_closed(unsigned int mask)
{
	check_closed(mask);
	probe_start();
	none_is_low();
	check_closed(mask);
	OK(probe_use());
	check_closed(mask);
}

static void closed_before(unsigned int mask)
{
	close_all(mask);
	started_closed(mask);
}

static void closed_after(unsigned int mask)
{
	probe_start();
	close_all(mask);
	for (int i = 0; i < 5; i++) {
		OK(probe_use());
		check_closed(mask);
	}
}

/* The number is free, CUDA begins, and then the program opens something, which gets the number. */
static void reused(unsigned int fd)
{
	struct precious p;

	close((int)fd);
	probe_start();
	p = precious_make(FILE_WITH_TEXT);
	CHECK(p.fd == (int)fd);
	OK(probe_use());
	precious_check(&p, p.fd);
}

/* A data file that has the number of stderr gets no line of the log, here about a kind of handle. */
static void log_is_no_data(unsigned int unused)
{
	struct precious p = precious_make(FILE_WITH_TEXT);
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC,
				    .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
	size_t granularity;

	(void)unused;
	CHECK(p.fd == 2);
	probe_start();
	cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	close(ours[0]);
	probe_use_until_error();
	precious_check(&p, 2);
}

static _Atomic bool stop;

static void *writes(void *unused)
{
	while (!stop) {
		ssize_t n = write(0, "wrong", 5);

		CHECK(n < 0);
		n = write(1, "wrong", 5);
		CHECK(n < 0);
	}
	return unused;
}

/* A thread writes to numbers that are closed, and never meets a descriptor of the session there. */
static void written_meanwhile(unsigned int unused)
{
	pthread_t thread;

	(void)unused;
	OK(pthread_create(&thread, NULL, writes, NULL));
	probe_start();
	for (int i = 0; i < 10; i++)
		OK(probe_use());
	stop = true;
	OK(pthread_join(thread, NULL));
}

/* The trace's file. */
static void traced(unsigned int mask)
{
	probe_start();
	check_closed(mask);
}

static void traces(unsigned int mask)
{
	if (getenv("VCUDA_TRACE")) {
		traced(mask);
		return;
	}
	setenv("VCUDA_TRACE", "/dev/null", 1);
	execl("/proc/self/exe", "descriptors", "--run", "traces-closed-012", NULL);
	CHECK(false);
}

#define EACH(name, run)                                                                                                \
	{name "-0", run, 1, 0, 0}, {name "-1", run, 2, 0, 0}, {name "-01", run, 3, 0, 0}, {name "-2", run, 4, 0, 0},   \
		{name "-02", run, 5, 0, 0}, {name "-12", run, 6, 0, 0},                                                \
	{                                                                                                              \
		name "-012", run, 7, 0, 0                                                                              \
	}

const struct probe probes_of_start[] = {
	{"started-closed-0", started_closed, 1, 1, 0},
	{"started-closed-1", started_closed, 2, 2, 0},
	{"started-closed-01", started_closed, 3, 3, 0},
	{"started-closed-2", started_closed, 4, 4, 0},
	{"started-closed-02", started_closed, 5, 5, 0},
	{"started-closed-12", started_closed, 6, 6, 0},
	{"started-closed-012", started_closed, 7, 7, 0},
	EACH("closed-before", closed_before),
	EACH("closed-after", closed_after),
	{"reused-0", reused, 0, 0, 0},
	{"reused-1", reused, 1, 0, 0},
	{"reused-2", reused, 2, 0, 0},
	{"log-is-no-data", log_is_no_data, 0, 4, 0},
	{"written-meanwhile", written_meanwhile, 0, 7, 0},
	{"traces-closed-012", traces, 7, 7, 0},
	{0},
};
