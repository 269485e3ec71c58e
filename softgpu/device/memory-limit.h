/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that the control groups leave this process. */
#ifndef SOFTGPU_MEMORY_LIMIT_H
#define SOFTGPU_MEMORY_LIMIT_H

#include <stdint.h>

/*
 * Bytes: the lowest limit of the process's own memory group and of the groups above it that are mounted, of version 1
 * or 2. UINT64_MAX: there is none. `root` is the folder that has proc and all mount points, "" for the system's own.
 */
uint64_t softgpu_memory_limit(const char *root);

#endif
