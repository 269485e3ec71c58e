/* SPDX-License-Identifier: Apache-2.0 */
/* `vcuda smi`: the library's functions and the figures that can be asked for. */
#ifndef VCUDA_SMI_H
#define VCUDA_SMI_H

#include <stdbool.h>
#include <stdio.h>

#include "guest/libnvidia-ml/nvml-abi.h"

#define SMI_FUNCTIONS(X)                                                                                               \
	X(Init_v2)                                                                                                     \
	X(Shutdown)                                                                                                    \
	X(ErrorString)                                                                                                 \
	X(SystemGetDriverVersion)                                                                                      \
	X(SystemGetCudaDriverVersion)                                                                                  \
	X(SystemGetProcessName)                                                                                        \
	X(DeviceGetCount_v2)                                                                                           \
	X(DeviceGetHandleByIndex_v2)                                                                                   \
	X(DeviceGetName)                                                                                               \
	X(DeviceGetUUID)                                                                                               \
	X(DeviceGetPciInfo_v3)                                                                                         \
	X(DeviceGetMemoryInfo)                                                                                         \
	X(DeviceGetUtilizationRates)                                                                                   \
	X(DeviceGetTemperature)                                                                                        \
	X(DeviceGetPowerUsage)                                                                                         \
	X(DeviceGetMaxClockInfo)                                                                                       \
	X(DeviceGetComputeMode)                                                                                        \
	X(DeviceGetCudaComputeCapability)                                                                              \
	X(DeviceGetPersistenceMode)                                                                                    \
	X(DeviceGetEccMode)                                                                                            \
	X(DeviceGetMigMode)                                                                                            \
	X(DeviceGetComputeRunningProcesses_v3)

struct smi {
	nvmlReturn_t (*Init_v2)(void);
	nvmlReturn_t (*Shutdown)(void);
	const char *(*ErrorString)(nvmlReturn_t);
	nvmlReturn_t (*SystemGetDriverVersion)(char *, unsigned int);
	nvmlReturn_t (*SystemGetCudaDriverVersion)(int *);
	nvmlReturn_t (*SystemGetProcessName)(unsigned int, char *, unsigned int);
	nvmlReturn_t (*DeviceGetCount_v2)(unsigned int *);
	nvmlReturn_t (*DeviceGetHandleByIndex_v2)(unsigned int, nvmlDevice_t *);
	nvmlReturn_t (*DeviceGetName)(nvmlDevice_t, char *, unsigned int);
	nvmlReturn_t (*DeviceGetUUID)(nvmlDevice_t, char *, unsigned int);
	nvmlReturn_t (*DeviceGetPciInfo_v3)(nvmlDevice_t, nvmlPciInfo_t *);
	nvmlReturn_t (*DeviceGetMemoryInfo)(nvmlDevice_t, nvmlMemory_t *);
	nvmlReturn_t (*DeviceGetUtilizationRates)(nvmlDevice_t, unsigned int rates[2]); /* GPU, memory */
	nvmlReturn_t (*DeviceGetTemperature)(nvmlDevice_t, unsigned int, unsigned int *);
	nvmlReturn_t (*DeviceGetPowerUsage)(nvmlDevice_t, unsigned int *);
	nvmlReturn_t (*DeviceGetMaxClockInfo)(nvmlDevice_t, unsigned int, unsigned int *);
	nvmlReturn_t (*DeviceGetComputeMode)(nvmlDevice_t, unsigned int *);
	nvmlReturn_t (*DeviceGetCudaComputeCapability)(nvmlDevice_t, int *, int *);
	nvmlReturn_t (*DeviceGetPersistenceMode)(nvmlDevice_t, unsigned int *);
	nvmlReturn_t (*DeviceGetEccMode)(nvmlDevice_t, unsigned int *, unsigned int *);
	nvmlReturn_t (*DeviceGetMigMode)(nvmlDevice_t, unsigned int *, unsigned int *);
	nvmlReturn_t (*DeviceGetComputeRunningProcesses_v3)(nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *);
};

extern struct smi nvml;

struct cli_paths;

/* Fills `nvml` with the functions of the guest's library; a message says what is missing where it returns false. */
bool smi_load(const struct cli_paths *paths);

struct smi_process {
	nvmlProcessInfo_t info;
	char name[256];
};

/* The subject of a figure: a device, and a process where there is one. */
struct smi_subject {
	nvmlDevice_t device;
	unsigned int index;
	const struct smi_process *process; /* NULL: of the device */
};

struct smi_field {
	const char *name, *unit;
	bool (*get)(const struct smi_subject *s, char *text, size_t size); /* false: not known */
};

/* smi-field.c: NULL: there is no such field. */
const struct smi_field *smi_field_find(const char *name);
const struct smi_field *smi_app_field_find(const char *name);
void smi_fields_print(FILE *out);

/* The processes that compute on a device; the caller frees the list. */
unsigned int smi_processes(nvmlDevice_t device, struct smi_process **processes);

/* smi-table.c, smi-query.c: of device `only`, or all if it is negative. */
void smi_table_print(unsigned int devices, int only);
void smi_query_print(unsigned int devices, int only);

#endif
