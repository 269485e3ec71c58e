/* SPDX-License-Identifier: Apache-2.0 */
/* PCI addresses: the ones that CUDA reports. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvml.h"

struct address {
	unsigned int domain, bus, device, function;
};

/* A number in hexadecimal digits, at most so large, at the beginning of *text, which moves behind it. */
static bool take_number(const char **text, unsigned long most, unsigned int *number)
{
	char *end;
	unsigned long value;

	if (!isxdigit((unsigned char)**text))
		return false;
	value = strtoul(*text, &end, 16);
	*text = end;
	*number = (unsigned int)value;
	return value <= most;
}

/* "domain:bus:device.function"; the domain and the function may be left out. */
static bool parse_address(const char *text, struct address *a)
{
	unsigned int parts[3];
	int count = 0;

	*a = (struct address){0};
	for (bool more = true; more; more = count < 3 && *text == ':' && text++) {
		if (!take_number(&text, count ? 0xff : 0xffffffff, &parts[count]))
			return false;
		count++;
	}
	if (count < 2 || (*text == '.' && (text++, !take_number(&text, 7, &a->function))))
		return false;
	a->domain = count == 3 ? parts[0] : 0;
	a->bus = parts[count - 2];
	a->device = parts[count - 1];
	return !*text && a->bus <= 0xff;
}

static bool address_of(int index, struct address *a)
{
	return parse_address(nvml_device_info(index)->pci_bus_id, a);
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
		if (address_of(i, &a) && !memcmp(&a, &wanted, sizeof(a))) {
			*device = nvml_handle(i);
			return NVML_SUCCESS;
		}
	return NVML_ERROR_NOT_FOUND;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *id, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByPciBusId_v2(id, device);
}

static void format(const struct address *a, nvmlPciInfo_t *pci)
{
	pci->domain = a->domain;
	pci->bus = a->bus;
	pci->device = a->device;
	snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0", a->domain & 0xffff, a->bus & 0xff,
		 a->device & 0xff);
	snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", a->domain, a->bus & 0xff, a->device & 0xff);
}

static bool fill(int index, nvmlPciInfo_t *pci)
{
	struct address a;
	int id;

	if (!address_of(index, &a))
		return false;
	format(&a, pci);
	if (nvml_attribute(index, CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID, &id))
		pci->pciDeviceId = (unsigned int)id;
	if (nvml_attribute(index, CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID, &id))
		pci->pciSubSystemId = (unsigned int)id;
	return true;
}

static nvmlReturn_t pci_info(nvmlDevice_t device, void *to, size_t bytes)
{
	nvmlPciInfo_t pci = {0};
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!to)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!fill(index, &pci))
		return NVML_ERROR_NOT_SUPPORTED;
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

/* ---- the other ends of links ---- */

/* A switch has an address that no device has: NCCL takes it for a switch that the VM does not show. */
static nvmlReturn_t remote_info(nvmlDevice_t device, unsigned int link, void *to, size_t bytes)
{
	static const struct address hidden = {0xffffffff, 0xff, 0xff, 0};
	const uint32_t arguments[VCUDA_FIGURE_ARGUMENTS] = {link};
	uint64_t values[VCUDA_FIGURE_VALUES];
	nvmlPciInfo_t pci = {0};
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!to || link >= NVML_NVLINK_MAX_LINKS)
		return NVML_ERROR_INVALID_ARGUMENT;
	result = nvml_figure(index, VCUDA_FIGURE_LINK_REMOTE, arguments, values);
	if (result != NVML_SUCCESS)
		return result;
	if (values[0] == VCUDA_FIGURE_FOREIGN)
		format(&hidden, &pci);
	else if (values[0] >= (uint64_t)nvml_client_host()->count || !fill((int)values[0], &pci))
		return NVML_ERROR_NOT_SUPPORTED;
	memcpy(to, &pci, bytes);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci)
{
	return remote_info(device, link, pci, sizeof(*pci));
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link, void *pci)
{
	return remote_info(device, link, pci, offsetof(nvmlPciInfo_t, busId));
}
