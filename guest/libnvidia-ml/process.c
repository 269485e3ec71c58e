/* SPDX-License-Identifier: Apache-2.0 */
/* Processes: those of this guest that compute. The host tells of no others. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "nvml.h"

enum { MODE_COMPUTE, MODE_GRAPHICS, MODE_MPS };

nvmlReturn_t nvml_used_memory(int index, unsigned long long *bytes)
{
	struct nvml_processes p;
	nvmlReturn_t result = nvml_error_of(nvml_client_processes(index, &p));

	*bytes = 0;
	for (uint32_t i = 0; result == NVML_SUCCESS && i < p.count; i++) {
		/* A sum of what is known would be a wrong one. */
		if (p.bytes[i] == UINT64_MAX)
			return NVML_ERROR_NOT_SUPPORTED;
		*bytes += p.bytes[i];
	}
	return result;
}

/* `infos` may be NULL where *count is 0, to ask for the number. */
static nvmlReturn_t list(nvmlDevice_t device, unsigned int *count, void *infos, size_t size)
{
	struct nvml_processes p;
	unsigned int room;
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!count || (*count && !infos))
		return NVML_ERROR_INVALID_ARGUMENT;
	result = nvml_error_of(nvml_client_processes(index, &p));
	if (result != NVML_SUCCESS)
		return result;
	room = *count;
	*count = p.count;
	if (room < p.count)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (uint32_t i = 0; i < p.count; i++) {
		const nvmlProcessInfo_t info = {p.pids[i], p.bytes[i], 0xffffffff, 0xffffffff};

		memcpy((char *)infos + i * size, &info, size);
	}
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *count, void *infos)
{
	return list(device, count, infos, sizeof(nvmlProcessInfo_v1_t));
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count, void *infos)
{
	return list(device, count, infos, sizeof(nvmlProcessInfo_t));
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, void *infos)
{
	return list(device, count, infos, sizeof(nvmlProcessInfo_t));
}

/* Processes that compute are the only ones; the other kinds have an empty list. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t *to)
{
	struct nvml_processes p = {0};
	unsigned int room;
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!to)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (to->version != NVML_VERSION(nvmlProcessDetailList_t, 1u))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (to->mode > MODE_MPS)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (to->mode == MODE_COMPUTE)
		result = nvml_error_of(nvml_client_processes(index, &p));
	if (result != NVML_SUCCESS)
		return result;
	room = to->procArray ? to->numProcArrayEntries : 0;
	to->numProcArrayEntries = p.count;
	if (room < p.count)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (uint32_t i = 0; i < p.count; i++)
		to->procArray[i] = (nvmlProcessDetail_v1_t){.pid = p.pids[i],
							    .usedGpuMemory = p.bytes[i],
							    .gpuInstanceId = 0xffffffff,
							    .computeInstanceId = 0xffffffff};
	return NVML_SUCCESS;
}

nvmlReturn_t nvml_no_processes(nvmlDevice_t device, unsigned int *count)
{
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = 0;
	return NVML_SUCCESS;
}

#define NONE(name)                                                                                                     \
	NVML_EXPORT nvmlReturn_t name(nvmlDevice_t device, unsigned int *count, void *infos)                           \
	{                                                                                                              \
		return nvml_no_processes(device, count);                                                               \
	}

NONE(nvmlDeviceGetGraphicsRunningProcesses)
NONE(nvmlDeviceGetGraphicsRunningProcesses_v2)
NONE(nvmlDeviceGetGraphicsRunningProcesses_v3)
NONE(nvmlDeviceGetMPSComputeRunningProcesses)
NONE(nvmlDeviceGetMPSComputeRunningProcesses_v2)
NONE(nvmlDeviceGetMPSComputeRunningProcesses_v3)

/* The guest's own /proc tells. Cut where it is too long, as the real library does. */
NVML_EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
	nvmlReturn_t result = nvml_require_init();
	char path[32], text[1024];
	ssize_t n;
	int fd;

	if (result != NVML_SUCCESS)
		return result;
	if (!name || !length)
		return NVML_ERROR_INVALID_ARGUMENT;
	snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NVML_ERROR_NOT_FOUND;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	snprintf(name, length, "%s", text);
	return NVML_SUCCESS;
}
