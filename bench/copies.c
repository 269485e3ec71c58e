/* SPDX-License-Identifier: Apache-2.0 */
/* Copies from 4 B to 1 GiB: microseconds below 1 MiB, GB/s from there on. */
#include "driver-bench.h"

#include <string.h>

enum kind { PINNED, PAGEABLE, DEVICE };

struct copy {
	void *host;
	CUdeviceptr device, other;
	size_t bytes;
};

static void to_device(void *argument)
{
	struct copy *c = argument;

	check(cuMemcpyHtoD_v2(c->device, c->host, c->bytes), "copy to the device");
}

static void from_device(void *argument)
{
	struct copy *c = argument;

	check(cuMemcpyDtoH_v2(c->host, c->device, c->bytes), "copy from the device");
}

/* Within the device a copy may return early: the wait belongs to it. */
static void within_device(void *argument)
{
	struct copy *c = argument;

	check(cuMemcpyDtoD_v2(c->other, c->device, c->bytes), "copy within the device");
	check(cuCtxSynchronize(), "cuCtxSynchronize");
}

static void make_idle(void *unused)
{
	check(cuCtxSynchronize(), "cuCtxSynchronize");
}

/* The launch is part of it: who issues it sooner waits longer for the kernel. */
static void behind_kernel(void *copy)
{
	driver_launch(KERNEL_SHORT, NULL);
	to_device(copy);
}

/* As bandwidth tests do it: several copies in flight, one wait. */
enum { FLIGHT = 8 };

static void many_to_device(void *argument)
{
	struct copy *c = argument;

	for (int k = 0; k < FLIGHT; k++)
		check(cuMemcpyHtoDAsync_v2(c->device, c->host, c->bytes, NULL), "asynchronous copy");
	check(cuCtxSynchronize(), "cuCtxSynchronize");
}

static void many_from_device(void *argument)
{
	struct copy *c = argument;

	for (int k = 0; k < FLIGHT; k++)
		check(cuMemcpyDtoHAsync_v2(c->host, c->device, c->bytes, NULL), "asynchronous copy");
	check(cuCtxSynchronize(), "cuCtxSynchronize");
}

static void report_copy(const char *what, size_t bytes, int copies, double us)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
	char name[64];
	size_t number = bytes;
	int unit = 0;

	for (; number >= 1024; number /= 1024)
		unit++;
	snprintf(name, sizeof(name), "%s_%zu%s", what, number, units[unit]);
	if (bytes >= 1 << 20)
		report(name, (double)bytes * copies / us * 1e-3, "GB/s");
	else
		report(name, us / copies, "us");
}

static void bench_size(struct copy *pinned, struct copy *pageable, size_t bytes)
{
	pinned->bytes = pageable->bytes = bytes;
	report_copy("h2d_pinned", bytes, 1, time_call(to_device, NULL, pinned));
	report_copy("h2d_pageable", bytes, 1, time_call(to_device, NULL, pageable));
	report_copy("d2h_pinned", bytes, 1, time_call(from_device, NULL, pinned));
	report_copy("d2h_pageable", bytes, 1, time_call(from_device, NULL, pageable));
	report_copy("d2d", bytes, 1, time_call(within_device, NULL, pinned));
	if (bytes > 64 << 10)
		return;
	report_copy("h2d_pinned_idle", bytes, 1, time_call(to_device, make_idle, pinned));
	report_copy("h2d_pageable_idle", bytes, 1, time_call(to_device, make_idle, pageable));
	report_copy("h2d_pinned_queued", bytes, 1, time_call(behind_kernel, NULL, pinned));
	report_copy("h2d_pageable_queued", bytes, 1, time_call(behind_kernel, NULL, pageable));
}

void bench_copies(void)
{
	static const size_t sizes[] = {4,        16,       64,        256,       1 << 10, 4 << 10,
				       16 << 10, 64 << 10, 256 << 10, 1 << 20,   4 << 20, 16 << 20,
				       32 << 20, 64 << 20, 256 << 20, 512 << 20, 1 << 30};
	struct copy pinned, pageable;
	size_t most = settings.max_bytes;

	check(cuMemHostAlloc(&pinned.host, most, 0), "cuMemHostAlloc");
	check(cuMemAlloc_v2(&pinned.device, most), "cuMemAlloc");
	check(cuMemAlloc_v2(&pinned.other, most), "cuMemAlloc");
	pageable = pinned;
	pageable.host = malloc(most);
	if (!pageable.host) {
		fprintf(stderr, "driver-bench: no memory for copies of %zu MiB; see --max-mib\n", most >> 20);
		exit(1);
	}
	memset(pinned.host, 1, most);
	memset(pageable.host, 2, most);
	driver_kernel(KERNEL_SHORT);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes) && sizes[i] <= most; i++) {
		bench_size(&pinned, &pageable, sizes[i]);
		if (sizes[i] == 1 << 20 || sizes[i] == 32 << 20 || sizes[i] == 512 << 20) {
			report_copy("h2d_async", sizes[i], FLIGHT, time_call(many_to_device, NULL, &pinned));
			report_copy("d2h_async", sizes[i], FLIGHT, time_call(many_from_device, NULL, &pinned));
		}
	}
	check(cuMemFree_v2(pinned.device), "cuMemFree");
	check(cuMemFree_v2(pinned.other), "cuMemFree");
	check(cuMemFreeHost(pinned.host), "cuMemFreeHost");
	free(pageable.host);
}
