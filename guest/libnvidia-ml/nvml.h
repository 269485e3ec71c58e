/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common header of libnvidia-ml: the library's state, the host's figures, and results. Any thread may call any
 * function: client.c serialises the commands. Units are those of NVIDIA's interface (nvml-abi.h).
 */
#ifndef NVML_INTERNAL_H
#define NVML_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "client.h"
#include "nvml-abi.h"
#include "protocol/figures.h"

/* NVML_SUCCESS between nvmlInit and its nvmlShutdown. */
nvmlReturn_t nvml_require_init(void);

/* The same, and whether the handle is one of a device; then *index is its number. */
nvmlReturn_t nvml_require_device(nvmlDevice_t device, int *index);

/* The host's description of a device; constant while the library is in use. */
const vcuda_device_info *nvml_device_info(int index);

/* An attribute of CUDA's. False: the host does not know it. */
bool nvml_attribute(int index, CUdevice_attribute attribute, int *value);

nvmlDevice_t nvml_handle(int index);

/* A figure of a device (protocol/figures.h). */
nvmlReturn_t nvml_figure(int index, unsigned int figure, const uint32_t arguments[VCUDA_FIGURE_ARGUMENTS],
			 uint64_t values[VCUDA_FIGURE_VALUES]);

/* NVML_ERROR_INSUFFICIENT_SIZE where the text does not fit with its NUL. */
nvmlReturn_t nvml_put_text(char *to, unsigned int room, const char *text);

nvmlReturn_t nvml_error_of(int err);

/*
 * The result of a function that is not implemented. With VCUDA_VERBOSE a line names it, the first time, of which `said` is
 * the function's own note.
 */
int nvml_refuse(const char *name, atomic_flag *said);

/* Functions of the interface that others of it use. */
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t peer, unsigned int *level);
nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length);

/* A count of 0: no process of a guest draws, or uses MPS. */
nvmlReturn_t nvml_no_processes(nvmlDevice_t device, unsigned int *count);

/* Memory that the guest's processes have on a device. */
nvmlReturn_t nvml_used_memory(int index, unsigned long long *bytes);

#endif
