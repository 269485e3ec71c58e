/* SPDX-License-Identifier: Apache-2.0 */
/* The work of the guest's processes on devices: how busy these are, who computes, and memory. */
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "parts.h"
#include "protocol/cuda-functions.h"

/* A kernel that runs until the word at p is not 0. */
static const char ptx[] = ".version 7.0\n.target sm_60\n.address_size 64\n"
			  ".visible .entry spin(.param .u64 p)\n{\n"
			  ".reg .pred %q; .reg .b32 %r<2>; .reg .b64 %l<2>;\nld.param.u64 %l1, [p];\n"
			  "look: ld.volatile.global.u32 %r1, [%l1];\nsetp.eq.u32 %q, %r1, 0;\n@%q bra look;\nret;\n}\n";

static CUdeviceptr begin_cuda(CUdevice dev, size_t bytes)
{
	CUdeviceptr p = 0;
	CUcontext context;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, dev));
	OK(cuCtxSetCurrent(context));
	if (bytes)
		OK(cuMemAlloc_v2(&p, bytes));
	return p;
}

/* ---- how busy ---- */

static volatile unsigned int *word; /* of the host, which the kernel sees */

static void spin(CUdevice dev)
{
	CUdeviceptr p;
	CUmodule module;
	CUfunction f;
	void *params[] = {&p};

	begin_cuda(dev, 0);
	OK(cuMemHostAlloc((void **)&word, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	*word = 0;
	OK(cuMemHostGetDevicePointer_v2(&p, (void *)word, 0));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&f, module, "spin"));
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

/* Asks until the device is as busy as that; the figure is of the last part of a second. */
static nvmlUtilization_t wait_for(D device, U least, U most)
{
	nvmlUtilization_t rates;

	do
		OK(nvmlDeviceGetUtilizationRates(device, &rates));
	while (rates.gpu < least || rates.gpu > most);
	return rates;
}

static void processes_at_work(D device)
{
	nvmlProcessUtilizationSample_t samples[257];
	nvmlProcessUtilizationInfo_v1_t infos[257];
	nvmlProcessesUtilizationInfo_t all = {.version = NVML_VERSION(nvmlProcessesUtilizationInfo_t, 1u)};
	ULL last;
	U room = 0;

	GIVES(nvmlDeviceGetProcessUtilization(device, NULL, &room, 0), NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(room == 1);
	room = 257;
	OK(nvmlDeviceGetProcessUtilization(device, samples, &room, 0));
	CHECK(room == 1 && samples[0].pid == (U)getpid() && samples[0].smUtil >= 90 && samples[0].memUtil >= 90 &&
	      samples[0].smUtil <= 100 && !samples[0].encUtil && !samples[0].decUtil);
	last = samples[0].timeStamp;
	/* Samples are later than the one that was seen; the next comes within a second. */
	do {
		room = 257;
		samples[0].timeStamp = 0;
	} while (nvmlDeviceGetProcessUtilization(device, samples, &room, last) == NVML_ERROR_NOT_FOUND);
	CHECK(room == 1 && samples[0].timeStamp > last);
	GIVES(nvmlDeviceGetProcessesUtilizationInfo(device, &all), NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(all.processSamplesCount == 1);
	all.procUtilArray = infos;
	OK(nvmlDeviceGetProcessesUtilizationInfo(device, &all));
	CHECK(all.processSamplesCount == 1 && infos[0].pid == (U)getpid() && infos[0].smUtil >= 90);
}

/* A kernel on the last device; the others do nothing. */
void busy(void)
{
	nvmlUtilization_t rates;
	U count, room = 0;
	D device;

	OK(nvmlInit_v2());
	OK(nvmlDeviceGetCount_v2(&count));
	OK(nvmlDeviceGetHandleByIndex_v2(count - 1, &device));
	OK(nvmlDeviceGetUtilizationRates(device, &rates));
	CHECK(rates.gpu == 0 && rates.memory == 0);
	spin((CUdevice)count - 1);
	rates = wait_for(device, 90, 100);
	CHECK(rates.memory >= rates.gpu && rates.memory <= 100);
	processes_at_work(device);
	for (U i = 0; i + 1 < count; i++) {
		D other;

		OK(nvmlDeviceGetHandleByIndex_v2(i, &other));
		OK(nvmlDeviceGetUtilizationRates(other, &rates));
		CHECK(rates.gpu == 0 && rates.memory == 0);
		GIVES(nvmlDeviceGetProcessUtilization(other, NULL, &room, 0), NVML_ERROR_NOT_FOUND);
	}
	*word = 1;
	OK(cuCtxSynchronize());
	do
		rates = wait_for(device, 0, 0);
	while (rates.memory);
	/* Copies are no kernels. */
	while (!rates.memory) {
		CUdeviceptr from, to;

		OK(cuMemAlloc_v2(&from, 64 << 20));
		OK(cuMemAlloc_v2(&to, 64 << 20));
		for (int i = 0; i < 40; i++)
			OK(cuMemcpyDtoDAsync_v2(to, from, 64 << 20, NULL));
		OK(nvmlDeviceGetUtilizationRates(device, &rates));
		OK(cuMemFree_v2(from));
		OK(cuMemFree_v2(to));
	}
	CHECK(rates.gpu == 0);
}

/* ---- who computes ---- */

/* Has so much memory of the first device until its stdin ends, and is as busy as a kernel makes it. */
void hold(const char *bytes)
{
	char c;

	begin_cuda(0, strtoull(bytes, NULL, 10));
	spin(0);
	puts("ready");
	fflush(stdout);
	CHECK(read(0, &c, 1) == 0);
	*word = 1;
	OK(cuCtxSynchronize());
}

/* nvidia-smi calls it for its table: processes with their names. */
static void private_lists(D device, U other)
{
	static struct {
		U pid;
		ULL bytes;
		U instances[2];
		ULL reserved;
		char name[4096];
	} infos[3];
	R (*const *table)(D, U *, void *);
	const void *words;
	U room = 1, theirs;

	OK(nvmlInternalGetExportTable(&words, private_table));
	table = words;
	GIVES(table[213](device, &room, infos), NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(room == 2 && !infos[0].pid);
	room = 3;
	OK(table[213](device, &room, infos));
	theirs = infos[1].pid == other;
	CHECK(room == 2 && infos[theirs].pid == other && infos[theirs].bytes >= 48 << 20 && !infos[2].pid);
	CHECK(strstr(infos[theirs].name, "nvml-parts") && infos[theirs].instances[1] == 0xffffffff);
	for (int kind = 214; kind <= 215; kind++) {
		room = 3;
		OK(table[kind](device, &room, infos));
		CHECK(room == 0);
	}
}

/* This process, and one that has 48 MiB and computes; no other. */
void lists(const char *neighbour)
{
	nvmlProcessDetail_v1_t details[2];
	nvmlProcessDetailList_t list = {.version = NVML_VERSION(nvmlProcessDetailList_t, 1u)};
	nvmlProcessInfo_t infos[3];
	nvmlProcessInfo_v1_t old[2];
	nvmlProcessUtilizationSample_t samples[4];
	U other = (U)atoi(neighbour), room, mine;
	nvmlUtilization_t rates;
	D device;

	begin_cuda(0, 32 << 20);
	OK(nvmlInit_v2());
	OK(nvmlDeviceGetHandleByIndex_v2(0, &device));
	room = 1;
	GIVES(nvmlDeviceGetComputeRunningProcesses_v3(device, &room, infos), NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(room == 2);
	room = 3;
	OK(nvmlDeviceGetComputeRunningProcesses_v3(device, &room, infos));
	CHECK(room == 2);
	mine = infos[1].pid == (U)getpid();
	CHECK(infos[mine].pid == (U)getpid() && infos[!mine].pid == other);
	CHECK(infos[mine].usedGpuMemory >= 32 << 20 && infos[!mine].usedGpuMemory >= 48 << 20);
	CHECK(infos[mine].usedGpuMemory < 48 << 20 && infos[!mine].usedGpuMemory < 64 << 20);
	OK(nvmlDeviceGetComputeRunningProcesses_v2(device, &room, infos));
	CHECK(room == 2 && infos[!mine].pid == other && infos[!mine].gpuInstanceId == 0xffffffff);
	OK(nvmlDeviceGetComputeRunningProcesses(device, &room, old));
	CHECK(room == 2 && old[!mine].pid == other && old[!mine].usedGpuMemory == infos[!mine].usedGpuMemory);
	GIVES(nvmlDeviceGetRunningProcessDetailList(device, &list), NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(list.numProcArrayEntries == 2);
	list.procArray = details;
	OK(nvmlDeviceGetRunningProcessDetailList(device, &list));
	CHECK(details[!mine].pid == other && details[mine].usedGpuMemory == infos[mine].usedGpuMemory);
	private_lists(device, other);
	/* The neighbour's kernel is this guest's work, and another guest's is not. */
	rates = wait_for(device, 90, 100);
	room = 4;
	OK(nvmlDeviceGetProcessUtilization(device, samples, &room, 0));
	CHECK(rates.gpu <= 100 && room == 1 && samples[0].pid == other && samples[0].smUtil >= 90);
}

/* ---- memory ---- */

/* The size of the device is the quota, as CUDA says. */
void quota(const char *bytes)
{
	nvmlMemory_v2_t second = {.version = NVML_VERSION(nvmlMemory_v2_t, 2u)};
	nvmlMemory_t memory;
	size_t left, total;
	D device;

	begin_cuda(0, 32 << 20);
	OK(nvmlInit_v2());
	OK(nvmlDeviceGetHandleByIndex_v2(0, &device));
	OK(cuMemGetInfo_v2(&left, &total));
	OK(nvmlDeviceGetMemoryInfo(device, &memory));
	OK(nvmlDeviceGetMemoryInfo_v2(device, &second));
	CHECK(memory.total == strtoull(bytes, NULL, 10) && total == memory.total && second.total == memory.total);
	CHECK(memory.used >= 32 << 20 && memory.free == memory.total - memory.used && second.free == memory.free);
	CHECK(memory.free == left);
}
