/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools of devices by handle, as CUmemoryPool. host-pool.h has those of host memory. */
#ifndef VCUDA_POOL_H
#define VCUDA_POOL_H

#include "protocol/cuda-abi.h"

/* The application has this pool now, of that device. */
CUresult libcuda_pool_add(CUmemoryPool pool, CUdevice dev);

#endif
