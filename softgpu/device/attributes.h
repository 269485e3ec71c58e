/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_CPU_ATTRIBUTES_H
#define VCUDA_CPU_ATTRIBUTES_H

#include "ops.h"

/* A device attribute, or CUDA_ERROR_INVALID_VALUE if there is none of that number. No lock needed. */
CUresult softgpu_attribute(CUdevice_attribute attribute, int *value);

#endif
