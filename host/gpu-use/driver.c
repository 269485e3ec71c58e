/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include <dlfcn.h>

#include "host/backend-cuda/nvml.h"

#define MOST_GPUS 64

static struct {
	char ids[MOST_GPUS][32]; /* PCI addresses; "": not known */
	unsigned int count;
} gpus;

struct cuda {
	int (*init)(unsigned int flags);
	int (*count)(int *count);
	int (*pci_bus_id)(char *id, int length, int device);
};

/* A guest's library has the same name: it would ask a vcudad. */
static bool load_cuda(struct cuda *cuda)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library || dlsym(library, "cuVcudaHost"))
		return false;
	*(void **)&cuda->init = dlsym(library, "cuInit");
	*(void **)&cuda->count = dlsym(library, "cuDeviceGetCount");
	*(void **)&cuda->pci_bus_id = dlsym(library, "cuDeviceGetPCIBusId");
	return cuda->init && cuda->count && cuda->pci_bus_id && !cuda->init(0);
}

unsigned int gpus_open(const char **why)
{
	struct vcuda_gpu_use unused;
	bool answers = false;
	struct cuda cuda;
	int count = 0;

	*why = NULL;
	if (!load_cuda(&cuda) || cuda.count(&count))
		return 0;
	for (int gpu = 0; gpu < count && gpu < MOST_GPUS; gpu++, gpus.count++)
		if (cuda.pci_bus_id(gpus.ids[gpu], sizeof(gpus.ids[gpu]), gpu))
			*gpus.ids[gpu] = 0;
	for (unsigned int gpu = 0; gpu < gpus.count && !answers; gpu++)
		answers = gpus_read(gpu, &unused);
	*why = backend_nvml_knows_namespace()
		       ? "NVIDIA's libnvidia-ml.so.1 does not answer, or is older than driver 510"
		       : "in a container NVIDIA's driver before 535.113 lists processes by the host's numbers (update "
			 "it, or give the container the host's pid namespace)";
	return answers ? gpus.count : 0;
}

bool gpus_read(unsigned int gpu, struct vcuda_gpu_use *to)
{
	static struct backend_process processes[VCUDA_GPU_USE_PROCESSES];
	int count = gpu < gpus.count && *gpus.ids[gpu]
			    ? backend_nvml_processes(gpus.ids[gpu], processes, VCUDA_GPU_USE_PROCESSES)
			    : -1;

	to->gpu = gpu;
	to->count = 0;
	for (int i = 0; i < count; i++)
		if (processes[i].bytes != UINT64_MAX)
			to->processes[to->count++] = (struct vcuda_gpu_use_process){.process = processes[i].pid,
										       .bytes = processes[i].bytes};
	return count >= 0;
}
