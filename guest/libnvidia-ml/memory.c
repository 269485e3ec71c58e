/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: the device's, and what this guest's processes have of it. */
#include "nvml.h"

static nvmlReturn_t memory(int index, unsigned long long *total, unsigned long long *used)
{
	nvmlReturn_t result = nvml_used_memory(index, used);

	*total = nvml_device_info(index)->total_memory;
	/* The software GPU gives each process that much. */
	if (*used > *total)
		*used = *total;
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *to)
{
	unsigned long long total, used;
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!to)
		return NVML_ERROR_INVALID_ARGUMENT;
	result = memory(index, &total, &used);
	if (result == NVML_SUCCESS)
		*to = (nvmlMemory_t){.total = total, .free = total - used, .used = used};
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *to)
{
	unsigned long long total, used;
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!to)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (to->version != NVML_VERSION(nvmlMemory_v2_t, 2u))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	result = memory(index, &total, &used);
	if (result == NVML_SUCCESS)
		*to = (nvmlMemory_v2_t){.version = to->version, .total = total, .free = total - used, .used = used};
	return result;
}
