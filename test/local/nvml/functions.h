/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of libnvidia-ml.so.1, and checks of their results. */
#ifndef TEST_LOCAL_NVML_FUNCTIONS_H
#define TEST_LOCAL_NVML_FUNCTIONS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "guest/libnvidia-ml/nvml-abi.h"
#include "test/check.h"

typedef nvmlDevice_t D;
typedef unsigned int U;
typedef unsigned long long ULL;
typedef nvmlReturn_t R;

R nvmlInit_v2(void);
R nvmlShutdown(void);
const char *nvmlErrorString(R result);
R nvmlSystemGetDriverVersion(char *version, U length);
R nvmlSystemGetNVMLVersion(char *version, U length);
R nvmlSystemGetCudaDriverVersion(int *version);
R nvmlSystemGetCudaDriverVersion_v2(int *version);
R nvmlSystemGetProcessName(U pid, char *name, U length);
R nvmlSystemGetConfComputeState(nvmlConfComputeSystemState_t *state);
R nvmlSystemGetConfComputeCapabilities(nvmlConfComputeSystemCaps_t *caps);
R nvmlSystemGetConfComputeSettings(nvmlSystemConfComputeSettings_t *settings);
R nvmlSystemGetTopologyGpuSet(U cpu, U *count, D *devices);
R nvmlUnitGetCount(U *count);
R nvmlGetExcludedDeviceCount(U *count);
R nvmlInternalGetExportTable(const void **table, const unsigned char *id);
R nvmlDeviceGetCount(U *count);
R nvmlDeviceGetCount_v2(U *count);
R nvmlDeviceGetHandleByIndex(U index, D *device);
R nvmlDeviceGetHandleByIndex_v2(U index, D *device);
R nvmlDeviceGetHandleByUUID(const char *uuid, D *device);
R nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, D *device);
R nvmlDeviceGetHandleBySerial(const char *serial, D *device);
R nvmlDeviceGetHandleByPciBusId(const char *id, D *device);
R nvmlDeviceGetHandleByPciBusId_v2(const char *id, D *device);
R nvmlDeviceGetIndex(D device, U *index);
R nvmlDeviceGetMinorNumber(D device, U *minor);
R nvmlDeviceGetName(D device, char *name, U length);
R nvmlDeviceGetUUID(D device, char *uuid, U length);
R nvmlDeviceGetSerial(D device, char *serial, U length);
R nvmlDeviceGetPciInfo(D device, void *pci);
R nvmlDeviceGetPciInfo_v2(D device, void *pci);
R nvmlDeviceGetPciInfo_v3(D device, nvmlPciInfo_t *pci);
R nvmlDeviceGetBrand(D device, U *brand);
R nvmlDeviceGetBusType(D device, U *type);
R nvmlDeviceGetNumGpuCores(D device, U *count);
R nvmlDeviceGetArchitecture(D device, U *architecture);
R nvmlDeviceGetCudaComputeCapability(D device, int *major, int *minor);
R nvmlDeviceGetMemoryInfo(D device, nvmlMemory_t *memory);
R nvmlDeviceGetMemoryInfo_v2(D device, nvmlMemory_v2_t *memory);
R nvmlDeviceGetMemoryBusWidth(D device, U *bits);
R nvmlDeviceGetComputeMode(D device, U *mode);
R nvmlDeviceGetPersistenceMode(D device, U *mode);
R nvmlDeviceGetEccMode(D device, U *current, U *pending);
R nvmlDeviceGetMigMode(D device, U *current, U *pending);
R nvmlDeviceGetMaxMigDeviceCount(D device, U *count);
R nvmlDeviceIsMigDeviceHandle(D device, U *yes);
R nvmlDeviceGetDisplayMode(D device, U *mode);
R nvmlDeviceGetDisplayActive(D device, U *active);
R nvmlDeviceGetMultiGpuBoard(D device, U *yes);
R nvmlDeviceOnSameBoard(D device, D peer, int *yes);
R nvmlDeviceGetP2PStatus(D from, D to, U capability, U *status);
R nvmlDeviceGetTopologyCommonAncestor(D device, D peer, U *level);
R nvmlDeviceGetTopologyNearestGpus(D device, U level, U *count, D *devices);
R nvmlDeviceGetCpuAffinity(D device, U words, unsigned long *set);
R nvmlDeviceGetCpuAffinityWithinScope(D device, U words, unsigned long *set, U scope);
R nvmlDeviceGetMemoryAffinity(D device, U words, unsigned long *set, U scope);
R nvmlDeviceSetCpuAffinity(D device);
R nvmlDeviceClearCpuAffinity(D device);
R nvmlDeviceGetComputeRunningProcesses(D device, U *count, void *infos);
R nvmlDeviceGetComputeRunningProcesses_v2(D device, U *count, void *infos);
R nvmlDeviceGetComputeRunningProcesses_v3(D device, U *count, void *infos);
R nvmlDeviceGetGraphicsRunningProcesses_v3(D device, U *count, void *infos);
R nvmlDeviceGetMPSComputeRunningProcesses_v3(D device, U *count, void *infos);
R nvmlDeviceGetRunningProcessDetailList(D device, nvmlProcessDetailList_t *list);
R nvmlDeviceGetUtilizationRates(D device, nvmlUtilization_t *rates);
R nvmlDeviceGetProcessUtilization(D device, nvmlProcessUtilizationSample_t *samples, U *count, ULL after);
R nvmlDeviceGetProcessesUtilizationInfo(D device, nvmlProcessesUtilizationInfo_t *info);
R nvmlDeviceGetFieldValues(D device, int count, nvmlFieldValue_t *values);
R nvmlDeviceGetGpuFabricInfo(D device, nvmlGpuFabricInfo_t *info);
R nvmlDeviceGetGpuFabricInfoV(D device, void *info);
R nvmlDeviceGetPlatformInfo(D device, nvmlPlatformInfo_t *info);
R nvmlDeviceGetNvLinkState(D device, U link, U *active);
R nvmlDeviceGetNvLinkVersion(D device, U link, U *version);
R nvmlDeviceGetNvLinkCapability(D device, U link, U capability, U *value);
R nvmlDeviceGetNvLinkRemoteDeviceType(D device, U link, U *type);
R nvmlDeviceGetNvLinkRemotePciInfo(D device, U link, void *pci);
R nvmlDeviceGetNvLinkRemotePciInfo_v2(D device, U link, nvmlPciInfo_t *pci);
R nvmlDeviceGetPowerUsage(D device, U *milliwatts);
R nvmlDeviceGetPowerManagementMode(D device, U *mode);
R nvmlDeviceGetPowerManagementLimit(D device, U *limit);
R nvmlDeviceGetPowerManagementDefaultLimit(D device, U *limit);
R nvmlDeviceGetEnforcedPowerLimit(D device, U *limit);
R nvmlDeviceGetPowerManagementLimitConstraints(D device, U *least, U *most);
R nvmlDeviceGetTotalEnergyConsumption(D device, ULL *millijoules);
R nvmlDeviceGetPerformanceState(D device, U *state);
R nvmlDeviceGetTemperature(D device, U sensor, U *degrees);
R nvmlDeviceGetTemperatureV(D device, nvmlTemperature_v1_t *temperature);
R nvmlDeviceGetTemperatureThreshold(D device, U type, U *degrees);
R nvmlDeviceGetFanSpeed(D device, U *percent);
R nvmlDeviceGetFanSpeed_v2(D device, U fan, U *percent);
R nvmlDeviceGetNumFans(D device, U *count);
R nvmlDeviceGetClock(D device, U type, U id, U *mhz);
R nvmlDeviceGetClockInfo(D device, U type, U *mhz);
R nvmlDeviceGetMaxClockInfo(D device, U type, U *mhz);
R nvmlDeviceGetApplicationsClock(D device, U type, U *mhz);
R nvmlDeviceGetDefaultApplicationsClock(D device, U type, U *mhz);
R nvmlDeviceGetMaxCustomerBoostClock(D device, U type, U *mhz);
R nvmlDeviceGetCurrentClocksThrottleReasons(D device, ULL *reasons);
R nvmlDeviceGetSupportedClocksEventReasons(D device, ULL *reasons);
R nvmlDeviceGetCurrPcieLinkGeneration(D device, U *generation);
R nvmlDeviceGetCurrPcieLinkWidth(D device, U *width);
R nvmlDeviceGetMaxPcieLinkGeneration(D device, U *generation);
R nvmlDeviceGetMaxPcieLinkWidth(D device, U *width);
R nvmlDeviceGetGpuMaxPcieLinkGeneration(D device, U *generation);
R nvmlDeviceGetPcieLinkMaxSpeed(D device, U *speed);
R nvmlDeviceGetPcieSpeed(D device, U *mbps);
R nvmlDeviceGetPcieThroughput(D device, U counter, U *kib);
R nvmlDeviceGetPcieReplayCounter(D device, U *count);
R nvmlDeviceGetTotalEccErrors(D device, U type, U counter, ULL *count);
R nvmlDeviceGetMemoryErrorCounter(D device, U type, U counter, U location, ULL *count);
R nvmlDeviceGetRemappedRows(D device, U *corrected, U *uncorrected, U *pending, U *failed);
R nvmlDeviceGetSupportedEventTypes(D device, ULL *types);
R nvmlDeviceRegisterEvents(D device, ULL types, nvmlEventSet_t set);
R nvmlEventSetCreate(nvmlEventSet_t *set);
R nvmlEventSetFree(nvmlEventSet_t set);
R nvmlEventSetWait_v2(nvmlEventSet_t set, void *data, U timeout_ms);

#endif
