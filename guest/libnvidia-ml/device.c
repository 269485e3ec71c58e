/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: all of the host's that this guest has, in its order, which is that of CUDA's ordinals without
 * CUDA_VISIBLE_DEVICES; NVML does not obey that variable.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "nvml.h"

/* Handles are the addresses of these. */
static char handles[NVML_DEVICES];

nvmlDevice_t nvml_handle(int index)
{
	return (nvmlDevice_t)&handles[index];
}

nvmlReturn_t nvml_require_device(nvmlDevice_t device, int *index)
{
	nvmlReturn_t result = nvml_require_init();
	uintptr_t offset = (uintptr_t)device - (uintptr_t)handles;

	if (result != NVML_SUCCESS)
		return result;
	if (offset >= (uintptr_t)nvml_client_host()->count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*index = (int)offset;
	return NVML_SUCCESS;
}

const vcuda_device_info *nvml_device_info(int index)
{
	return &nvml_client_host()->devices[index];
}

bool nvml_attribute(int index, CUdevice_attribute a, int *value)
{
	const vcuda_device_info *info = nvml_device_info(index);

	*value = info->attributes[a];
	return info->attribute_results[a] == CUDA_SUCCESS;
}

static nvmlReturn_t put_attribute(nvmlDevice_t device, CUdevice_attribute a, unsigned int *value)
{
	int index, v;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!value)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!nvml_attribute(index, a, &v))
		return NVML_ERROR_NOT_SUPPORTED;
	*value = (unsigned int)v;
	return NVML_SUCCESS;
}

/* A value that is the same for all devices of a guest. */
static nvmlReturn_t put_constant(nvmlDevice_t device, unsigned int constant, unsigned int *value)
{
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!value)
		return NVML_ERROR_INVALID_ARGUMENT;
	*value = constant;
	return NVML_SUCCESS;
}

/* ---- which ---- */

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	nvmlReturn_t result = nvml_require_init();

	if (result != NVML_SUCCESS)
		return result;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = (unsigned int)nvml_client_host()->count;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
	return nvmlDeviceGetCount_v2(count);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	nvmlReturn_t result = nvml_require_init();

	if (result != NVML_SUCCESS)
		return result;
	if (!device || index >= (unsigned int)nvml_client_host()->count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = nvml_handle((int)index);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByIndex_v2(index, device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	int i;
	nvmlReturn_t result = nvml_require_device(device, &i);

	return result == NVML_SUCCESS ? put_constant(device, (unsigned int)i, index) : result;
}

/* /dev/nvidia0 and so on: the guest has none, but programs take it for the number of the board. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
	return nvmlDeviceGetIndex(device, minor);
}

static void format_uuid(const CUuuid *uuid, char text[41])
{
	char *at = text + sprintf(text, "GPU-");

	for (int i = 0; i < 16; i++)
		at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      (unsigned char)uuid->bytes[i]);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	char text[41];
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	format_uuid(&nvml_device_info(index)->uuid, text);
	return nvml_put_text(uuid, length, text);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	nvmlReturn_t result = nvml_require_init();
	char text[41];

	if (result != NVML_SUCCESS)
		return result;
	if (!uuid || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < nvml_client_host()->count; i++) {
		format_uuid(&nvml_device_info(i)->uuid, text);
		if (!strcasecmp(text, uuid)) {
			*device = nvml_handle(i);
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
	nvmlReturn_t result = nvml_require_init();
	char text[sizeof(uuid->value.text) + 1];

	if (result != NVML_SUCCESS)
		return result;
	if (!uuid || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (uuid->version != NVML_VERSION(nvmlUUID_t, 1u))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (uuid->type == NVML_UUID_TYPE_BINARY)
		format_uuid((const CUuuid *)uuid->value.bytes, text);
	else if (uuid->type == NVML_UUID_TYPE_ASCII)
		snprintf(text, sizeof(text), "%.*s", (int)sizeof(uuid->value.text), uuid->value.text);
	else
		return NVML_ERROR_INVALID_ARGUMENT;
	return nvmlDeviceGetHandleByUUID(text, device);
}

/* Devices of a guest have no serial numbers. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
	nvmlReturn_t result = nvml_require_init();

	if (result != NVML_SUCCESS)
		return result;
	return serial && device ? NVML_ERROR_NOT_FOUND : NVML_ERROR_INVALID_ARGUMENT;
}

/* ---- what it is ---- */

NVML_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	return result == NVML_SUCCESS ? nvml_put_text(name, length, nvml_device_info(index)->name) : result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	nvmlReturn_t result =
		put_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, (unsigned int *)major);

	return result == NVML_SUCCESS
		       ? put_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, (unsigned int *)minor)
		       : result;
}

/* By compute capability; 2 is Kepler. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int *architecture)
{
	static const struct {
		int capability;
		unsigned int architecture;
	} known[] = {{100, 10}, {90, 9}, {89, 8}, {80, 7}, {75, 6}, {70, 5}, {60, 4}, {50, 3}, {30, 2}};
	int major, minor;
	nvmlReturn_t result = nvmlDeviceGetCudaComputeCapability(device, &major, &minor);

	if (result != NVML_SUCCESS)
		return result;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (major * 10 + minor >= known[i].capability)
			return put_constant(device, known[i].architecture, architecture);
	return put_constant(device, 0xffffffff, architecture);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned int *bits)
{
	nvmlReturn_t result = put_attribute(device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, bits);

	return result == NVML_SUCCESS && !*bits ? NVML_ERROR_NOT_SUPPORTED : result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned int type, unsigned int *mhz)
{
	CUdevice_attribute a =
		type == NVML_CLOCK_MEM ? CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE : CU_DEVICE_ATTRIBUTE_CLOCK_RATE;
	unsigned int khz = 0;
	nvmlReturn_t result = put_attribute(device, a, mhz ? &khz : NULL);

	if (result == NVML_SUCCESS && type >= NVML_CLOCK_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (result == NVML_SUCCESS && (type > NVML_CLOCK_MEM || khz < 1000))
		return NVML_ERROR_NOT_SUPPORTED;
	if (result == NVML_SUCCESS)
		*mhz = khz / 1000;
	return result;
}

/* ---- modes ---- */

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int *mode)
{
	return put_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, mode);
}

/* Only the host knows the mode that is to be after a reset. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
	const uint32_t arguments[VCUDA_FIGURE_ARGUMENTS] = {NVML_FI_DEV_ECC_PENDING};
	uint64_t values[VCUDA_FIGURE_VALUES];
	unsigned int enabled;
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!current || !pending)
		return NVML_ERROR_INVALID_ARGUMENT;
	result = put_attribute(device, CU_DEVICE_ATTRIBUTE_ECC_ENABLED, &enabled);
	if (result == NVML_SUCCESS)
		result = nvml_figure(index, VCUDA_FIGURE_FIELD, arguments, values);
	if (result != NVML_SUCCESS)
		return result;
	*current = enabled;
	*pending = (unsigned int)values[0];
	return NVML_SUCCESS;
}

/* A guest keeps no driver loaded. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, unsigned int *mode)
{
	return put_constant(device, 0, mode);
}

/* A GPU is split on the host only; a guest sees the part as a device. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
	nvmlReturn_t result = put_constant(device, 0, current);

	return result == NVML_SUCCESS ? put_constant(device, 0, pending) : result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
	return put_constant(device, 0, count);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *yes)
{
	return put_constant(device, 0, yes);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, unsigned int *mode)
{
	return put_constant(device, 0, mode);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, unsigned int *active)
{
	return put_constant(device, 0, active);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned int *yes)
{
	return put_attribute(device, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD, yes);
}
