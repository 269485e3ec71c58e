/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's management library, whose processes are in the file that VCUDA_TEST_GPU_MEMORY names: lines with the GPU's
 * bus, "c" or "g" for a process that computes or draws, its number and its bytes. Each reading adds a byte to the file
 * that VCUDA_TEST_GPU_READINGS names. With "s" the process's kernels run all the time, and bytes mean nothing: each
 * fifth of a second the driver finds the next of those. VCUDA_TEST_DRIVER_VERSION is the driver's version.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NOT_FOUND 6
#define LOOK_US 200000

struct process {
	uint32_t pid;
	uint64_t bytes;
	uint32_t instances[2];
};

struct sample {
	uint32_t pid;
	uint64_t time_us;
	uint32_t sm, memory, encoder, decoder;
};

int nvmlInit_v2(void)
{
	return 0;
}

int nvmlSystemGetDriverVersion(char *text, unsigned int size)
{
	const char *version = getenv("VCUDA_TEST_DRIVER_VERSION");

	if (!version || !*version)
		return 999;
	snprintf(text, size, "%s", version);
	return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device)
{
	int bus;

	if (sscanf(id, "0000:%d:00.0", &bus) != 1)
		return 2;
	*device = (void *)(uintptr_t)bus;
	return 0;
}

static int list(const void *device, char wanted, unsigned int *count, struct process *to)
{
	FILE *file = fopen(getenv("VCUDA_TEST_GPU_MEMORY"), "r"), *readings;
	unsigned int room = *count;
	unsigned long long bytes;
	unsigned int pid;
	int bus;
	char kind;

	if (!file)
		return 999;
	*count = 0;
	while (*count < room && fscanf(file, "%d %c %u %llu", &bus, &kind, &pid, &bytes) == 4)
		if (bus == (int)(uintptr_t)device && kind == wanted)
			to[(*count)++] = (struct process){.pid = pid, .bytes = bytes};
	fclose(file);
	readings = fopen(getenv("VCUDA_TEST_GPU_READINGS"), "a");
	if (readings) {
		fputc('r', readings);
		fclose(readings);
	}
	return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, struct process *to)
{
	return list(device, 'c', count, to);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned int *count, struct process *to)
{
	return list(device, 'g', count, to);
}

int nvmlDeviceGetProcessUtilization(void *device, struct sample *to, unsigned int *count, unsigned long long since)
{
	struct process all[16];
	unsigned int found = 16, room = *count;
	struct timespec now;
	int result = list(device, 's', &found, all);
	uint64_t end;

	clock_gettime(CLOCK_REALTIME, &now);
	end = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
	*count = 0;
	for (uint64_t at = (since / LOOK_US + 1) * LOOK_US; !result && found && at <= end && *count < room;
	     at += LOOK_US)
		to[(*count)++] = (struct sample){.pid = all[at / LOOK_US % found].pid, .time_us = at, .sm = 100};
	return result ? result : *count ? 0 : NOT_FOUND;
}
