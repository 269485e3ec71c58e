/* SPDX-License-Identifier: Apache-2.0 */
/* The binary interface of NVIDIA's management library, as far as it is implemented here: values and layouts. */
#ifndef NVML_ABI_H
#define NVML_ABI_H

#include <stdint.h>

#define NVML_EXPORT __attribute__((visibility("default")))

typedef enum nvmlReturn {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_ALREADY_INITIALIZED = 5,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_INSUFFICIENT_POWER = 8,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_TIMEOUT = 10,
	NVML_ERROR_IRQ_ISSUE = 11,
	NVML_ERROR_LIBRARY_NOT_FOUND = 12,
	NVML_ERROR_FUNCTION_NOT_FOUND = 13,
	NVML_ERROR_CORRUPTED_INFOROM = 14,
	NVML_ERROR_GPU_IS_LOST = 15,
	NVML_ERROR_RESET_REQUIRED = 16,
	NVML_ERROR_OPERATING_SYSTEM = 17,
	NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
	NVML_ERROR_IN_USE = 19,
	NVML_ERROR_MEMORY = 20,
	NVML_ERROR_NO_DATA = 21,
	NVML_ERROR_VGPU_ECC_NOT_SUPPORTED = 22,
	NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
	NVML_ERROR_FREQ_NOT_SUPPORTED = 24,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_ERROR_DEPRECATED = 26,
	NVML_ERROR_NOT_READY = 27,
	NVML_ERROR_GPU_NOT_FOUND = 28,
	NVML_ERROR_INVALID_STATE = 29,
	NVML_ERROR_RESET_TYPE_NOT_SUPPORTED = 30,
	NVML_ERROR_UNKNOWN = 999,
} nvmlReturn_t;

typedef struct nvmlDevice_st *nvmlDevice_t;

enum nvml_clock { NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_CLOCK_VIDEO, NVML_CLOCK_COUNT };
enum nvml_clock_id {
	NVML_CLOCK_ID_CURRENT,
	NVML_CLOCK_ID_APP,
	NVML_CLOCK_ID_APP_DEFAULT,
	NVML_CLOCK_ID_BOOST,
	NVML_CLOCK_ID_COUNT
};

enum {
	NVML_BRAND_UNKNOWN = 0,
	NVML_TEMPERATURE_GPU = 0,
	NVML_TEMPERATURE_THRESHOLD_COUNT = 8,
	NVML_PCIE_UTIL_COUNT = 2
};
enum { NVML_MEMORY_ERROR_TYPE_COUNT = 2, NVML_ECC_COUNTER_TYPE_COUNT = 2, NVML_MEMORY_LOCATION_COUNT = 8 };

#define NVML_NVLINK_MAX_LINKS 36
#define NVML_NVLINK_CAP_COUNT 6

/* The distance of two devices. */
enum nvml_topology {
	NVML_TOPOLOGY_INTERNAL = 0, /* on one board */
	NVML_TOPOLOGY_SINGLE = 10,  /* below one PCIe switch */
	NVML_TOPOLOGY_MULTIPLE = 20,
	NVML_TOPOLOGY_HOSTBRIDGE = 30,
	NVML_TOPOLOGY_NODE = 40, /* in one NUMA node */
	NVML_TOPOLOGY_SYSTEM = 50,
};

enum { NVML_AFFINITY_SCOPE_NODE, NVML_AFFINITY_SCOPE_SOCKET };

#define NVML_FI_DEV_ECC_CURRENT 1
#define NVML_FI_DEV_ECC_PENDING 2
#define NVML_FI_MAX 308

enum nvml_value_type { NVML_VALUE_TYPE_UNSIGNED_INT = 1 };

/* Versions of structures carry their size. */
#define NVML_VERSION(type, number) ((unsigned int)(sizeof(type) | (number) << 24))

typedef struct nvmlMemory {
	unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct nvmlMemory_v2 {
	unsigned int version;
	unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct nvmlPciInfo {
	char busIdLegacy[16];
	unsigned int domain, bus, device;
	unsigned int pciDeviceId;    /* device in the upper half, vendor in the lower */
	unsigned int pciSubSystemId; /* not in the first version of the function */
	char busId[32];              /* since the third version */
} nvmlPciInfo_t;

typedef struct nvmlProcessInfo_v1 {
	unsigned int pid;
	unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct nvmlProcessInfo {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId, computeInstanceId; /* all bits set: none */
} nvmlProcessInfo_t;

typedef struct nvmlUUID {
	unsigned int version, type;
	union {
		char text[41];
		unsigned char bytes[16];
	} value;
} nvmlUUID_t;

enum { NVML_UUID_TYPE_ASCII = 1, NVML_UUID_TYPE_BINARY };

typedef struct nvmlUtilization {
	unsigned int gpu, memory; /* percent */
} nvmlUtilization_t;

typedef struct nvmlProcessUtilizationSample {
	unsigned int pid;
	unsigned long long timeStamp; /* us since 1970 */
	unsigned int smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct nvmlProcessUtilizationInfo_v1 {
	unsigned long long timeStamp;
	unsigned int pid, smUtil, memUtil, encUtil, decUtil, jpgUtil, ofaUtil;
} nvmlProcessUtilizationInfo_v1_t;

typedef struct nvmlProcessesUtilizationInfo {
	unsigned int version, processSamplesCount;
	unsigned long long lastSeenTimeStamp;
	nvmlProcessUtilizationInfo_v1_t *procUtilArray;
} nvmlProcessesUtilizationInfo_t;

typedef struct nvmlProcessDetail_v1 {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId, computeInstanceId;
	unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;

typedef struct nvmlProcessDetailList {
	unsigned int version, mode, numProcArrayEntries;
	nvmlProcessDetail_v1_t *procArray;
} nvmlProcessDetailList_t;

typedef struct nvmlFieldValue {
	unsigned int fieldId, scopeId;
	long long timestamp, latencyUsec;
	unsigned int valueType;
	nvmlReturn_t nvmlReturn;
	unsigned long long value; /* a union of numbers: the lowest bytes are the smaller ones' */
} nvmlFieldValue_t;

/* `state` 0: no fabric. Versions 2 and 3 have a version before these, and more behind them. */
typedef struct nvmlGpuFabricInfo {
	unsigned char clusterUuid[16];
	nvmlReturn_t status;
	unsigned int cliqueId;
	unsigned char state;
} nvmlGpuFabricInfo_t;

typedef struct nvmlGpuFabricInfo_v2 {
	unsigned int version;
	nvmlGpuFabricInfo_t first;
	unsigned int healthMask;
} nvmlGpuFabricInfo_v2_t;

typedef struct nvmlGpuFabricInfo_v3 {
	unsigned int version;
	nvmlGpuFabricInfo_t first;
	unsigned int healthMask;
	unsigned char healthSummary;
} nvmlGpuFabricInfo_v3_t;

/* Version 1 has the same size. */
typedef struct nvmlPlatformInfo {
	unsigned int version;
	unsigned char ibGuid[16], chassisSerialNumber[16], slotNumber, trayIndex, hostId, peerType, moduleId;
} nvmlPlatformInfo_t;

typedef struct nvmlConfComputeSystemState {
	unsigned int environment, ccFeature, devToolsMode;
} nvmlConfComputeSystemState_t;

typedef struct nvmlSystemConfComputeSettings {
	unsigned int version, environment, ccFeature, devToolsMode, multiGpuMode;
} nvmlSystemConfComputeSettings_t;

typedef struct nvmlConfComputeSystemCaps {
	unsigned int cpuCaps, gpusCaps;
} nvmlConfComputeSystemCaps_t;

typedef struct nvmlTemperature_v1 {
	unsigned int version, sensorType;
	int temperature; /* degrees Celsius */
} nvmlTemperature_v1_t;

typedef struct nvmlEventSet_st *nvmlEventSet_t;

_Static_assert(sizeof(nvmlUUID_t) == 52 && sizeof(nvmlProcessUtilizationSample_t) == 32 &&
		       sizeof(nvmlProcessUtilizationInfo_v1_t) == 40 && sizeof(nvmlProcessesUtilizationInfo_t) == 24 &&
		       sizeof(nvmlProcessDetail_v1_t) == 32 && sizeof(nvmlProcessDetailList_t) == 24 &&
		       sizeof(nvmlFieldValue_t) == 40,
	       "as programs were built with");
_Static_assert(sizeof(nvmlGpuFabricInfo_t) == 28 && sizeof(nvmlGpuFabricInfo_v2_t) == 36 &&
		       sizeof(nvmlGpuFabricInfo_v3_t) == 40 && sizeof(nvmlPlatformInfo_t) == 44 &&
		       sizeof(nvmlSystemConfComputeSettings_t) == 20 && sizeof(nvmlTemperature_v1_t) == 12,
	       "as programs were built with");
_Static_assert(sizeof(nvmlMemory_v2_t) == 40 && sizeof(nvmlPciInfo_t) == 68 && sizeof(nvmlProcessInfo_t) == 24,
	       "as programs were built with");

#endif
