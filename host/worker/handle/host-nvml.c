/* SPDX-License-Identifier: Apache-2.0 */
#include "host-nvml.h"

#include <dlfcn.h>
#include <pthread.h>

#define LIBRARY "libnvidia-ml.so.1"

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* NULL: not there. All give 0 for success. */
static struct {
	int (*init)(void);
	int (*driver_version)(char *text, unsigned int size);
	int (*device)(const char *pci_bus_id, void **device);
	int (*processes)(void *device, unsigned int *count, struct worker_host_process *to);
} nvml;

static void load(void)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	/* Our own for guests has the same name: a worker that used it would ask itself. */
	if (!library || dlsym(library, "nvmlVcudaGuestLibrary"))
		return;
	*(void **)&nvml.init = dlsym(library, "nvmlInit_v2");
	if (!nvml.init || nvml.init())
		return;
	*(void **)&nvml.driver_version = dlsym(library, "nvmlSystemGetDriverVersion");
	*(void **)&nvml.device = dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
	*(void **)&nvml.processes = dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
}

void worker_host_driver_version(char *text, size_t size)
{
	pthread_once(&once, load);
	if (!nvml.driver_version || nvml.driver_version(text, (unsigned int)size))
		*text = 0;
	text[size - 1] = 0;
}

int worker_host_processes(const char *pci_bus_id, struct worker_host_process *to, unsigned int room)
{
	unsigned int count = room;
	void *device;

	pthread_once(&once, load);
	if (!nvml.device || !nvml.processes || nvml.device(pci_bus_id, &device) || nvml.processes(device, &count, to))
		return -1;
	return (int)(count < room ? count : room);
}
