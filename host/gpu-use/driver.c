/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

#include "common/deadline.h"
#include "host/backend-cuda/nvml.h"

#define MOST_GPUS 64

/* More than the driver takes in the time for which it keeps them. */
#define MOST_SAMPLES 1024

static struct {
	char ids[MOST_GPUS][32];        /* PCI addresses; "": not known */
	uint64_t sampled_us[MOST_GPUS]; /* the last sample's time; 0: none was asked for */
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

static bool is_known(unsigned int gpu)
{
	return gpu < gpus.count && *gpus.ids[gpu];
}

unsigned int gpus_open(const char **why)
{
	static struct vcuda_gpu_use unused;
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
		answers = gpus_read_memory(gpu, &unused);
	*why = backend_nvml_knows_namespace()
		       ? "NVIDIA's libnvidia-ml.so.1 does not answer, or is older than driver 510"
		       : "in a container NVIDIA's driver before 535.113 lists processes by the host's numbers (update "
			 "it, or give the container the host's pid namespace)";
	return answers ? gpus.count : 0;
}

bool gpus_read_memory(unsigned int gpu, struct vcuda_gpu_use *to)
{
	static struct backend_process processes[VCUDA_GPU_USE_PROCESSES];
	int count = is_known(gpu) ? backend_nvml_processes(gpus.ids[gpu], processes, VCUDA_GPU_USE_PROCESSES) : -1;

	to->type = VCUDA_GPU_USE_MEMORY;
	to->gpu = gpu;
	to->count = 0;
	for (int i = 0; i < count; i++)
		if (processes[i].bytes != UINT64_MAX)
			to->memory[to->count++] =
				(struct vcuda_gpu_use_memory){.process = processes[i].pid, .bytes = processes[i].bytes};
	return count >= 0;
}

static int is_later(const void *a, const void *b)
{
	const struct backend_sample *first = a, *second = b;

	return (first->time_us > second->time_us) - (first->time_us < second->time_us);
}

/* The clock of the driver's samples. It may be set at any time. */
static uint64_t real_time_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* CLOCK_MONOTONIC less that, exact to a tenth of a millisecond unless the machine is very busy. */
static uint64_t clock_offset_ns(void)
{
	uint64_t before, real;

	for (int i = 0; i < 10; i++) {
		before = vcuda_now_ns();
		real = real_time_ns();
		if (vcuda_now_ns() - before < 100000)
			break;
	}
	return before - real;
}

bool gpus_know_samples(void)
{
	static struct backend_sample samples[MOST_SAMPLES];
	bool knows = false;

	for (unsigned int gpu = 0; gpu < gpus.count && !knows; gpu++)
		knows = is_known(gpu) &&
			backend_nvml_samples(gpus.ids[gpu], real_time_ns() / 1000, samples, MOST_SAMPLES) >= 0;
	return knows;
}

bool gpus_read_samples(unsigned int gpu, struct vcuda_gpu_use *to)
{
	static struct backend_sample samples[MOST_SAMPLES];
	uint64_t offset = clock_offset_ns(), now_us = real_time_ns() / 1000, since;
	int count;

	if (!gpus.sampled_us[gpu] || gpus.sampled_us[gpu] > now_us)
		gpus.sampled_us[gpu] = now_us;
	since = gpus.sampled_us[gpu];
	count = is_known(gpu) ? backend_nvml_samples(gpus.ids[gpu], since, samples, MOST_SAMPLES) : -1;
	to->type = VCUDA_GPU_USE_SAMPLES;
	to->gpu = gpu;
	to->count = 0;
	if (count > 0)
		qsort(samples, (size_t)count, sizeof(samples[0]), is_later);
	for (int i = 0; i < count; i++) {
		if (samples[i].time_us <= since || samples[i].time_us > now_us)
			continue;
		gpus.sampled_us[gpu] = samples[i].time_us;
		to->samples[to->count++] = (struct vcuda_gpu_use_sample){.process = samples[i].pid,
									 .busy = samples[i].sm,
									 .time_ns = samples[i].time_us * 1000 + offset};
	}
	return to->count > 0;
}
