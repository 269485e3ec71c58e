/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder in which compiled kernels, and facts about modules, outlive the process; and files of such entries. Any
 * thread may call these functions: the first call reads the environment.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_CACHE_H
#define VCUDA_BACKEND_CPU_PTX_CACHE_H

#include "common/cache.h"

/* The folder that the environment names; NULL: none. Lives as long as the process. */
struct vcuda_cache *ptx_cache_default(void);

/* The path of the cache ("": there is none), and its limit in bytes. */
const char *ptx_cache_path(void);
uint64_t ptx_cache_limit(void);

#endif
