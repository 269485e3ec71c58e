/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times what a program feels of the driver API. `vcuda bench` runs it natively and through virtio-cuda, in turns.
 *
 * usage: driver-bench [--quick] [--max-mib N] GROUP...
 *
 * Groups: launch, copy, memory, event, module, image, graph; start, a program that adds two vectors once; info, what there is.
 */
#include "driver-bench.h"

#include <string.h>

enum { LEAST = 5, MOST = 4096 };

struct settings settings = {.case_us = 40e3, .max_bytes = (size_t)1 << 30, .burst = 500, .large_kernels = 50};

double time_call(void (*call)(void *), void (*before)(void *), void *argument)
{
	static double times[MOST];
	double begin = now_us();
	int n = 0;

	while (n < MOST && (n < LEAST || now_us() - begin < settings.case_us)) {
		double start;

		if (before)
			before(argument);
		start = now_us();
		call(argument);
		times[n++] = now_us() - start;
	}
	return median(times, n);
}

static void print_info(void)
{
	char name[256];
	int version;

	check(cuInit(0), "cuInit");
	check(cuDeviceGet(&driver_device, 0), "cuDeviceGet");
	check(cuDeviceGetName(name, sizeof(name), driver_device), "cuDeviceGetName");
	check(cuDriverGetVersion(&version), "cuDriverGetVersion");
	printf("device %s\ncuda %d.%d\n", name, version / 1000, version % 1000 / 10);
}

static const struct group {
	const char *name;
	void (*run)(void);
} groups[] = {{"launch", bench_launches}, {"copy", bench_copies},    {"memory", bench_memory},
	      {"event", bench_events},    {"module", bench_modules}, {"image", bench_images},
	      {"graph", bench_graphs}};

static int run_group(const char *name)
{
	for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++) {
		if (strcmp(name, groups[i].name))
			continue;
		driver_start();
		groups[i].run();
		fflush(stdout);
		return 0;
	}
	if (!strcmp(name, "start"))
		bench_start();
	else if (!strcmp(name, "info"))
		print_info();
	else {
		fprintf(stderr, "driver-bench: there is no group '%s'\n", name);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	int i, failed = 0;

	for (i = 1; i < argc && !strncmp(argv[i], "--", 2); i++) {
		if (!strcmp(argv[i], "--quick")) {
			settings = (struct settings){
				.case_us = 1e3, .max_bytes = 4 << 20, .burst = 50, .large_kernels = 10};
		} else if (!strcmp(argv[i], "--max-mib") && i + 1 < argc && atoi(argv[i + 1]) > 0) {
			settings.max_bytes = strtoul(argv[++i], NULL, 10) << 20;
		} else {
			fprintf(stderr, "driver-bench: '%s' is no option, or lacks its number\n", argv[i]);
			return 1;
		}
	}
	if (i == argc) {
		fprintf(stderr, "usage: driver-bench [--quick] [--max-mib N] GROUP...\n");
		return 1;
	}
	driver_open();
	for (; i < argc && !failed; i++)
		failed = run_group(argv[i]);
	return failed;
}
