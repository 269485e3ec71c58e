/* SPDX-License-Identifier: Apache-2.0 */
/* The folder in which compiled kernels, and what is known of modules, outlive the process. */
#ifndef VCUDA_BACKEND_CPU_PTX_CACHE_H
#define VCUDA_BACKEND_CPU_PTX_CACHE_H

#include "common/cache.h"

/* The folder that the environment names; NULL: none. Lives as long as the process. */
struct vcuda_cache *ptx_cache_default(void);

#endif
