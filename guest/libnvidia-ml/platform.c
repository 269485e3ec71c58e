/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine beyond its devices: a guest's devices are in no fabric, the guest knows nothing of a chassis, and
 * its memory is not hidden from the host.
 */
#include <string.h>

#include "nvml.h"

/* A device of the guest, and somewhere to write. */
static nvmlReturn_t require(nvmlDevice_t device, const void *to)
{
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	return result == NVML_SUCCESS && !to ? NVML_ERROR_INVALID_ARGUMENT : result;
}

/* ---- fabric ---- */

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *to)
{
	nvmlReturn_t result = require(device, to);

	if (result == NVML_SUCCESS)
		memset(to, 0, sizeof(*to));
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, void *to)
{
	nvmlReturn_t result = require(device, to);
	unsigned int version;
	size_t bytes;

	if (result != NVML_SUCCESS)
		return result;
	memcpy(&version, to, sizeof(version));
	bytes = version == NVML_VERSION(nvmlGpuFabricInfo_v2_t, 2u)   ? sizeof(nvmlGpuFabricInfo_v2_t)
		: version == NVML_VERSION(nvmlGpuFabricInfo_v3_t, 3u) ? sizeof(nvmlGpuFabricInfo_v3_t)
								      : 0;
	if (!bytes)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	memset((char *)to + sizeof(version), 0, bytes - sizeof(version));
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t device, nvmlPlatformInfo_t *to)
{
	nvmlReturn_t result = require(device, to);

	if (result != NVML_SUCCESS)
		return result;
	return to->version == NVML_VERSION(nvmlPlatformInfo_t, 1u) ||
			       to->version == NVML_VERSION(nvmlPlatformInfo_t, 2u)
		       ? NVML_ERROR_NOT_SUPPORTED
		       : NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

/* ---- confidential computing ---- */

static nvmlReturn_t require_system(const void *to)
{
	nvmlReturn_t result = nvml_require_init();

	return result == NVML_SUCCESS && !to ? NVML_ERROR_INVALID_ARGUMENT : result;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetConfComputeState(nvmlConfComputeSystemState_t *to)
{
	nvmlReturn_t result = require_system(to);

	if (result == NVML_SUCCESS)
		*to = (nvmlConfComputeSystemState_t){0};
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetConfComputeCapabilities(nvmlConfComputeSystemCaps_t *to)
{
	nvmlReturn_t result = require_system(to);

	if (result == NVML_SUCCESS)
		*to = (nvmlConfComputeSystemCaps_t){0};
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetConfComputeSettings(nvmlSystemConfComputeSettings_t *to)
{
	nvmlReturn_t result = require_system(to);

	if (result != NVML_SUCCESS)
		return result;
	if (to->version != NVML_VERSION(nvmlSystemConfComputeSettings_t, 1u))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	*to = (nvmlSystemConfComputeSettings_t){.version = to->version};
	return NVML_SUCCESS;
}

/* ---- boxes of S-class, and GPUs that the driver leaves out: a guest has none ---- */

static nvmlReturn_t none(unsigned int *count)
{
	nvmlReturn_t result = require_system(count);

	if (result == NVML_SUCCESS)
		*count = 0;
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlUnitGetCount(unsigned int *count)
{
	return none(count);
}

/* Both may be called before nvmlInit. */
NVML_EXPORT nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int *count)
{
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = 0;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlGetBlacklistDeviceCount(unsigned int *count)
{
	return nvmlGetExcludedDeviceCount(count);
}
