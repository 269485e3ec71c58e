/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices run kernels, and which run anything, for other processes to look at. */
#ifndef VCUDA_CPU_AT_WORK_H
#define VCUDA_CPU_AT_WORK_H

#include <stdbool.h>

/* A thread begins to run a part of a kernel, or of a copy, and ends that. Calls do not overlap. */
void softgpu_at_work_begin(int device, bool kernel);
void softgpu_at_work_end(int device, bool kernel);

#endif
