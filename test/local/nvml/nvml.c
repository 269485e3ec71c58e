/* SPDX-License-Identifier: Apache-2.0 */
/* libnvidia-ml.so.1 beside CUDA in one process, with CUDA_VISIBLE_DEVICES as the caller likes: nvml [hidden] */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "functions.h"
#include "protocol/cuda-functions.h"

#define MIB (1ull << 20)

static nvmlDevice_t device;

static void life(void)
{
	unsigned int count;

	GIVES(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
	GIVES(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
	CHECK(!strcmp(nvmlErrorString(NVML_ERROR_NOT_SUPPORTED), "Not Supported"));
	CHECK(!strcmp(nvmlErrorString((nvmlReturn_t)12345), "Unknown Error"));
	OK(nvmlInit_v2());
	OK(nvmlInit_v2());
	OK(nvmlShutdown());
	OK(nvmlDeviceGetCount_v2(&count));
	CHECK(count >= 1);
}

static void identity(void)
{
	char name[96], uuid[96], tiny[4] = "abc", version[80];
	nvmlPciInfo_t pci;
	nvmlDevice_t same;
	int major, minor, cuda;

	OK(nvmlDeviceGetHandleByIndex_v2(0, &device));
	GIVES(nvmlDeviceGetHandleByIndex_v2(64, &same), NVML_ERROR_INVALID_ARGUMENT);
	OK(nvmlDeviceGetName(device, name, sizeof(name)));
	GIVES(nvmlDeviceGetName(device, tiny, sizeof(tiny)), NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(!strcmp(tiny, "abc"));
	GIVES(nvmlDeviceGetName(NULL, name, sizeof(name)), NVML_ERROR_INVALID_ARGUMENT);
	GIVES(nvmlDeviceGetName((nvmlDevice_t)((char *)device + 64), name, sizeof(name)), NVML_ERROR_INVALID_ARGUMENT);
	OK(nvmlDeviceGetUUID(device, uuid, sizeof(uuid)));
	OK(nvmlDeviceGetHandleByUUID(uuid, &same));
	CHECK(same == device && !strncmp(uuid, "GPU-", 4) && strlen(uuid) == 40);
	GIVES(nvmlDeviceGetHandleByUUID("GPU-00000000", &same), NVML_ERROR_NOT_FOUND);
	OK(nvmlDeviceGetPciInfo_v3(device, &pci));
	OK(nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &same));
	CHECK(same == device);
	OK(nvmlDeviceGetHandleByPciBusId_v2(pci.busIdLegacy, &same));
	CHECK(same == device);
	GIVES(nvmlDeviceGetHandleByPciBusId_v2("0000:7F:1F.0", &same), NVML_ERROR_NOT_FOUND);
	GIVES(nvmlDeviceGetHandleByPciBusId_v2("nonsense", &same), NVML_ERROR_INVALID_ARGUMENT);
	memset(pci.busId, 'x', sizeof(pci.busId));
	OK(nvmlDeviceGetPciInfo_v2(device, &pci));
	CHECK(pci.busId[0] == 'x'); /* not part of that version's structure */
	OK(nvmlDeviceGetCudaComputeCapability(device, &major, &minor));
	CHECK(major >= 5);
	OK(nvmlSystemGetDriverVersion(version, sizeof(version)));
	OK(nvmlSystemGetCudaDriverVersion_v2(&cuda));
	CHECK(*version && cuda >= 12000);
	GIVES(nvmlDeviceGetSerial(device, name, sizeof(name)), NVML_ERROR_NOT_SUPPORTED);
}

/* This process's memory as its list has it; -1: it is not there. */
static long long own_memory(void)
{
	nvmlProcessInfo_t infos[256];
	unsigned int count = 256;

	OK(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, infos));
	for (unsigned int i = 0; i < count; i++)
		if (infos[i].pid == (unsigned int)getpid())
			return (long long)infos[i].usedGpuMemory;
	return -1;
}

static unsigned long long used(void)
{
	nvmlMemory_v2_t second = {.version = NVML_VERSION(nvmlMemory_v2_t, 2u)};
	nvmlMemory_t first;

	OK(nvmlDeviceGetMemoryInfo(device, &first));
	OK(nvmlDeviceGetMemoryInfo_v2(device, &second));
	CHECK(first.total == first.used + first.free && second.total == first.total && second.used == first.used);
	second.version = 1;
	GIVES(nvmlDeviceGetMemoryInfo_v2(device, &second), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	return first.used;
}

static void memory(void)
{
	nvmlProcessInfo_v1_t old[2] = {{0}, {.pid = 77, .usedGpuMemory = 88}};
	unsigned int count = 0;
	CUdeviceptr p;
	CUcontext c;
	char name[64];

	/* Asking makes no context. */
	CHECK(own_memory() == -1 && used() == 0);
	OK(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, NULL));
	OK(cuInit(0));
	CHECK(own_memory() == -1);
	OK(cuDevicePrimaryCtxRetain(&c, 0));
	OK(cuCtxSetCurrent(c));
	CHECK(own_memory() >= 0);
	OK(cuMemAlloc_v2(&p, 64 * MIB));
	CHECK(own_memory() >= (long long)(64 * MIB) && used() == (unsigned long long)own_memory());
	count = 0;
	GIVES(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(count == 1);
	OK(nvmlDeviceGetComputeRunningProcesses(device, &count, old));
	CHECK(old[0].pid == (unsigned int)getpid() && old[0].usedGpuMemory >= 64 * MIB && old[1].pid == 77);
	OK(nvmlDeviceGetGraphicsRunningProcesses_v3(device, &count, NULL));
	CHECK(count == 0);
	OK(cuMemFree_v2(p));
	CHECK(own_memory() >= 0 && own_memory() < (long long)MIB);
	OK(nvmlSystemGetProcessName((unsigned int)getpid(), name, sizeof(name)));
	CHECK(strlen(name) > 0);
}

/* A child asks by itself; and where only NVML was used, it can use CUDA. */
static void child(bool with_cuda)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		alarm(600);
		used();
		if (with_cuda)
			OK(cuInit(0));
		OK(nvmlShutdown());
		_exit(0);
	}
	waitpid(pid, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	used();
}

static bool is_display(const char *path)
{
	char name[96], class[16] = "";
	FILE *f;

	snprintf(name, sizeof(name), "%s/class", path);
	f = fopen(name, "re");
	CHECK(f && fgets(class, sizeof(class), f));
	fclose(f);
	return !strncmp(class, "0x03", 4);
}

/* CUDA and NVML have one address, which is no other device's of this machine. */
static void addresses(void)
{
	unsigned int count;

	OK(nvmlDeviceGetCount_v2(&count));
	for (unsigned int i = 0; i < count; i++) {
		char id[32], path[64];
		int domain, bus, slot;
		nvmlPciInfo_t pci;
		CUdevice same;

		OK(nvmlDeviceGetHandleByIndex_v2(i, &device));
		OK(nvmlDeviceGetPciInfo_v3(device, &pci));
		OK(cuDeviceGetPCIBusId(id, sizeof(id), (CUdevice)i));
		CHECK(!strcasecmp(id, pci.busIdLegacy));
		OK(cuDeviceGetByPCIBusId(&same, pci.busIdLegacy));
		CHECK(same == (CUdevice)i);
		OK(cuDeviceGetAttribute(&domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, (CUdevice)i));
		OK(cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, (CUdevice)i));
		OK(cuDeviceGetAttribute(&slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, (CUdevice)i));
		CHECK((unsigned int)domain == pci.domain && (unsigned int)bus == pci.bus &&
		      (unsigned int)slot == pci.device);
		for (char *c = id; *c; c++)
			*c = (char)tolower(*c);
		/* A GPU of this machine has a folder there, with a class of display controllers. */
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", id);
		CHECK(access(path, F_OK) != 0 || is_display(path));
	}
}

enum { P2P_READ, P2P_WRITE, P2P_NVLINK, P2P_ATOMICS, P2P_PCI, P2P_CAPABILITIES };
enum { P2P_OK, P2P_NOT_SUPPORTED = 5 };

/* NVML has all devices in CUDA's order, and says what CUDA says. Each device reaches itself, as NCCL wants to know. */
static void peers(void)
{
	unsigned int count, status = 77;

	OK(cuInit(0));
	OK(nvmlDeviceGetCount_v2(&count));
	for (unsigned int i = 0; i < count; i++)
		for (unsigned int k = 0; k < count; k++) {
			int reaches = i == k, atomics = i == k;
			nvmlDevice_t from, to;

			OK(nvmlDeviceGetHandleByIndex_v2(i, &from));
			OK(nvmlDeviceGetHandleByIndex_v2(k, &to));
			if (i != k) {
				OK(cuDeviceCanAccessPeer(&reaches, (CUdevice)i, (CUdevice)k));
				OK(cuDeviceGetP2PAttribute(&atomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
							   (CUdevice)i, (CUdevice)k));
			}
			for (unsigned int c = P2P_READ; c < P2P_CAPABILITIES; c++) {
				OK(nvmlDeviceGetP2PStatus(from, to, c, &status));
				if (c == P2P_READ || c == P2P_WRITE)
					CHECK((status == P2P_OK) == (reaches != 0));
				if (c == P2P_ATOMICS)
					CHECK((status == P2P_OK) == (atomics != 0));
			}
		}
	GIVES(nvmlDeviceGetP2PStatus(device, device, P2P_CAPABILITIES, &status), NVML_ERROR_INVALID_ARGUMENT);
	GIVES(nvmlDeviceGetP2PStatus(device, device, P2P_READ, NULL), NVML_ERROR_INVALID_ARGUMENT);
	GIVES(nvmlDeviceGetP2PStatus(device, NULL, P2P_READ, &status), NVML_ERROR_INVALID_ARGUMENT);
	GIVES(nvmlDeviceGetP2PStatus(NULL, device, P2P_READ, &status), NVML_ERROR_INVALID_ARGUMENT);
}

int main(int argc, char **argv)
{
	life();
	identity();
	if (argc > 1)
		return 0;
	child(true);
	memory();
	child(false);
	addresses();
	peers();
	OK(nvmlShutdown());
	GIVES(nvmlDeviceGetMemoryInfo(device, &(nvmlMemory_t){0}), NVML_ERROR_UNINITIALIZED);
	puts("nvml: all as expected");
	return 0;
}
