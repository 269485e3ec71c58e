/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_CPU_RANDOM_H
#define VCUDA_CPU_RANDOM_H

#include "device/context.h"

/* Destroys all generators of a context, whose work is done. With the lock held. */
void cpu_generators_destroy(struct CUctx_st *context);

#endif
