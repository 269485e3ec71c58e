/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of each function of libnvidia-ml for right and wrong arguments, on the software GPU: before nvmlInit and
 * after nvmlShutdown; for no device, and for a handle that is none; for somewhere to write that is NULL.
 */
#include <string.h>

#include "parts.h"

enum {
	NONE = NVML_ERROR_NOT_SUPPORTED,
	SIZE = NVML_ERROR_INSUFFICIENT_SIZE,
	NEW = NVML_ERROR_ARGUMENT_VERSION_MISMATCH
};

static char text[256];
static U a, b, c, d;
static int i, j;
static ULL large;
static unsigned long set[16];
static nvmlPciInfo_t pci;
static nvmlMemory_t memory;
static nvmlMemory_v2_t memory_2 = {.version = NVML_VERSION(nvmlMemory_v2_t, 2u)};
static nvmlUtilization_t rates;
static nvmlFieldValue_t field = {.fieldId = NVML_FI_DEV_ECC_CURRENT};
static nvmlGpuFabricInfo_t fabric;
static nvmlGpuFabricInfo_v2_t fabric_2 = {.version = NVML_VERSION(nvmlGpuFabricInfo_v2_t, 2u)};
static nvmlGpuFabricInfo_v3_t fabric_3 = {.version = NVML_VERSION(nvmlGpuFabricInfo_v3_t, 3u)};
static nvmlPlatformInfo_t platform_1 = {.version = NVML_VERSION(nvmlPlatformInfo_t, 1u)};
static nvmlPlatformInfo_t platform_2 = {.version = NVML_VERSION(nvmlPlatformInfo_t, 2u)};
static nvmlTemperature_v1_t temperature = {.version = NVML_VERSION(nvmlTemperature_v1_t, 1u)};
static nvmlProcessDetailList_t details = {.version = NVML_VERSION(nvmlProcessDetailList_t, 1u)};
static nvmlProcessDetailList_t drawing = {.version = NVML_VERSION(nvmlProcessDetailList_t, 1u), .mode = 1};
static nvmlProcessesUtilizationInfo_t work = {.version = NVML_VERSION(nvmlProcessesUtilizationInfo_t, 1u)};
static nvmlEventSet_t events;

/* X(expected, function, arguments behind the device): a software GPU that has nothing to do. */
#define OF_DEVICE(X)                                                                                                   \
	X(0, nvmlDeviceGetIndex, &a)                                                                                   \
	X(0, nvmlDeviceGetMinorNumber, &a)                                                                             \
	X(0, nvmlDeviceGetName, text, sizeof(text))                                                                    \
	X(0, nvmlDeviceGetUUID, text, sizeof(text))                                                                    \
	X(0, nvmlDeviceGetPciInfo, &pci)                                                                               \
	X(0, nvmlDeviceGetPciInfo_v2, &pci)                                                                            \
	X(0, nvmlDeviceGetPciInfo_v3, &pci)                                                                            \
	X(0, nvmlDeviceGetBrand, &a)                                                                                   \
	X(NONE, nvmlDeviceGetBusType, &a)                                                                              \
	X(NONE, nvmlDeviceGetNumGpuCores, &a)                                                                          \
	X(0, nvmlDeviceGetArchitecture, &a)                                                                            \
	X(0, nvmlDeviceGetCudaComputeCapability, &i, &j)                                                               \
	X(0, nvmlDeviceGetMemoryInfo, &memory)                                                                         \
	X(0, nvmlDeviceGetMemoryInfo_v2, &memory_2)                                                                    \
	X(0, nvmlDeviceGetComputeMode, &a)                                                                             \
	X(0, nvmlDeviceGetPersistenceMode, &a)                                                                         \
	X(0, nvmlDeviceGetEccMode, &a, &b)                                                                             \
	X(0, nvmlDeviceGetMigMode, &a, &b)                                                                             \
	X(0, nvmlDeviceGetMaxMigDeviceCount, &a)                                                                       \
	X(0, nvmlDeviceIsMigDeviceHandle, &a)                                                                          \
	X(0, nvmlDeviceGetDisplayMode, &a)                                                                             \
	X(0, nvmlDeviceGetDisplayActive, &a)                                                                           \
	X(0, nvmlDeviceGetMultiGpuBoard, &a)                                                                           \
	X(0, nvmlDeviceGetTopologyNearestGpus, NVML_TOPOLOGY_SINGLE, &d, NULL)                                         \
	X(0, nvmlDeviceGetCpuAffinity, 16, set)                                                                        \
	X(0, nvmlDeviceGetCpuAffinityWithinScope, 16, set, NVML_AFFINITY_SCOPE_SOCKET)                                 \
	X(0, nvmlDeviceGetMemoryAffinity, 16, set, NVML_AFFINITY_SCOPE_NODE)                                           \
	X(0, nvmlDeviceGetComputeRunningProcesses, &d, NULL)                                                           \
	X(0, nvmlDeviceGetComputeRunningProcesses_v2, &d, NULL)                                                        \
	X(0, nvmlDeviceGetComputeRunningProcesses_v3, &d, NULL)                                                        \
	X(0, nvmlDeviceGetGraphicsRunningProcesses_v3, &d, NULL)                                                       \
	X(0, nvmlDeviceGetMPSComputeRunningProcesses_v3, &d, NULL)                                                     \
	X(0, nvmlDeviceGetRunningProcessDetailList, &details)                                                          \
	X(0, nvmlDeviceGetRunningProcessDetailList, &drawing)                                                          \
	X(0, nvmlDeviceGetUtilizationRates, &rates)                                                                    \
	X(NVML_ERROR_NOT_FOUND, nvmlDeviceGetProcessUtilization, NULL, &d, 0)                                          \
	X(NVML_ERROR_NOT_FOUND, nvmlDeviceGetProcessesUtilizationInfo, &work)                                          \
	X(0, nvmlDeviceGetFieldValues, 1, &field)                                                                      \
	X(0, nvmlDeviceGetGpuFabricInfo, &fabric)                                                                      \
	X(0, nvmlDeviceGetGpuFabricInfoV, &fabric_2)                                                                   \
	X(0, nvmlDeviceGetGpuFabricInfoV, &fabric_3)                                                                   \
	X(NONE, nvmlDeviceGetPlatformInfo, &platform_1)                                                                \
	X(NONE, nvmlDeviceGetPlatformInfo, &platform_2)                                                                \
	X(NONE, nvmlDeviceGetNvLinkState, 0, &a)                                                                       \
	X(NONE, nvmlDeviceGetNvLinkState, NVML_NVLINK_MAX_LINKS - 1, &a)                                               \
	X(NONE, nvmlDeviceGetNvLinkVersion, 0, &a)                                                                     \
	X(NONE, nvmlDeviceGetNvLinkCapability, 0, NVML_NVLINK_CAP_COUNT - 1, &a)                                       \
	X(NONE, nvmlDeviceGetNvLinkRemoteDeviceType, 0, &a)                                                            \
	X(NONE, nvmlDeviceGetNvLinkRemotePciInfo, 0, &pci)                                                             \
	X(NONE, nvmlDeviceGetNvLinkRemotePciInfo_v2, 0, &pci)                                                          \
	X(NONE, nvmlDeviceGetPowerUsage, &a)                                                                           \
	X(NONE, nvmlDeviceGetPowerManagementMode, &a)                                                                  \
	X(NONE, nvmlDeviceGetPowerManagementLimit, &a)                                                                 \
	X(NONE, nvmlDeviceGetPowerManagementDefaultLimit, &a)                                                          \
	X(NONE, nvmlDeviceGetEnforcedPowerLimit, &a)                                                                   \
	X(NONE, nvmlDeviceGetPowerManagementLimitConstraints, &a, &b)                                                  \
	X(NONE, nvmlDeviceGetTotalEnergyConsumption, &large)                                                           \
	X(NONE, nvmlDeviceGetPerformanceState, &a)                                                                     \
	X(NONE, nvmlDeviceGetTemperature, NVML_TEMPERATURE_GPU, &a)                                                    \
	X(NONE, nvmlDeviceGetTemperatureV, &temperature)                                                               \
	X(NONE, nvmlDeviceGetTemperatureThreshold, 0, &a)                                                              \
	X(NONE, nvmlDeviceGetFanSpeed, &a)                                                                             \
	X(NONE, nvmlDeviceGetFanSpeed_v2, 0, &a)                                                                       \
	X(NONE, nvmlDeviceGetNumFans, &a)                                                                              \
	X(NONE, nvmlDeviceGetClock, NVML_CLOCK_SM, NVML_CLOCK_ID_CURRENT, &a)                                          \
	X(NONE, nvmlDeviceGetClockInfo, NVML_CLOCK_SM, &a)                                                             \
	X(NONE, nvmlDeviceGetMaxClockInfo, NVML_CLOCK_VIDEO, &a)                                                       \
	X(NONE, nvmlDeviceGetApplicationsClock, NVML_CLOCK_SM, &a)                                                     \
	X(NONE, nvmlDeviceGetDefaultApplicationsClock, NVML_CLOCK_SM, &a)                                              \
	X(NONE, nvmlDeviceGetMaxCustomerBoostClock, NVML_CLOCK_SM, &a)                                                 \
	X(NONE, nvmlDeviceGetCurrentClocksThrottleReasons, &large)                                                     \
	X(NONE, nvmlDeviceGetSupportedClocksEventReasons, &large)                                                      \
	X(NONE, nvmlDeviceGetCurrPcieLinkGeneration, &a)                                                               \
	X(NONE, nvmlDeviceGetCurrPcieLinkWidth, &a)                                                                    \
	X(NONE, nvmlDeviceGetMaxPcieLinkGeneration, &a)                                                                \
	X(NONE, nvmlDeviceGetMaxPcieLinkWidth, &a)                                                                     \
	X(NONE, nvmlDeviceGetGpuMaxPcieLinkGeneration, &a)                                                             \
	X(NONE, nvmlDeviceGetPcieLinkMaxSpeed, &a)                                                                     \
	X(NONE, nvmlDeviceGetPcieSpeed, &a)                                                                            \
	X(NONE, nvmlDeviceGetPcieThroughput, 0, &a)                                                                    \
	X(NONE, nvmlDeviceGetPcieReplayCounter, &a)                                                                    \
	X(NONE, nvmlDeviceGetTotalEccErrors, 0, 0, &large)                                                             \
	X(NONE, nvmlDeviceGetMemoryErrorCounter, 0, 0, 0, &large)                                                      \
	X(NONE, nvmlDeviceGetRemappedRows, &a, &b, &c, &d)                                                             \
	X(0, nvmlDeviceGetSupportedEventTypes, &large)

/* X(function, arguments behind the device): all invalid. */
#define INVALID(X)                                                                                                     \
	X(nvmlDeviceGetIndex, NULL)                                                                                    \
	X(nvmlDeviceGetMinorNumber, NULL)                                                                              \
	X(nvmlDeviceGetName, NULL, 96)                                                                                 \
	X(nvmlDeviceGetUUID, NULL, 96)                                                                                 \
	X(nvmlDeviceGetPciInfo, NULL)                                                                                  \
	X(nvmlDeviceGetPciInfo_v2, NULL)                                                                               \
	X(nvmlDeviceGetPciInfo_v3, NULL)                                                                               \
	X(nvmlDeviceGetBrand, NULL)                                                                                    \
	X(nvmlDeviceGetArchitecture, NULL)                                                                             \
	X(nvmlDeviceGetCudaComputeCapability, NULL, &j)                                                                \
	X(nvmlDeviceGetCudaComputeCapability, &i, NULL)                                                                \
	X(nvmlDeviceGetMemoryInfo, NULL)                                                                               \
	X(nvmlDeviceGetMemoryInfo_v2, NULL)                                                                            \
	X(nvmlDeviceGetComputeMode, NULL)                                                                              \
	X(nvmlDeviceGetPersistenceMode, NULL)                                                                          \
	X(nvmlDeviceGetEccMode, NULL, &b)                                                                              \
	X(nvmlDeviceGetEccMode, &a, NULL)                                                                              \
	X(nvmlDeviceGetMigMode, NULL, &b)                                                                              \
	X(nvmlDeviceGetMigMode, &a, NULL)                                                                              \
	X(nvmlDeviceGetTopologyNearestGpus, 15, &d, NULL)                                                              \
	X(nvmlDeviceGetTopologyNearestGpus, 60, &d, NULL)                                                              \
	X(nvmlDeviceGetTopologyNearestGpus, NVML_TOPOLOGY_NODE, NULL, NULL)                                            \
	X(nvmlDeviceGetTopologyNearestGpus, NVML_TOPOLOGY_NODE, &one, NULL)                                            \
	X(nvmlDeviceGetCpuAffinity, 0, set)                                                                            \
	X(nvmlDeviceGetCpuAffinity, 16, NULL)                                                                          \
	X(nvmlDeviceGetCpuAffinityWithinScope, 16, set, 2)                                                             \
	X(nvmlDeviceGetMemoryAffinity, 0, set, 0)                                                                      \
	X(nvmlDeviceGetMemoryAffinity, 16, set, 2)                                                                     \
	X(nvmlDeviceGetComputeRunningProcesses_v3, NULL, NULL)                                                         \
	X(nvmlDeviceGetComputeRunningProcesses_v3, &one, NULL)                                                         \
	X(nvmlDeviceGetGraphicsRunningProcesses_v3, NULL, NULL)                                                        \
	X(nvmlDeviceGetRunningProcessDetailList, NULL)                                                                 \
	X(nvmlDeviceGetRunningProcessDetailList, &unknown_mode)                                                        \
	X(nvmlDeviceGetUtilizationRates, NULL)                                                                         \
	X(nvmlDeviceGetProcessUtilization, NULL, NULL, 0)                                                              \
	X(nvmlDeviceGetProcessesUtilizationInfo, NULL)                                                                 \
	X(nvmlDeviceGetFieldValues, 0, &field)                                                                         \
	X(nvmlDeviceGetFieldValues, -1, &field)                                                                        \
	X(nvmlDeviceGetFieldValues, 1, NULL)                                                                           \
	X(nvmlDeviceGetGpuFabricInfo, NULL)                                                                            \
	X(nvmlDeviceGetGpuFabricInfoV, NULL)                                                                           \
	X(nvmlDeviceGetPlatformInfo, NULL)                                                                             \
	X(nvmlDeviceGetNvLinkState, 0, NULL)                                                                           \
	X(nvmlDeviceGetNvLinkState, NVML_NVLINK_MAX_LINKS, &a)                                                         \
	X(nvmlDeviceGetNvLinkVersion, NVML_NVLINK_MAX_LINKS, &a)                                                       \
	X(nvmlDeviceGetNvLinkCapability, NVML_NVLINK_MAX_LINKS, 0, &a)                                                 \
	X(nvmlDeviceGetNvLinkCapability, 0, NVML_NVLINK_CAP_COUNT, &a)                                                 \
	X(nvmlDeviceGetNvLinkRemoteDeviceType, NVML_NVLINK_MAX_LINKS, &a)                                              \
	X(nvmlDeviceGetNvLinkRemotePciInfo, NVML_NVLINK_MAX_LINKS, &pci)                                               \
	X(nvmlDeviceGetNvLinkRemotePciInfo_v2, 0, NULL)                                                                \
	X(nvmlDeviceGetPowerUsage, NULL)                                                                               \
	X(nvmlDeviceGetPowerManagementLimitConstraints, NULL, &b)                                                      \
	X(nvmlDeviceGetPowerManagementLimitConstraints, &a, NULL)                                                      \
	X(nvmlDeviceGetTotalEnergyConsumption, NULL)                                                                   \
	X(nvmlDeviceGetPerformanceState, NULL)                                                                         \
	X(nvmlDeviceGetTemperature, NVML_TEMPERATURE_GPU, NULL)                                                        \
	X(nvmlDeviceGetTemperature, NVML_TEMPERATURE_GPU + 1, &a)                                                      \
	X(nvmlDeviceGetTemperatureV, NULL)                                                                             \
	X(nvmlDeviceGetTemperatureThreshold, NVML_TEMPERATURE_THRESHOLD_COUNT, &a)                                     \
	X(nvmlDeviceGetFanSpeed, NULL)                                                                                 \
	X(nvmlDeviceGetClock, NVML_CLOCK_COUNT, 0, &a)                                                                 \
	X(nvmlDeviceGetClock, 0, NVML_CLOCK_ID_COUNT, &a)                                                              \
	X(nvmlDeviceGetClockInfo, NVML_CLOCK_COUNT, &a)                                                                \
	X(nvmlDeviceGetMaxClockInfo, NVML_CLOCK_COUNT, &a)                                                             \
	X(nvmlDeviceGetMaxClockInfo, NVML_CLOCK_SM, NULL)                                                              \
	X(nvmlDeviceGetPcieThroughput, NVML_PCIE_UTIL_COUNT, &a)                                                       \
	X(nvmlDeviceGetTotalEccErrors, NVML_MEMORY_ERROR_TYPE_COUNT, 0, &large)                                        \
	X(nvmlDeviceGetTotalEccErrors, 0, NVML_ECC_COUNTER_TYPE_COUNT, &large)                                         \
	X(nvmlDeviceGetMemoryErrorCounter, 0, 0, NVML_MEMORY_LOCATION_COUNT, &large)                                   \
	X(nvmlDeviceGetRemappedRows, &a, &b, &c, NULL)                                                                 \
	X(nvmlDeviceGetSupportedEventTypes, NULL)

/* X(expected, function, arguments) */
#define OF_SYSTEM(X)                                                                                                   \
	X(0, nvmlSystemGetDriverVersion, text, sizeof(text))                                                           \
	X(0, nvmlSystemGetNVMLVersion, text, sizeof(text))                                                             \
	X(0, nvmlSystemGetCudaDriverVersion, &i)                                                                       \
	X(0, nvmlSystemGetConfComputeState, &compute_state)                                                            \
	X(0, nvmlSystemGetConfComputeCapabilities, &caps)                                                              \
	X(0, nvmlSystemGetConfComputeSettings, &settings)                                                              \
	X(0, nvmlSystemGetTopologyGpuSet, 0, &d, NULL)                                                                 \
	X(0, nvmlUnitGetCount, &a)                                                                                     \
	X(0, nvmlDeviceGetCount, &a)                                                                                   \
	X(0, nvmlDeviceGetHandleByIndex, 0, &handle)                                                                   \
	X(NVML_ERROR_NOT_FOUND, nvmlDeviceGetHandleBySerial, "0320221", &handle)                                       \
	X(NVML_ERROR_NOT_FOUND, nvmlDeviceGetHandleByUUID, "GPU-0", &handle)                                           \
	X(NVML_ERROR_NOT_FOUND, nvmlDeviceGetHandleByPciBusId_v2, "0000:7F:1F.0", &handle)                             \
	X(0, nvmlEventSetCreate, &events)

#define INVALID_OF_SYSTEM(X)                                                                                           \
	X(nvmlSystemGetDriverVersion, NULL, 80)                                                                        \
	X(nvmlSystemGetNVMLVersion, NULL, 80)                                                                          \
	X(nvmlSystemGetCudaDriverVersion, NULL)                                                                        \
	X(nvmlSystemGetConfComputeState, NULL)                                                                         \
	X(nvmlSystemGetConfComputeCapabilities, NULL)                                                                  \
	X(nvmlSystemGetConfComputeSettings, NULL)                                                                      \
	X(nvmlSystemGetTopologyGpuSet, 0, NULL, NULL)                                                                  \
	X(nvmlSystemGetTopologyGpuSet, 0, &one, NULL)                                                                  \
	X(nvmlSystemGetTopologyGpuSet, 1u << 31, &d, NULL)                                                             \
	X(nvmlUnitGetCount, NULL)                                                                                      \
	X(nvmlDeviceGetCount, NULL)                                                                                    \
	X(nvmlDeviceGetHandleByIndex, 0, NULL)                                                                         \
	X(nvmlDeviceGetHandleByIndex, 64, &handle)                                                                     \
	X(nvmlDeviceGetHandleBySerial, NULL, &handle)                                                                  \
	X(nvmlDeviceGetHandleByUUID, NULL, &handle)                                                                    \
	X(nvmlDeviceGetHandleByUUIDV, NULL, &handle)                                                                   \
	X(nvmlDeviceGetHandleByPciBusId_v2, NULL, &handle)                                                             \
	X(nvmlEventSetCreate, NULL)                                                                                    \
	X(nvmlEventSetFree, NULL)                                                                                      \
	X(nvmlEventSetWait_v2, NULL, text, 0)                                                                          \
	X(nvmlInternalGetExportTable, NULL, private_table)                                                             \
	X(nvmlInternalGetExportTable, &table, NULL)

static nvmlConfComputeSystemState_t compute_state;
static nvmlConfComputeSystemCaps_t caps;
static nvmlSystemConfComputeSettings_t settings = {.version = NVML_VERSION(nvmlSystemConfComputeSettings_t, 1u)};
static nvmlProcessDetailList_t unknown_mode = {.version = NVML_VERSION(nvmlProcessDetailList_t, 1u), .mode = 3};
static U one = 1;
static D handle;
static const void *table;

#define GIVES_UNINITIALIZED(expected, function, ...) GIVES(function(device, __VA_ARGS__), NVML_ERROR_UNINITIALIZED);
#define SYSTEM_UNINITIALIZED(expected, function, ...) GIVES(function(__VA_ARGS__), NVML_ERROR_UNINITIALIZED);
#define GIVES_NO_DEVICE(expected, function, ...) GIVES(function(NULL, __VA_ARGS__), NVML_ERROR_INVALID_ARGUMENT);
#define GIVES_BAD_DEVICE(expected, function, ...)                                                                      \
	GIVES(function((D)((char *)device + 1000), __VA_ARGS__), NVML_ERROR_INVALID_ARGUMENT);
#define GIVES_INVALID(function, ...) GIVES(function(device, __VA_ARGS__), NVML_ERROR_INVALID_ARGUMENT);
#define SYSTEM_INVALID(function, ...) GIVES(function(__VA_ARGS__), NVML_ERROR_INVALID_ARGUMENT);
#define GIVES_EXPECTED(expected, function, ...)                                                                        \
	d = 0;                                                                                                         \
	GIVES(function(device, __VA_ARGS__), expected);
#define SYSTEM_EXPECTED(expected, function, ...)                                                                       \
	d = 0;                                                                                                         \
	GIVES(function(__VA_ARGS__), expected);

static void without_library(D device)
{
	OF_DEVICE(GIVES_UNINITIALIZED)
	OF_SYSTEM(SYSTEM_UNINITIALIZED)
	OK(nvmlGetExcludedDeviceCount(&a));
	CHECK(a == 0);
	GIVES(nvmlGetExcludedDeviceCount(NULL), NVML_ERROR_INVALID_ARGUMENT);
	GIVES(nvmlDeviceGetSerial(device, text, sizeof(text)), NVML_ERROR_UNINITIALIZED);
}

/* A version's number in the wrong place, of another size, or none. */
static void versions(D device)
{
	nvmlUUID_t uuid = {.version = 1};
	nvmlSystemConfComputeSettings_t wrong = {.version = NVML_VERSION(nvmlSystemConfComputeSettings_t, 2u)};

	GIVES(nvmlDeviceGetMemoryInfo_v2(device, &(nvmlMemory_v2_t){.version = NVML_VERSION(nvmlMemory_v2_t, 1u)}),
	      NEW);
	GIVES(nvmlDeviceGetGpuFabricInfoV(device, &(nvmlGpuFabricInfo_v3_t){.version = 0}), NEW);
	GIVES(nvmlDeviceGetGpuFabricInfoV(
		      device, &(nvmlGpuFabricInfo_v3_t){.version = NVML_VERSION(nvmlGpuFabricInfo_v3_t, 2u)}),
	      NEW);
	GIVES(nvmlDeviceGetPlatformInfo(device, &(nvmlPlatformInfo_t){.version = NVML_VERSION(nvmlPlatformInfo_t, 3u)}),
	      NEW);
	GIVES(nvmlDeviceGetTemperatureV(device, &(nvmlTemperature_v1_t){.version = 1}), NEW);
	GIVES(nvmlDeviceGetRunningProcessDetailList(device, &(nvmlProcessDetailList_t){.version = 1}), NEW);
	GIVES(nvmlDeviceGetProcessesUtilizationInfo(device, &(nvmlProcessesUtilizationInfo_t){.version = 1}), NEW);
	GIVES(nvmlDeviceGetHandleByUUIDV(&uuid, &handle), NEW);
	uuid = (nvmlUUID_t){.version = NVML_VERSION(nvmlUUID_t, 1u), .type = 3};
	GIVES(nvmlDeviceGetHandleByUUIDV(&uuid, &handle), NVML_ERROR_INVALID_ARGUMENT);
	GIVES(nvmlSystemGetConfComputeSettings(&wrong), NEW);
}

/* The bytes that the functions write, and no more. */
static void values(D device)
{
	nvmlFieldValue_t several[4] = {{.fieldId = NVML_FI_DEV_ECC_PENDING, .value = 77},
				       {.fieldId = 91},
				       {.fieldId = 0},
				       {.fieldId = NVML_FI_MAX}};
	nvmlGpuFabricInfo_v3_t info = {.version = NVML_VERSION(nvmlGpuFabricInfo_v2_t, 2u), .healthSummary = 77};
	long (*const *words)(long, long);
	U width;

	memset(&info.first, 0xee, sizeof(info.first));
	OK(nvmlDeviceGetGpuFabricInfoV(device, &info));
	CHECK(info.first.state == 0 && info.first.clusterUuid[15] == 0 && info.healthSummary == 77);
	OK(nvmlDeviceGetFieldValues(device, 4, several));
	CHECK(several[0].nvmlReturn == NVML_SUCCESS && several[0].value == 0 &&
	      several[0].valueType == NVML_VALUE_TYPE_UNSIGNED_INT && several[0].timestamp > 0);
	CHECK(several[1].nvmlReturn == NVML_ERROR_NOT_SUPPORTED);
	CHECK(several[2].nvmlReturn == NVML_ERROR_INVALID_ARGUMENT);
	CHECK(several[3].nvmlReturn == NVML_ERROR_INVALID_ARGUMENT);
	memset(&compute_state, 0xee, sizeof(compute_state));
	OK(nvmlSystemGetConfComputeState(&compute_state));
	CHECK(!compute_state.environment && !compute_state.ccFeature && !compute_state.devToolsMode);
	OK(nvmlDeviceGetSupportedEventTypes(device, &large));
	CHECK(large == 0);
	GIVES(nvmlDeviceRegisterEvents(device, 8, events), NVML_ERROR_NOT_SUPPORTED);
	GIVES(nvmlEventSetWait_v2(events, text, 1), NVML_ERROR_TIMEOUT);
	OK(nvmlEventSetFree(events));
	GIVES(nvmlEventSetFree(events), NVML_ERROR_INVALID_ARGUMENT);
	GIVES(nvmlDeviceGetMemoryBusWidth(device, &width), NVML_ERROR_NOT_SUPPORTED);
	GIVES(nvmlDeviceGetSerial(device, text, sizeof(text)), NVML_ERROR_NOT_SUPPORTED);
	/* Unknown functions of the table refuse. */
	OK(nvmlInternalGetExportTable(&table, private_table));
	words = table;
	CHECK(words[26](0, 0) == NVML_ERROR_NOT_SUPPORTED && words[81](0, 0) == NVML_ERROR_NOT_SUPPORTED);
	GIVES(nvmlInternalGetExportTable(&table, (const unsigned char *)"another table..."), NVML_ERROR_NOT_SUPPORTED);
}

static void sizes(D device)
{
	char name[256];

	OK(nvmlDeviceGetName(device, name, sizeof(name)));
	memset(text, 'x', sizeof(text));
	GIVES(nvmlDeviceGetName(device, text, (U)strlen(name)), SIZE);
	CHECK(text[0] == 'x');
	OK(nvmlDeviceGetName(device, text, (U)strlen(name) + 1));
	GIVES(nvmlDeviceGetUUID(device, text, 40), SIZE);
	OK(nvmlDeviceGetUUID(device, text, 41));
	GIVES(nvmlSystemGetDriverVersion(text, 1), SIZE);
	GIVES(nvmlSystemGetNVMLVersion(text, 1), SIZE);
}

void arguments(void)
{
	D device = NULL;

	without_library(device);
	OK(nvmlInit_v2());
	OK(nvmlDeviceGetHandleByIndex_v2(0, &device));
	OF_DEVICE(GIVES_NO_DEVICE)
	OF_DEVICE(GIVES_BAD_DEVICE)
	INVALID(GIVES_INVALID)
	INVALID_OF_SYSTEM(SYSTEM_INVALID)
	OF_DEVICE(GIVES_EXPECTED)
	OF_SYSTEM(SYSTEM_EXPECTED)
	versions(device);
	values(device);
	sizes(device);
	OK(nvmlShutdown());
	without_library(device);
}
