/* SPDX-License-Identifier: Apache-2.0 */
/* Quick code is replaced by optimised code, which a thread of its own compiles meanwhile. */
#ifndef VCUDA_BACKEND_CPU_PTX_TIER_H
#define VCUDA_BACKEND_CPU_PTX_TIER_H

#include "runtime/ptx-run.h"

/*
 * Asks for an optimised version in the place of a quick one. Blocks that begin later run it. Without memory for that
 * the quick one stays. The caller uses the module. From any thread.
 */
void ptx_tier_improve(struct ptx_binary *binary, bool masked);

/* For tests: returns once no version waits for better code or is compiled in the background. */
void ptx_tier_wait(void);

#endif
