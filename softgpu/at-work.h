/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that run kernels, and devices that run any work, for other processes to read. */
#ifndef VCUDA_CPU_AT_WORK_H
#define VCUDA_CPU_AT_WORK_H

#include <stdbool.h>

/* A thread begins to run a part of a kernel, or of a copy, and ends that. Calls do not overlap. */
void softgpu_at_work_begin(int device, bool kernel);
void softgpu_at_work_end(int device, bool kernel);

#endif
