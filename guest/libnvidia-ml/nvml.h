/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the library share. */
#ifndef NVML_INTERNAL_H
#define NVML_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "client.h"
#include "nvml-abi.h"

/* NVML_SUCCESS between nvmlInit and the nvmlShutdown that belongs to it. */
nvmlReturn_t nvml_require_init(void);

/* The same, and whether the handle is one of a device; then *index is its number. */
nvmlReturn_t nvml_require_device(nvmlDevice_t device, int *index);

/* NVML_ERROR_INSUFFICIENT_SIZE where it does not fit with its end. */
nvmlReturn_t nvml_put_text(char *to, unsigned int room, const char *text);

nvmlReturn_t nvml_error_of(int err);

/* Memory that the guest's processes have on a device. */
nvmlReturn_t nvml_used_memory(int index, unsigned long long *bytes);

#endif
