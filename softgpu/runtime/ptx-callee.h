/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of functions of machine code by their addresses (common/sass-callee.h). */
#ifndef VCUDA_BACKEND_CPU_PTX_CALLEE_H
#define VCUDA_BACKEND_CPU_PTX_CALLEE_H

#include "runtime/ptx-run.h"

struct ptx_thread;

/*
 * Calls addresses[n] for each lane n of the mask, and returns when the functions have ended for all of them. `live`:
 * the warp's lanes that have not exited. A fault ends the block. On a warp's stack.
 */
void ptx_call_address(struct ptx_context *ctx, uint32_t mask, const uint64_t *addresses, uint32_t thread,
		      uint32_t live);

/* Prepares what the present warp wants to call. False: the block has a fault. On the scheduler's stack. */
bool ptx_callee_provide(struct ptx_thread *t);

#endif
