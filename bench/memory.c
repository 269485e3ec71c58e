/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations: of the device, of pinned memory, in the order of a stream. */
#include "driver-bench.h"

struct allocation {
	size_t bytes;
	CUdeviceptr device;
	void *host;
	CUstream stream;
};

static void allocate(void *argument)
{
	struct allocation *a = argument;

	check(cuMemAlloc_v2(&a->device, a->bytes), "cuMemAlloc");
}

static void release(void *argument)
{
	struct allocation *a = argument;

	check(cuMemFree_v2(a->device), "cuMemFree");
	a->device = 0;
}

static void release_held(void *argument)
{
	struct allocation *a = argument;

	if (a->device)
		release(a);
}

static void allocate_host(void *argument)
{
	struct allocation *a = argument;

	check(cuMemHostAlloc(&a->host, a->bytes, 0), "cuMemHostAlloc");
}

static void release_host(void *argument)
{
	struct allocation *a = argument;

	check(cuMemFreeHost(a->host), "cuMemFreeHost");
	a->host = NULL;
}

static void release_held_host(void *argument)
{
	struct allocation *a = argument;

	if (a->host)
		release_host(a);
}

/* One in a stream: the calls as they return; with the wait, what a program pays that uses memory at once. */
static void allocate_async(void *argument)
{
	struct allocation *a = argument;

	check(cuMemAllocAsync(&a->device, a->bytes, a->stream), "cuMemAllocAsync");
	check(cuMemFreeAsync(a->device, a->stream), "cuMemFreeAsync");
	a->device = 0;
}

static void allocate_async_and_wait(void *argument)
{
	struct allocation *a = argument;

	allocate_async(a);
	check(cuStreamSynchronize(a->stream), "cuStreamSynchronize");
}

static void wait_for_stream(void *argument)
{
	struct allocation *a = argument;

	check(cuStreamSynchronize(a->stream), "cuStreamSynchronize");
}

static void report_allocation(const char *what, const char *size, double us)
{
	char name[64];

	snprintf(name, sizeof(name), "%s_%s", what, size);
	report(name, us, "us");
}

void bench_memory(void)
{
	static const struct {
		size_t bytes;
		const char *name;
	} sizes[] = {{4 << 10, "4KiB"}, {1 << 20, "1MiB"}, {64 << 20, "64MiB"}};
	struct allocation a = {0};

	check(cuStreamCreate(&a.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes) && sizes[i].bytes <= settings.max_bytes; i++) {
		a.bytes = sizes[i].bytes;
		report_allocation("alloc", sizes[i].name, time_call(allocate, release_held, &a));
		release_held(&a);
		report_allocation("free", sizes[i].name, time_call(release, allocate, &a));
		report_allocation("host_alloc", sizes[i].name, time_call(allocate_host, release_held_host, &a));
		release_held_host(&a);
		report_allocation("host_free", sizes[i].name, time_call(release_host, allocate_host, &a));
		allocate_async_and_wait(&a);
		report_allocation("alloc_free_async", sizes[i].name, time_call(allocate_async, wait_for_stream, &a));
		wait_for_stream(&a);
		report_allocation("alloc_free_async_sync", sizes[i].name, time_call(allocate_async_and_wait, NULL, &a));
	}
}
