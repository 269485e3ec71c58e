/* SPDX-License-Identifier: Apache-2.0 */
/* /sys says that the device of our address is near to processor 0 only: the device counts as that one, or does not. */
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "parts.h"

#define FOLDER "/sys/bus/pci/devices"

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	CHECK(file && fputs(text, file) >= 0 && !fclose(file));
}

static void need(bool can, const char *what)
{
	if (can)
		return;
	printf("%s\n", what);
	exit(77);
}

/* This process alone sees them. */
static void replace_devices(void)
{
	char map[32];
	uid_t user = geteuid();

	if (user) {
		need(!unshare(CLONE_NEWUSER), "no user namespace");
		snprintf(map, sizeof(map), "0 %u 1", (unsigned int)user);
		write_file("/proc/self/uid_map", map);
	}
	need(!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
		     !mount("none", FOLDER, "tmpfs", 0, NULL),
	     "no mounts");
}

static long processors(D device)
{
	unsigned long set[CPU_SETSIZE / 64];
	long found = 0;

	OK(nvmlDeviceGetCpuAffinity(device, CPU_SETSIZE / 64, set));
	for (int w = 0; w < CPU_SETSIZE / 64; w++)
		found += __builtin_popcountl(set[w]);
	return found;
}

/* "here": a device of NVIDIA's is the one of the library's. */
void sysfs(const char *where)
{
	bool is_here = !strcmp(where, "here");
	char folder[96], path[128];
	unsigned long nodes;
	nvmlPciInfo_t pci;
	long all;
	D device;

	need(sysconf(_SC_NPROCESSORS_ONLN) > 1, "one processor");
	OK(nvmlInit_v2());
	OK(nvmlDeviceGetHandleByIndex_v2(0, &device));
	OK(nvmlDeviceGetPciInfo_v3(device, &pci));
	replace_devices();
	all = processors(device);
	CHECK(all == sysconf(_SC_NPROCESSORS_ONLN));
	snprintf(folder, sizeof(folder), FOLDER "/%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
	CHECK(!mkdir(folder, 0700));
	snprintf(path, sizeof(path), "%s/local_cpulist", folder);
	write_file(path, "0\n");
	snprintf(path, sizeof(path), "%s/numa_node", folder);
	write_file(path, "5\n");
	snprintf(path, sizeof(path), "%s/vendor", folder);
	/* Another vendor's device. */
	write_file(path, "0x1af4\n");
	CHECK(processors(device) == all);
	write_file(path, "0x10de\n");
	CHECK(processors(device) == (is_here ? 1 : all));
	OK(nvmlDeviceGetMemoryAffinity(device, 1, &nodes, NVML_AFFINITY_SCOPE_NODE));
	CHECK(is_here ? nodes == 1ul << 5 : nodes != 1ul << 5);
}
