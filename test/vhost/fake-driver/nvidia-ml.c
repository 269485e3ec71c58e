/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's management library, whose processes are in the file that VCUDA_TEST_GPU_MEMORY names: lines with the GPU's
 * bus, "c" or "g" for a process that computes or draws, its number and its bytes. Each reading adds a byte to the file
 * that VCUDA_TEST_GPU_READINGS names. With "s" the process's kernels run all the time, and bytes mean nothing: each
 * fifth of a second the driver finds the next of those. VCUDA_TEST_DRIVER_VERSION is the driver's version. Without the
 * file there are samples of all processes. Figures follow from their arguments.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INVALID 2
#define NOT_SUPPORTED 3
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
	unsigned int domain;
	int bus;

	if (sscanf(id, "%x:%d:00.0", &domain, &bus) != 2)
		return INVALID;
	*device = (void *)(uintptr_t)bus;
	return 0;
}

static int list(const void *device, char wanted, unsigned int *count, struct process *to)
{
	const char *path = getenv("VCUDA_TEST_GPU_MEMORY");
	FILE *file = path ? fopen(path, "r") : NULL, *readings;
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

/* Samples of 1000 processes; the time that is asked for is the number of the first. */
static int sample_all(struct sample *to, unsigned int *count, unsigned long long since)
{
	unsigned int room = *count;

	for (*count = 0; *count < 1000 && *count < room; (*count)++)
		to[*count] =
			(struct sample){.pid = (uint32_t)since + *count, .time_us = since + 1, .sm = 61, .memory = 17};
	return *count ? 0 : NOT_FOUND;
}

int nvmlDeviceGetProcessUtilization(void *device, struct sample *to, unsigned int *count, unsigned long long since)
{
	struct process all[16];
	unsigned int found = 16, room = *count;
	struct timespec now;
	uint64_t end;
	int result;

	if (!getenv("VCUDA_TEST_GPU_MEMORY"))
		return sample_all(to, count, since);
	result = list(device, 's', &found, all);
	clock_gettime(CLOCK_REALTIME, &now);
	end = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
	*count = 0;
	/* Only the last look at each process. */
	for (uint64_t at = end / LOOK_US * LOOK_US; !result && at > since && *count < found && *count < room; at -= LOOK_US)
		to[(*count)++] = (struct sample){.pid = all[at / LOOK_US % found].pid, .time_us = at, .sm = 100};
	return result ? result : *count ? 0 : NOT_FOUND;
}

/* ---- figures ---- */

int nvmlDeviceGetUtilizationRates(void *device, uint32_t rates[2])
{
	rates[0] = 42;
	rates[1] = 24;
	return 0;
}

#define CONSTANT(name, type, number)                                                                                   \
	int name(void *device, type *value)                                                                            \
	{                                                                                                              \
		*value = number;                                                                                       \
		return 0;                                                                                              \
	}

CONSTANT(nvmlDeviceGetBrand, uint32_t, 14)
CONSTANT(nvmlDeviceGetNumGpuCores, uint32_t, 16896)
CONSTANT(nvmlDeviceGetPcieLinkMaxSpeed, uint32_t, 5)
CONSTANT(nvmlDeviceGetPcieSpeed, uint32_t, 32000)
CONSTANT(nvmlDeviceGetPowerUsage, uint32_t, 123456)
CONSTANT(nvmlDeviceGetTotalEnergyConsumption, uint64_t, 0x1234567890ull)
CONSTANT(nvmlDeviceGetCurrentClocksThrottleReasons, uint64_t, 0x100000001ull)

int nvmlDeviceGetTemperature(void *device, uint32_t sensor, uint32_t *degrees)
{
	*degrees = 50 + (uint32_t)(uintptr_t)device;
	return sensor ? INVALID : 0;
}

int nvmlDeviceGetClock(void *device, uint32_t type, uint32_t id, uint32_t *mhz)
{
	*mhz = 1000 + 10 * type + id;
	return 0;
}

int nvmlDeviceGetTotalEccErrors(void *device, uint32_t type, uint32_t counter, uint64_t *count)
{
	*count = 70 + 2 * type + counter;
	return 0;
}

int nvmlDeviceGetMemoryErrorCounter(void *device, uint32_t type, uint32_t counter, uint32_t location, uint64_t *count)
{
	*count = 900 + 100 * type + 10 * counter + location;
	return 0;
}

int nvmlDeviceGetPowerManagementLimitConstraints(void *device, uint32_t *least, uint32_t *most)
{
	*least = 200000;
	*most = 700000;
	return 0;
}

int nvmlDeviceGetRemappedRows(void *device, uint32_t *corrected, uint32_t *uncorrected, uint32_t *pending,
			      uint32_t *failed)
{
	*corrected = 1;
	*uncorrected = 2;
	*pending = 3;
	*failed = 4;
	return 0;
}

/* The type is a number of 64 bits. */
struct field {
	uint32_t id, scope;
	int64_t time_us, latency_us;
	uint32_t type;
	int result;
	uint64_t value;
};

int nvmlDeviceGetFieldValues(void *device, int count, struct field *fields)
{
	for (int i = 0; i < count; i++) {
		fields[i].type = 3;
		fields[i].value = 100 * fields[i].id + fields[i].scope;
		fields[i].result = fields[i].id == 90 ? NOT_SUPPORTED : 0;
	}
	return 0;
}

int nvmlDeviceGetTopologyCommonAncestor(void *device, void *peer, uint32_t *level)
{
	*level = 10;
	return 0;
}

/* ---- links: to the device with bus 2, to an unknown GPU, to a switch; and one that is down ---- */

enum { TO_PEER, TO_STRANGER, TO_SWITCH, DOWN, LINKS };

int nvmlDeviceGetNvLinkState(void *device, uint32_t link, uint32_t *active)
{
	*active = link < DOWN;
	return link < LINKS ? 0 : INVALID;
}

int nvmlDeviceGetNvLinkVersion(void *device, uint32_t link, uint32_t *version)
{
	*version = 4;
	return link < LINKS ? 0 : INVALID;
}

int nvmlDeviceGetNvLinkCapability(void *device, uint32_t link, uint32_t capability, uint32_t *value)
{
	*value = capability == 2;
	return link < LINKS ? 0 : INVALID;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, uint32_t link, uint32_t *type)
{
	*type = link == TO_SWITCH ? 2 : 0;
	return link < DOWN ? 0 : link == DOWN ? NOT_SUPPORTED : INVALID;
}

struct pci_info {
	char legacy[16];
	uint32_t domain, bus, device, id, subsystem;
	char text[32];
};

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, uint32_t link, struct pci_info *remote)
{
	static const char *const addresses[] = {"00007CDA:02:00.0", "00000000:77:00.0", "00000000:C0:00.0"};

	if (link >= DOWN)
		return link == DOWN ? NOT_SUPPORTED : INVALID;
	strcpy(remote->text, addresses[link]);
	return 0;
}
