/* SPDX-License-Identifier: Apache-2.0 */
#include "nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIBRARY "libnvidia-ml.so.1"

/* More processes than the users of a host have on one device. */
#define MOST_PROCESSES 4096

/* NVML_ERROR_NOT_FOUND. */
#define NOT_FOUND 6

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The first pid namespace, by the kernel's PROC_PID_INIT_INO. */
#define FIRST_PID_NAMESPACE 0xEFFFFFFCul

/* NULL: not there. All give 0 for success. */
static struct {
	void *library; /* NULL: the library is not there, or does not start */
	bool foreign;  /* the numbers of processes are not those of this pid namespace */
	int (*init)(void);
	int (*driver_version)(char *text, unsigned int size);
	int (*device)(const char *pci_bus_id, void **device);
	int (*compute)(void *device, unsigned int *count, struct backend_process *to);
	int (*graphics)(void *device, unsigned int *count, struct backend_process *to);
	int (*peer_status)(void *device, void *peer, unsigned int capability, int *status);
	int (*samples)(void *device, struct backend_sample *to, unsigned int *count, unsigned long long since);
} nvml;

static bool is_first_pid_namespace(void)
{
	struct stat found;

	return !stat("/proc/self/ns/pid", &found) && found.st_ino == FIRST_PID_NAMESPACE;
}

/* Since 535.113 the driver's kernel module lists the caller's pid namespace, by that one's numbers. */
static bool translates_processes(void)
{
	char version[80];
	unsigned int major, minor;

	return nvml.driver_version && !nvml.driver_version(version, sizeof(version)) &&
	       sscanf(version, "%u.%u", &major, &minor) == 2 && (major > 535 || (major == 535 && minor >= 113));
}

static void load(void)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	/* Our own for guests has the same name: a worker that used it would ask itself. */
	if (!library || dlsym(library, "nvmlVcudaGuestLibrary"))
		return;
	*(void **)&nvml.init = dlsym(library, "nvmlInit_v2");
	if (!nvml.init || nvml.init())
		return;
	nvml.library = library;
	*(void **)&nvml.driver_version = dlsym(library, "nvmlSystemGetDriverVersion");
	*(void **)&nvml.device = dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
	*(void **)&nvml.compute = dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
	*(void **)&nvml.graphics = dlsym(library, "nvmlDeviceGetGraphicsRunningProcesses_v3");
	*(void **)&nvml.peer_status = dlsym(library, "nvmlDeviceGetP2PStatus");
	*(void **)&nvml.samples = dlsym(library, "nvmlDeviceGetProcessUtilization");
	nvml.foreign = !is_first_pid_namespace() && !translates_processes();
}

bool backend_nvml_knows_namespace(void)
{
	pthread_once(&once, load);
	return !nvml.foreign;
}

bool backend_nvml_device(const char *pci_bus_id, void **device)
{
	pthread_once(&once, load);
	return nvml.device && !nvml.device(pci_bus_id, device);
}

void *backend_nvml_function(const char *name)
{
	pthread_once(&once, load);
	return nvml.library ? dlsym(nvml.library, name) : NULL;
}

void backend_nvml_driver_version(char *text, size_t size)
{
	pthread_once(&once, load);
	if (!nvml.driver_version || nvml.driver_version(text, (unsigned int)size))
		*text = 0;
	text[size - 1] = 0;
}

/* Adds a process to the `count` that are there. One that is there keeps the larger figure. Returns the new count. */
static unsigned int add(struct backend_process *to, unsigned int count, unsigned int room,
			const struct backend_process *p)
{
	unsigned int i = 0;

	while (i < count && to[i].pid != p->pid)
		i++;
	if (i < count && p->bytes != UINT64_MAX && (to[i].bytes == UINT64_MAX || p->bytes > to[i].bytes))
		to[i].bytes = p->bytes;
	if (i < count || i == room)
		return count;
	to[i] = *p;
	return count + 1;
}

static unsigned int add_graphics(void *device, struct backend_process *to, unsigned int count, unsigned int room)
{
	struct backend_process *graphics = malloc(room * sizeof(*graphics));
	unsigned int found = room;

	if (graphics && nvml.graphics && !nvml.graphics(device, &found, graphics))
		for (unsigned int i = 0; i < found && i < room; i++)
			count = add(to, count, room, &graphics[i]);
	free(graphics);
	return count;
}

int backend_nvml_processes(const char *pci_bus_id, struct backend_process *to, unsigned int room)
{
	unsigned int count = room;
	void *device;

	if (!backend_nvml_knows_namespace() || !nvml.device || !nvml.compute || nvml.device(pci_bus_id, &device) ||
	    nvml.compute(device, &count, to))
		return -1;
	return (int)add_graphics(device, to, count < room ? count : room, room);
}

int backend_nvml_samples(const char *pci_bus_id, uint64_t since_us, struct backend_sample *to, unsigned int room)
{
	unsigned int count = room;
	void *device;
	int result;

	if (!backend_nvml_knows_namespace() || !nvml.device || !nvml.samples || nvml.device(pci_bus_id, &device))
		return -1;
	result = nvml.samples(device, to, &count, since_us);
	if (result == NOT_FOUND)
		return 0;
	return result ? -1 : (int)(count < room ? count : room);
}

bool backend_nvml_peer_status(const char *pci_bus_id, const char *peer_bus_id, unsigned int capability, int *status)
{
	void *device, *peer;

	pthread_once(&once, load);
	return nvml.peer_status && nvml.device && !nvml.device(pci_bus_id, &device) &&
	       !nvml.device(peer_bus_id, &peer) && !nvml.peer_status(device, peer, capability, status);
}

bool backend_nvml_own(const char *pci_bus_id, uint64_t *bytes)
{
	struct backend_process *all = malloc(MOST_PROCESSES * sizeof(*all));
	int count = all ? backend_nvml_processes(pci_bus_id, all, MOST_PROCESSES) : -1, i = 0;

	while (i < count && all[i].pid != (uint32_t)getpid())
		i++;
	*bytes = i < count ? all[i].bytes : UINT64_MAX;
	free(all);
	return *bytes != UINT64_MAX;
}
