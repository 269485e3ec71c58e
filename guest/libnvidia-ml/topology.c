/* SPDX-License-Identifier: Apache-2.0 */
/* Distances of devices to each other, and to processors and memory of this machine. */
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvml.h"

#define BITS (8 * sizeof(unsigned long))

/* ---- devices to each other ---- */

/*
 * Where the host is not asked or does not know: devices of one PCI domain are below one host bridge, as their addresses
 * say.
 */
static nvmlReturn_t common_ancestor(int from, int to, unsigned int *level)
{
	const uint32_t arguments[VCUDA_FIGURE_ARGUMENTS] = {(uint32_t)to};
	uint64_t values[VCUDA_FIGURE_VALUES];
	int domains[2];
	nvmlReturn_t result;

	if (from == to) {
		*level = NVML_TOPOLOGY_INTERNAL;
		return NVML_SUCCESS;
	}
	result = nvml_figure(from, VCUDA_FIGURE_COMMON_ANCESTOR, arguments, values);
	if (result == NVML_SUCCESS) {
		*level = (unsigned int)values[0];
		return NVML_SUCCESS;
	}
	if (result != NVML_ERROR_NOT_SUPPORTED ||
	    !nvml_attribute(from, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, &domains[0]) ||
	    !nvml_attribute(to, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, &domains[1]))
		return result;
	*level = domains[0] == domains[1] ? NVML_TOPOLOGY_HOSTBRIDGE : NVML_TOPOLOGY_SYSTEM;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t peer,
							     unsigned int *level)
{
	int from, to;
	nvmlReturn_t result = nvml_require_device(device, &from);

	if (result == NVML_SUCCESS)
		result = nvml_require_device(peer, &to);
	if (result != NVML_SUCCESS)
		return result;
	return level ? common_ancestor(from, to, level) : NVML_ERROR_INVALID_ARGUMENT;
}

/* Writes the devices of a set, or only their number where *room is less. */
static nvmlReturn_t put_devices(const bool *set, unsigned int *room, nvmlDevice_t *devices)
{
	unsigned int found = 0, size = *room;

	for (int i = 0; i < nvml_client_host()->count; i++)
		if (set[i] && found++ < size)
			devices[found - 1] = nvml_handle(i);
	*room = found;
	return size && size < found ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

static bool is_level(unsigned int level)
{
	return level <= NVML_TOPOLOGY_SYSTEM && level % 10 == 0;
}

/* The devices at exactly this level. *room 0 asks for their number. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, unsigned int level, unsigned int *room,
							  nvmlDevice_t *devices)
{
	bool set[NVML_DEVICES] = {false};
	unsigned int distance;
	int from;
	nvmlReturn_t result = nvml_require_device(device, &from);

	if (result != NVML_SUCCESS)
		return result;
	if (!room || (*room && !devices) || !is_level(level))
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < nvml_client_host()->count; i++) {
		if (i == from)
			continue;
		result = common_ancestor(from, i, &distance);
		if (result != NVML_SUCCESS)
			return result;
		set[i] = distance == level;
	}
	return put_devices(set, room, devices);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t device, nvmlDevice_t peer, int *yes)
{
	int from, to, shared = 0, groups[2] = {0, 1};
	nvmlReturn_t result = nvml_require_device(device, &from);

	if (result == NVML_SUCCESS)
		result = nvml_require_device(peer, &to);
	if (result != NVML_SUCCESS)
		return result;
	if (!yes)
		return NVML_ERROR_INVALID_ARGUMENT;
	nvml_attribute(from, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD, &shared);
	nvml_attribute(from, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID, &groups[0]);
	nvml_attribute(to, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID, &groups[1]);
	*yes = from == to || (shared && groups[0] == groups[1]);
	return NVML_SUCCESS;
}

/* ---- processors and memory ---- */

static void set_bit(unsigned long number, unsigned long *set, unsigned int words)
{
	if (number / BITS < words)
		set[number / BITS] |= 1ul << number % BITS;
}

/* Adds the numbers of a file such as "0-3,8". False: there is no such file, or there is no number in it. */
static bool read_list(const char *path, unsigned long *set, unsigned int words)
{
	FILE *file = fopen(path, "re");
	unsigned long first, last;
	bool any = false;
	int separator;

	/* A negative number is none. */
	while (file && fscanf(file, "%lu", &first) == 1 && first <= INT_MAX) {
		last = first;
		separator = fgetc(file);
		if (separator == '-' && fscanf(file, "%lu", &last) == 1)
			separator = fgetc(file);
		for (; first <= last && first / BITS < words; first++)
			set_bit(first, set, words);
		any = true;
		if (separator != ',')
			break;
	}
	if (file)
		fclose(file);
	return any;
}

#define VENDOR_NVIDIA 0x10de

static void path_of(int index, const char *name, char path[96])
{
	int domain = 0, bus = 0, device = 0;

	nvml_attribute(index, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, &domain);
	nvml_attribute(index, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, &bus);
	nvml_attribute(index, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, &device);
	snprintf(path, 96, "/sys/bus/pci/devices/%04x:%02x:%02x.0/%s", domain, bus, device, name);
}

/*
 * A GPU of this machine itself has a folder in /sys. To one of the host all processors of a VM are near, and an address
 * that the host gives to it may be that of another device of the VM.
 */
static bool is_here(int index)
{
	const struct nvml_host *host = nvml_client_host();
	unsigned int vendor = 0;
	char path[96];
	FILE *file;

	if (!host->is_local || host->is_software)
		return false;
	path_of(index, "vendor", path);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (fscanf(file, "%x", &vendor) != 1)
		vendor = 0;
	fclose(file);
	return vendor == VENDOR_NVIDIA;
}

/* False: the device is not in this machine, or the machine does not say. */
static bool read_list_of(int index, const char *name, unsigned long *set, unsigned int words)
{
	char path[96];

	path_of(index, name, path);
	return is_here(index) && read_list(path, set, words);
}

static void near_processors(int index, unsigned long *set, unsigned int words)
{
	memset(set, 0, words * sizeof(*set));
	if (!read_list_of(index, "local_cpulist", set, words) &&
	    !read_list("/sys/devices/system/cpu/online", set, words))
		set_bit(0, set, words);
}

static void near_nodes(int index, unsigned long *set, unsigned int words)
{
	memset(set, 0, words * sizeof(*set));
	/* -1: as near to all. */
	if (!read_list_of(index, "numa_node", set, words) && !read_list("/sys/devices/system/node/online", set, words))
		set_bit(0, set, words);
}

static nvmlReturn_t affinity(nvmlDevice_t device, unsigned int words, unsigned long *set, unsigned int scope,
			     void (*fill)(int index, unsigned long *set, unsigned int words))
{
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!words || !set || scope > NVML_AFFINITY_SCOPE_SOCKET)
		return NVML_ERROR_INVALID_ARGUMENT;
	fill(index, set, words);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words, unsigned long *set)
{
	return affinity(device, words, set, NVML_AFFINITY_SCOPE_NODE, near_processors);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned int words,
							     unsigned long *set, unsigned int scope)
{
	return affinity(device, words, set, scope, near_processors);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int words, unsigned long *set,
						     unsigned int scope)
{
	return affinity(device, words, set, scope, near_nodes);
}

/* The calling thread's. */
NVML_EXPORT nvmlReturn_t nvmlDeviceSetCpuAffinity(nvmlDevice_t device)
{
	cpu_set_t set;
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	near_processors(index, (unsigned long *)&set, sizeof(set) / sizeof(unsigned long));
	return sched_setaffinity(0, sizeof(set), &set) ? NVML_ERROR_UNKNOWN : NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceClearCpuAffinity(nvmlDevice_t device)
{
	cpu_set_t set;
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	memset(&set, 0xff, sizeof(set));
	return sched_setaffinity(0, sizeof(set), &set) ? NVML_ERROR_UNKNOWN : NVML_SUCCESS;
}

/* Devices that a processor is near to. *room 0 asks for their number. */
NVML_EXPORT nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned int processor, unsigned int *room, nvmlDevice_t *devices)
{
	bool set[NVML_DEVICES] = {false};
	cpu_set_t processors;
	nvmlReturn_t result = nvml_require_init();

	if (result != NVML_SUCCESS)
		return result;
	if (!room || (*room && !devices) || processor >= CPU_SETSIZE)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < nvml_client_host()->count; i++) {
		near_processors(i, (unsigned long *)&processors, sizeof(processors) / sizeof(unsigned long));
		set[i] = CPU_ISSET(processor, &processors);
	}
	return put_devices(set, room, devices);
}
