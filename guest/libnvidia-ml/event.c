/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event sets: a guest is told of no events, so that none can be registered, and a wait lasts as long as it may.
 * nvidia-smi ends where no set can be made.
 */
#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include "nvml.h"

#define MOST_SETS 256

/* Handles are the addresses of these. */
static atomic_bool sets[MOST_SETS];

static bool is_set(nvmlEventSet_t set)
{
	uintptr_t offset = (uintptr_t)set - (uintptr_t)sets;

	return offset < sizeof(sets) && offset % sizeof(sets[0]) == 0 && sets[offset / sizeof(sets[0])];
}

NVML_EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	nvmlReturn_t result = nvml_require_init();

	if (result != NVML_SUCCESS)
		return result;
	if (!set)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (size_t i = 0; i < MOST_SETS; i++)
		if (!atomic_exchange(&sets[i], true)) {
			*set = (nvmlEventSet_t)&sets[i];
			return NVML_SUCCESS;
		}
	return NVML_ERROR_MEMORY;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	nvmlReturn_t result = nvml_require_init();

	if (result != NVML_SUCCESS)
		return result;
	if (!is_set(set))
		return NVML_ERROR_INVALID_ARGUMENT;
	atomic_store((atomic_bool *)set, false);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!types)
		return NVML_ERROR_INVALID_ARGUMENT;
	*types = 0;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!is_set(set))
		return NVML_ERROR_INVALID_ARGUMENT;
	return types ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, void *data, unsigned int timeout_ms)
{
	struct timespec left = {timeout_ms / 1000, (long)(timeout_ms % 1000) * 1000000};
	nvmlReturn_t result = nvml_require_init();

	if (result != NVML_SUCCESS)
		return result;
	if (!is_set(set) || !data)
		return NVML_ERROR_INVALID_ARGUMENT;
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
		;
	return NVML_ERROR_TIMEOUT;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, void *data, unsigned int timeout_ms)
{
	return nvmlEventSetWait_v2(set, data, timeout_ms);
}
