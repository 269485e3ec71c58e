/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages with a compile process: an order, the file of a module, and a result. Both processes are of one build, so
 * messages are structures as memory has them.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_ORDER_H
#define VCUDA_BACKEND_CPU_PTX_ORDER_H

#include "protocol/compiler.h"
#include "jit/ptx-make.h"

/* A version of kernel number `kernel` of the module with this text. */
struct ptx_order {
	struct vcuda_cache_key text;
	uint32_t kernel, blockdim[3];
	struct ptx_version version;
	bool choose;
};

_Static_assert(sizeof(struct ptx_order) <= VCUDA_COMPILE_ORDER_BYTES, "an order fits a job");

/* The begin of a module's file. The lengths of the texts (uint64_t each), the facts and the texts follow. */
struct ptx_order_file {
	uint64_t text_count, facts_bytes; /* 0: the module has no facts */
};

/* There follows a piece of `piece_bytes`, of an OK result. */
struct ptx_order_result {
	uint32_t status; /* enum ptx_status */
	struct ptx_version version;
	struct ptx_error error;
	struct ptx_times times;
	uint64_t piece_bytes;
};

#endif
