/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses that are not allowed: described, and left to the device, which may let them pass or drop them. */
#include <stdlib.h>
#include <string.h>

#include "runtime/ptx-thread.h"

/* Largest number of bytes of one dropped access: bulk copies move all the shared memory of a block. */
#define DROPPED_BYTES (256u << 10)

void ptx_fault_describe(const struct ptx_context *ctx, const struct ptx_site *site, enum ptx_fault_kind kind,
			uint64_t address, uint64_t bytes, uint32_t thread, struct ptx_fault *fault)
{
	static const char *const spaces[] = {"generic", "global",   "shared",  "local",  "const",
					     "param",   "register", "texture", "surface"};
	const uint32_t *d = ctx->binary->blockdim;

	*fault =
		(struct ptx_fault){.kind = kind, .address = address, .space = "generic", .kernel = ctx->binary->kernel};
	if (site) {
		fault->bytes = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
		fault->write = site->write;
		fault->space = spaces[site->space];
		fault->line = ptx_line_of(ctx->binary, site->line);
		fault->own = site->space == PTX_SHARED || site->space == PTX_LOCAL;
	}
	memcpy(fault->block, ctx->ctaid, sizeof(ctx->ctaid));
	fault->thread[0] = thread % d[0];
	fault->thread[1] = thread / d[0] % d[1];
	fault->thread[2] = thread / d[0] / d[1];
}

/* Zeroes in the place of memory; the next call makes them zeroes again. NULL: too many, or no memory. */
static uint8_t *dropped(struct ptx_context *ctx, uint64_t bytes)
{
	struct ptx_thread *t = ctx->thread;

	if (bytes > DROPPED_BYTES || !ptx_thread_grow(&t->dropped, &t->dropped_room, DROPPED_BYTES))
		return NULL;
	memset(t->dropped, 0, bytes);
	return t->dropped;
}

static bool is_known(const struct ptx_launch *launch, const struct ptx_site *site, enum ptx_fault_kind kind,
		     uint64_t address, uint64_t bytes)
{
	return launch->is_known_stray && kind == PTX_FAULT_ILLEGAL_ADDRESS && site && site->space != PTX_SHARED &&
	       site->space != PTX_LOCAL && launch->is_known_stray(launch->device, address, bytes, site->write);
}

uint8_t *ptx_stray(struct ptx_context *ctx, const struct ptx_site *site, enum ptx_fault_kind kind, uint64_t address,
		   uint64_t bytes, uint32_t thread)
{
	const struct ptx_launch *launch = ctx->launch;
	struct ptx_fault fault;
	uint8_t *instead;

	if (is_known(launch, site, kind, address, bytes))
		return (uint8_t *)(uintptr_t)address;
	ptx_fault_describe(ctx, site, kind, address, bytes, thread, &fault);
	switch (launch->stray ? launch->stray(launch->device, &fault) : PTX_STRAY_FAULTS) {
	case PTX_STRAY_PASSES:
		return (uint8_t *)(uintptr_t)address;
	case PTX_STRAY_IS_DROPPED:
		instead = dropped(ctx, bytes);
		if (instead)
			return instead;
		break;
	default:
		break;
	}
	ptx_fault_bytes(ctx, site, kind, address, bytes, thread);
}
