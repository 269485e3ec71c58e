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

static const vcuda_device_info *info_of(int index)
{
	return &nvml_client_host()->devices[index];
}

/* False: the host does not know it. */
static bool attribute(int index, CUdevice_attribute a, int *value)
{
	const vcuda_device_info *info = info_of(index);

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
	if (!attribute(index, a, &v))
		return NVML_ERROR_NOT_SUPPORTED;
	*value = (unsigned int)v;
	return NVML_SUCCESS;
}

/* What every device of a guest has the same. */
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
	*device = (nvmlDevice_t)&handles[index];
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
	format_uuid(&info_of(index)->uuid, text);
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
		format_uuid(&info_of(i)->uuid, text);
		if (!strcasecmp(text, uuid))
			return nvmlDeviceGetHandleByIndex_v2((unsigned int)i, device);
	}
	return NVML_ERROR_NOT_FOUND;
}

/* ---- PCI ---- */

struct address {
	unsigned int domain, bus, device;
};

/* "domain:bus:device.function"; the domain and the function may be left out. */
static bool parse_address(const char *text, struct address *a)
{
	unsigned int function = 0;

	*a = (struct address){0};
	return sscanf(text, "%x:%x:%x.%x", &a->domain, &a->bus, &a->device, &function) >= 3 ||
	       (a->domain = 0, sscanf(text, "%x:%x.%x", &a->bus, &a->device, &function) >= 2);
}

static bool address_of(int index, struct address *a)
{
	return parse_address(info_of(index)->pci_bus_id, a);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device)
{
	nvmlReturn_t result = nvml_require_init();
	struct address wanted, a;

	if (result != NVML_SUCCESS)
		return result;
	if (!id || !device || !parse_address(id, &wanted))
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < nvml_client_host()->count; i++)
		if (address_of(i, &a) && !memcmp(&a, &wanted, sizeof(a)))
			return nvmlDeviceGetHandleByIndex_v2((unsigned int)i, device);
	return NVML_ERROR_NOT_FOUND;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *id, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByPciBusId_v2(id, device);
}

static nvmlReturn_t pci_info(nvmlDevice_t device, void *to, size_t bytes)
{
	nvmlPciInfo_t pci = {0};
	struct address a;
	int index, id;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!to)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!address_of(index, &a))
		return NVML_ERROR_NOT_SUPPORTED;
	pci.domain = a.domain;
	pci.bus = a.bus;
	pci.device = a.device;
	if (attribute(index, CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID, &id))
		pci.pciDeviceId = (unsigned int)id;
	if (attribute(index, CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID, &id))
		pci.pciSubSystemId = (unsigned int)id;
	snprintf(pci.busIdLegacy, sizeof(pci.busIdLegacy), "%04X:%02X:%02X.0", a.domain & 0xffff, a.bus & 0xff,
		 a.device & 0xff);
	snprintf(pci.busId, sizeof(pci.busId), "%08X:%02X:%02X.0", a.domain, a.bus & 0xff, a.device & 0xff);
	memcpy(to, &pci, bytes);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	return pci_info(device, pci, sizeof(*pci));
}

/* The fields behind pciSubSystemId are reserved. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, void *pci)
{
	return pci_info(device, pci, offsetof(nvmlPciInfo_t, busId));
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, void *pci)
{
	return pci_info(device, pci, offsetof(nvmlPciInfo_t, pciSubSystemId));
}

/* ---- what it is ---- */

NVML_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	return result == NVML_SUCCESS ? nvml_put_text(name, length, info_of(index)->name) : result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, unsigned int *brand)
{
	return put_constant(device, 0, brand); /* unknown */
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
	nvmlReturn_t result = put_attribute(device, a, mhz);

	if (result != NVML_SUCCESS)
		return result;
	*mhz /= 1000;
	return type > NVML_CLOCK_MEM || !*mhz ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

/* ---- modes ---- */

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int *mode)
{
	return put_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, mode);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
	nvmlReturn_t result = put_attribute(device, CU_DEVICE_ATTRIBUTE_ECC_ENABLED, current);

	return result == NVML_SUCCESS ? put_attribute(device, CU_DEVICE_ATTRIBUTE_ECC_ENABLED, pending) : result;
}

/* A guest keeps no driver loaded. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, unsigned int *mode)
{
	return put_constant(device, 0, mode);
}

/* What is split is split on the host; a guest sees the part as a device. */
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

/* ---- memory: the device's, and what this guest's processes have of it ---- */

static nvmlReturn_t memory(nvmlDevice_t device, unsigned long long *total, unsigned long long *used)
{
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	*total = info_of(index)->total_memory;
	result = nvml_used_memory(index, used);
	/* The software GPU gives each process that much. */
	if (*used > *total)
		*used = *total;
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *to)
{
	unsigned long long total, used = 0;
	nvmlReturn_t result = to ? memory(device, &total, &used) : NVML_ERROR_INVALID_ARGUMENT;

	if (result == NVML_SUCCESS)
		*to = (nvmlMemory_t){.total = total, .free = total - used, .used = used};
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *to)
{
	unsigned long long total, used = 0;
	nvmlReturn_t result;

	if (!to)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (to->version != NVML_VERSION(nvmlMemory_v2_t, 2u))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	result = memory(device, &total, &used);
	if (result == NVML_SUCCESS)
		*to = (nvmlMemory_v2_t){.version = to->version, .total = total, .free = total - used, .used = used};
	return result;
}
