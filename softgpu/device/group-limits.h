/* SPDX-License-Identifier: Apache-2.0 */
/* The memory and processors that the control groups leave to this process. */
#ifndef SOFTGPU_GROUP_LIMITS_H
#define SOFTGPU_GROUP_LIMITS_H

#include <stdint.h>

/*
 * Bytes: the lowest limit of the process's own memory group and of the mounted groups above it, version 1 or 2.
 * UINT64_MAX: there is no limit. `root` is the folder that has proc and all mount points, "" for the system's own.
 */
uint64_t softgpu_memory_limit(const char *root);
/* The same of CPUs, by the quotas of time: a part of a CPU counts as one. */
uint64_t softgpu_cpu_limit(const char *root);

#endif
