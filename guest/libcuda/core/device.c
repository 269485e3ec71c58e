/* SPDX-License-Identifier: Apache-2.0 */
#include "core/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/node.h"
#include "core/request.h"
#include "protocol/guest-calls.h"
#include "common/log.h"

#define MAX_DEVICES 64

static struct device {
	CUdevice host;
	vcuda_device_info info;
} * devices;
static int count;

/*
 * Managed memory is pinned memory that both sides use at one address (managed.c): it is there where the device reads
 * such memory, and may be used by both at once where atomic operations reach it from both.
 */
static const struct {
	CUdevice_attribute attribute, from;
} derived[] = {
	{CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY},
	{CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED},
};

/* Attributes that promise what this library does not do yet, and what it says instead of the host's value. */
static const struct {
	CUdevice_attribute attribute;
	int value;
} masked[] = {
	{CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1}, /* mappings have the guest's addresses */
	{CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH, 0},
	{CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 0},
	{CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 0},
	{CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 0},
	{CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 0},
	{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 0},
	{CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 1},
	{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 0},
	{CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, 0},
	{CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH, 0},
	{CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED, 0},
};

/* ---- which devices ---- */

#define UUID_LENGTH 40

static void format_uuid(const CUuuid *uuid, char text[UUID_LENGTH + 1])
{
	char *at = text + sprintf(text, "GPU-");

	for (int i = 0; i < 16; i++)
		at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      (unsigned char)uuid->bytes[i]);
}

enum { UUID_PREFIX = 4 }; /* characters */

/* The driver takes the digits of a GPU behind "MIG-" too. */
static bool is_uuid(const char *word)
{
	return !strncmp(word, "GPU-", UUID_PREFIX) || !strncmp(word, "MIG-", UUID_PREFIX);
}

/*
 * The host device whose UUID begins with these digits, in either case; text behind a whole UUID does not count. -1:
 * none, or several.
 */
static int device_of_uuid(const struct device *all, int n, const char *word)
{
	size_t length = strnlen(word, UUID_LENGTH);
	char uuid[UUID_LENGTH + 1];
	int found = -1;

	for (int i = 0; i < n; i++) {
		format_uuid(&all[i].info.uuid, uuid);
		if (length == UUID_PREFIX || strncasecmp(uuid + UUID_PREFIX, word + UUID_PREFIX, length - UUID_PREFIX))
			continue;
		if (found >= 0)
			return -1;
		found = i;
	}
	return found;
}

/* The host device of a number, of which 32 bits count, without what follows it. -1: none. */
static int device_of_number(int n, const char *word)
{
	char *end;
	int number = (int)strtol(word, &end, 10);

	return end == word || number < 0 || number >= n ? -1 : number;
}

/*
 * CUDA_VISIBLE_DEVICES as the driver reads it: numbers or UUIDs, as the first word is, up to the first word that means
 * no device. Returns how many devices are chosen, or -1 if a device is named twice.
 */
static int choose(const struct device *all, int n, const char *wanted, struct device *chosen)
{
	char *copy = strdup(wanted), *rest = copy, *word;
	bool uuids = is_uuid(wanted);
	int k = 0;

	while (copy && (word = strsep(&rest, ","))) {
		int i;

		if (uuids)
			i = is_uuid(word) ? device_of_uuid(all, n, word) : -1;
		else
			i = device_of_number(n, word);
		if (i < 0)
			break;
		for (int j = 0; j < k; j++)
			if (chosen[j].host == all[i].host) {
				free(copy);
				return -1;
			}
		chosen[k++] = all[i];
	}
	free(copy);
	return k;
}

struct bus_address {
	unsigned int domain, bus, device;
};

/* All zeros where it cannot be read. */
static struct bus_address address_of(const struct device *d)
{
	struct bus_address a = {0};

	if (sscanf(d->info.pci_bus_id, "%x:%x:%x", &a.domain, &a.bus, &a.device) != 3)
		a = (struct bus_address){0};
	return a;
}

static int compare_addresses(const void *first, const void *second)
{
	struct bus_address a = address_of(first), b = address_of(second);

	if (a.domain != b.domain)
		return a.domain < b.domain ? -1 : 1;
	if (a.bus != b.bus)
		return a.bus < b.bus ? -1 : 1;
	if (a.device != b.device)
		return a.device < b.device ? -1 : 1;
	return ((const struct device *)first)->host - ((const struct device *)second)->host;
}

/* CUDA_DEVICE_ORDER. The host's order is FASTEST_FIRST, the other value. False: it is neither. */
static bool order(struct device *all, int n)
{
	const char *wanted = getenv("CUDA_DEVICE_ORDER");

	if (!wanted || !strcmp(wanted, "FASTEST_FIRST"))
		return true;
	if (strcmp(wanted, "PCI_BUS_ID") != 0) {
		vcuda_log("CUDA_DEVICE_ORDER=%s is neither FASTEST_FIRST nor PCI_BUS_ID", wanted);
		return false;
	}
	qsort(all, (size_t)n, sizeof(*all), compare_addresses);
	return true;
}

/* Host memory is memory of this process, on nodes of the machine that it runs on. */
static void present_host_memory(int32_t *attributes)
{
	int is_there = libcuda_host.features & VCUDA_FEATURE_HOST_MEMORY ? 1 : 0;
	int32_t *node = &attributes[CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID];

	attributes[CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = is_there;
	attributes[CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = is_there;
	/* These have pinned memory, which is there with every host. */
	attributes[CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED] = 1;
	attributes[CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED] = 1;
	*node = libcuda_node_near(*node);
}

/* Makes of what the host says what programs see. */
static void present(vcuda_device_info *info)
{
	present_host_memory(info->attributes);
	info->name[sizeof(info->name) - 1] = 0;
	info->pci_bus_id[sizeof(info->pci_bus_id) - 1] = 0;
	for (size_t i = 0; i < sizeof(derived) / sizeof(derived[0]); i++)
		info->attributes[derived[i].attribute] = info->attributes[derived[i].from];
	for (size_t i = 0; i < sizeof(masked) / sizeof(masked[0]); i++)
		info->attributes[masked[i].attribute] = masked[i].value;
	info->attributes[CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES] &=
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
}

CUresult libcuda_devices_load(int n)
{
	const char *wanted = getenv("CUDA_VISIBLE_DEVICES");
	struct device *all;
	CUresult result;

	if (n > MAX_DEVICES)
		n = MAX_DEVICES;
	if (n <= 0) {
		vcuda_log("the host has no GPU for this process; see the log of vcudad there");
		return CUDA_ERROR_NO_DEVICE;
	}
	all = calloc(2 * (size_t)n, sizeof(*all));
	if (!all)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (int i = 0; i < n; i++) {
		all[i].host = i;
		result = vcuda_call_vcudaDeviceInfo(i, &all[i].info);
		if (result != CUDA_SUCCESS) {
			free(all);
			return result;
		}
		present(&all[i].info);
	}
	if (!order(all, n)) {
		free(all);
		return CUDA_ERROR_INVALID_DEVICE;
	}
	devices = all;
	count = n;
	if (wanted) {
		devices = all + n;
		count = choose(all, n, wanted, devices);
	}
	if (count > 0)
		return CUDA_SUCCESS;
	if (count < 0) {
		count = 0;
		vcuda_log("CUDA_VISIBLE_DEVICES=%s names a device twice", wanted);
		return CUDA_ERROR_INVALID_DEVICE;
	}
	vcuda_log("CUDA_VISIBLE_DEVICES=%s leaves none of the host's %d devices", wanted, n);
	return CUDA_ERROR_NO_DEVICE;
}

int libcuda_device_count(void)
{
	return count;
}

CUresult libcuda_require_device(CUdevice dev)
{
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	return dev >= 0 && dev < count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUdevice libcuda_device_host(CUdevice dev)
{
	return devices[dev].host;
}

CUresult vcuda_resolve_device(CUdevice given, CUdevice *resolved)
{
	CUresult result = libcuda_require_device(given);

	if (result == CUDA_SUCCESS)
		*resolved = libcuda_device_host(given);
	return result;
}

const vcuda_device_info *libcuda_device_info_of(CUdevice dev)
{
	return &devices[dev].info;
}

static CUresult attribute_of(CUdevice dev, CUdevice_attribute attribute, int *value)
{
	const vcuda_device_info *info = &devices[dev].info;

	if (attribute < 1 || attribute >= VCUDA_DEVICE_ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	*value = info->attributes[attribute];
	return (CUresult)info->attribute_results[attribute];
}

int libcuda_device_attribute(CUdevice dev, CUdevice_attribute attribute)
{
	int value = 0;

	return attribute_of(dev, attribute, &value) == CUDA_SUCCESS ? value : 0;
}

/* ---- the API ---- */

VCUDA_EXPORT CUresult cuDeviceGetCount(int *n)
{
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	if (!n)
		return CUDA_ERROR_INVALID_VALUE;
	*n = count;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult result = libcuda_require_device(ordinal);

	if (result != CUDA_SUCCESS)
		return result;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	CUresult result = libcuda_require_device(dev);

	if (result != CUDA_SUCCESS)
		return result;
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, (size_t)len, "%s", devices[dev].info.name);
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	CUresult result = libcuda_require_device(dev);

	if (result != CUDA_SUCCESS)
		return result;
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	*uuid = devices[dev].info.uuid;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	return cuDeviceGetUuid_v2(uuid, dev);
}

VCUDA_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	CUresult result = libcuda_require_device(dev);

	if (result != CUDA_SUCCESS)
		return result;
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = devices[dev].info.total_memory;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	CUresult result = libcuda_require_device(dev);

	if (result != CUDA_SUCCESS)
		return result;
	return pi ? attribute_of(dev, attrib, pi) : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	CUresult result = libcuda_require_device(dev);

	if (result != CUDA_SUCCESS)
		return result;
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	*major = libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
	*minor = libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuDeviceGetProperties(CUdevprop *p, CUdevice dev)
{
	CUresult result = libcuda_require_device(dev);

	if (result != CUDA_SUCCESS)
		return result;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	*p = (CUdevprop){
		.maxThreadsPerBlock = libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
		.sharedMemPerBlock = libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
		.totalConstantMemory = libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
		.SIMDWidth = libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_WARP_SIZE),
		.memPitch = libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_MAX_PITCH),
		.regsPerBlock = libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
		.clockRate = libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
		.textureAlign = libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT),
	};
	for (int i = 0; i < 3; i++) {
		p->maxThreadsDim[i] = libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
		p->maxGridSize[i] = libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i);
	}
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuDeviceGetPCIBusId(char *text, int len, CUdevice dev)
{
	CUresult result = libcuda_require_device(dev);

	if (result != CUDA_SUCCESS)
		return result;
	if (!text || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(text, (size_t)len, "%s", devices[dev].info.pci_bus_id);
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *text)
{
	CUresult result = libcuda_require_init();
	unsigned int w[4], g[4];
	int n, have;

	if (result != CUDA_SUCCESS)
		return result;
	if (!dev || !text)
		return CUDA_ERROR_INVALID_VALUE;
	/* [domain:]bus:device[.function] */
	n = sscanf(text, "%x:%x:%x.%x", &w[0], &w[1], &w[2], &w[3]);
	if (n < 3) {
		w[0] = w[3] = 0;
		n = sscanf(text, "%x:%x.%x", &w[1], &w[2], &w[3]) + 1;
	}
	for (int i = 0; n >= 3 && i < count; i++) {
		have = sscanf(devices[i].info.pci_bus_id, "%x:%x:%x", &g[0], &g[1], &g[2]);
		if (have == 3 && w[0] == g[0] && w[1] == g[1] && w[2] == g[2]) {
			*dev = i;
			return CUDA_SUCCESS;
		}
	}
	return n >= 3 ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice dev)
{
	CUresult result = libcuda_require_device(dev);

	if (result != CUDA_SUCCESS)
		return result;
	if (!supported || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
		return CUDA_ERROR_INVALID_VALUE;
	*supported = 0;
	return CUDA_SUCCESS;
}

/* ---- asked of the host each time ---- */

/*
 * All of the operations' capabilities by number: on the host's memory, or with a peer on that device's. A driver of
 * before CUDA 13 cannot be asked, but the devices may be known to have none.
 */
static CUresult all_atomics(unsigned int all[CU_ATOMIC_OPERATION_MAX], CUdevice dev, const CUdevice *peer)
{
	CUatomicOperation names[CU_ATOMIC_OPERATION_MAX];
	CUresult result;
	int native = 0;

	for (unsigned int i = 0; i < CU_ATOMIC_OPERATION_MAX; i++) {
		names[i] = (CUatomicOperation)i;
		all[i] = 0;
	}
	if (peer)
		result = vcuda_call_cuDeviceGetP2PAtomicCapabilities(
			all, names, CU_ATOMIC_OPERATION_MAX, libcuda_device_host(dev), libcuda_device_host(*peer));
	else
		result = vcuda_call_cuDeviceGetHostAtomicCapabilities(all, names, CU_ATOMIC_OPERATION_MAX,
								      libcuda_device_host(dev));
	if (result != CUDA_ERROR_NOT_SUPPORTED)
		return result;
	if (!peer)
		native = libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED);
	else if (vcuda_call_cuDeviceGetP2PAttribute(&native, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
						    libcuda_device_host(dev),
						    libcuda_device_host(*peer)) != CUDA_SUCCESS)
		return result;
	return native ? result : CUDA_SUCCESS;
}

static CUresult atomics(unsigned int *capabilities, const CUatomicOperation *operations, unsigned int n, CUdevice dev,
			const CUdevice *peer)
{
	unsigned int all[CU_ATOMIC_OPERATION_MAX];
	CUresult result;

	if (!capabilities || !operations || !n)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < n; i++)
		if ((unsigned int)operations[i] >= CU_ATOMIC_OPERATION_MAX)
			return CUDA_ERROR_INVALID_VALUE;
	result = all_atomics(all, dev, peer);
	for (unsigned int i = 0; i < n && result == CUDA_SUCCESS; i++)
		capabilities[i] = all[operations[i]];
	return result;
}

VCUDA_EXPORT CUresult cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities, const CUatomicOperation *operations,
							unsigned int n, CUdevice dev)
{
	CUresult result = libcuda_require_device(dev);

	return result != CUDA_SUCCESS ? result : atomics(capabilities, operations, n, dev, NULL);
}

VCUDA_EXPORT CUresult cuDeviceGetP2PAtomicCapabilities(unsigned int *capabilities, const CUatomicOperation *operations,
						       unsigned int n, CUdevice src, CUdevice dst)
{
	CUresult result = libcuda_require_device(src);

	if (result == CUDA_SUCCESS)
		result = libcuda_require_device(dst);
	if (result == CUDA_SUCCESS && src == dst)
		result = CUDA_ERROR_INVALID_DEVICE;
	return result != CUDA_SUCCESS ? result : atomics(capabilities, operations, n, src, &dst);
}
