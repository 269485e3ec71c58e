/* SPDX-License-Identifier: Apache-2.0 */
/* Recent use of a device by the guest's processes. */
#include <stdlib.h>

#include "nvml.h"

/* For free(), where the result is NVML_SUCCESS. NVML_ERROR_NOT_FOUND: there are no samples. */
static nvmlReturn_t samples(int index, unsigned long long after, struct nvml_samples **to)
{
	nvmlReturn_t result;

	*to = malloc(sizeof(**to));
	if (!*to)
		return NVML_ERROR_MEMORY;
	result = nvml_error_of(nvml_client_samples(index, after, *to));
	if (result == NVML_SUCCESS)
		result = (nvmlReturn_t)(*to)->result;
	if (result == NVML_SUCCESS && !(*to)->count)
		result = NVML_ERROR_NOT_FOUND;
	if (result != NVML_SUCCESS)
		free(*to);
	return result;
}

/* No process of a guest encodes or decodes video. `to` NULL asks for the number of samples. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *to,
							 unsigned int *room, unsigned long long after)
{
	struct nvml_samples *s;
	unsigned int size;
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!room)
		return NVML_ERROR_INVALID_ARGUMENT;
	size = to ? *room : 0;
	*room = 0;
	result = samples(index, after, &s);
	if (result != NVML_SUCCESS)
		return result;
	*room = s->count;
	for (uint32_t i = 0; i < s->count && size >= s->count; i++)
		to[i] = (nvmlProcessUtilizationSample_t){
			.pid = s->pids[i], .timeStamp = s->times[i], .smUtil = s->sm[i], .memUtil = s->memory[i]};
	result = size < s->count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
	free(s);
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *to)
{
	struct nvml_samples *s;
	unsigned int size;
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!to)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (to->version != NVML_VERSION(nvmlProcessesUtilizationInfo_t, 1u))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	size = to->procUtilArray ? to->processSamplesCount : 0;
	to->processSamplesCount = 0;
	result = samples(index, to->lastSeenTimeStamp, &s);
	if (result != NVML_SUCCESS)
		return result;
	to->processSamplesCount = s->count;
	for (uint32_t i = 0; i < s->count && size >= s->count; i++)
		to->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){
			.pid = s->pids[i], .timeStamp = s->times[i], .smUtil = s->sm[i], .memUtil = s->memory[i]};
	result = size < s->count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
	free(s);
	return result;
}
