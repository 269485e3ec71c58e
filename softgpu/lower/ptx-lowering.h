/* SPDX-License-Identifier: Apache-2.0 */
/* The decisions that both versions of a kernel share, made once for a kernel and a block shape. */
#ifndef VCUDA_BACKEND_CPU_PTX_LOWERING_H
#define VCUDA_BACKEND_CPU_PTX_LOWERING_H

#include "analysis/ptx-body.h"
#include "runtime/ptx-run.h"

/* Where the full version may leave for the masked one. */
struct ptx_exit {
	uint32_t block, instr; /* instr: before this one, or UINT32_MAX: at the block's branch */
	uint32_t others;       /* where lanes wait that an aside did without, or PTX_NO_BLOCK */
	uint64_t *live;
};

struct ptx_lowering {
	struct ptx_exit *exits;
	uint32_t exit_count, exit_room;
	bool *reenter;                    /* per block: the masked version may go back to the full one here */
	uint32_t *slots;                  /* per register: offset in the frame */
	uint32_t frame_bytes, pending_at; /* pending_at: lists of the masked version */
	uint32_t *warp_loop_slots, entries_at, lasts_at; /* lists of all warps; see ptx-warp-loop.c */
	uint32_t *sites;                                 /* per instruction, UINT32_MAX: none */
	struct ptx_site *site_list;
	uint32_t site_count, site_room;
};

/* Before the first version. False: body->error is set. */
bool prepare_lowering(struct ptx_body *body, struct ptx_lowering *low, unsigned lanes);

#endif
