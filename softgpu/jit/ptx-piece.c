/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache's pieces were written by this very build of the compiler, for this key, and their checksums are right;
 * sizes are checked nevertheless.
 */
#include "jit/ptx-piece.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define PLAIN_START offsetof(struct ptx_binary, lanes)
#define PLAIN_BYTES (sizeof(struct ptx_binary) - PLAIN_START)

size_t ptx_piece_size(const struct ptx_piece *p)
{
	return sizeof(*p) + p->plain_bytes + p->site_count * sizeof(struct ptx_site) +
	       p->offset_count * sizeof(int64_t[PTX_SITE_LANES]) + p->object_bytes;
}

bool ptx_piece_is_good(const struct ptx_piece *p, size_t size, bool masked)
{
	return size >= sizeof(*p) && p->plain_bytes == PLAIN_BYTES && p->object_bytes < size &&
	       p->offset_count <= p->site_count && ptx_piece_size(p) == size && (!masked || !p->site_count);
}

static void *sites_of(const struct ptx_piece *p)
{
	return (char *)(uintptr_t)(p + 1) + p->plain_bytes;
}

static void *offsets_of(const struct ptx_piece *p)
{
	return (char *)sites_of(p) + p->site_count * sizeof(struct ptx_site);
}

static void *object_of(const struct ptx_piece *p)
{
	return (char *)offsets_of(p) + p->offset_count * sizeof(int64_t[PTX_SITE_LANES]);
}

const void *ptx_piece_object(const struct ptx_piece *p)
{
	return object_of(p);
}

/* Sets the members that all versions of the kernel for this block shape share. */
static void describe_plan(const struct ptx_plan *plan, bool standalone, struct ptx_binary *b)
{
	const struct ptx_body *body = &plan->body;

	b->lanes = plan->lanes;
	b->site_count = plan->low.site_count;
	b->static_shared = body->static_shared;
	b->local_stride = body->local_bytes;
	b->frame_bytes = plan->low.frame_bytes;
	b->fibers = b->lanes > 1 && ptx_body_turns(body);
	b->standalone = standalone;
	b->warp_loop = b->lanes > 1 && !standalone && body->has_warp_loop;
	b->waits = b->lanes > 1 && body->has_waits;
	b->strides = b->lanes > 1 && !standalone && body->has_strides && !body->has_waits && !body->has_signals;
}

/* Pointers to offsets become their numbers, from 1. */
static void pack_sites(const struct ptx_lowering *low, struct ptx_piece *p)
{
	struct ptx_site *sites = sites_of(p), site;
	char *offsets = offsets_of(p);
	uintptr_t number = 0;

	for (uint32_t n = 0; n < p->site_count; n++) {
		site = low->site_list[n];
		if (site.offsets) {
			memcpy(offsets + number * sizeof(int64_t[PTX_SITE_LANES]), site.offsets,
			       sizeof(int64_t[PTX_SITE_LANES]));
			site.offsets = (const int64_t *)++number;
		}
		memcpy(&sites[n], &site, sizeof(site));
	}
}

struct ptx_piece *ptx_piece_pack(const struct ptx_plan *plan, struct ptx_version version, LLVMMemoryBufferRef object,
				 uint64_t stack)
{
	struct ptx_piece head = {.stack = stack,
				 .object_bytes = LLVMGetBufferSize(object),
				 .plain_bytes = PLAIN_BYTES,
				 .instructions = plan->body.instr_count},
			 *p;
	struct ptx_binary described;

	if (!version.masked)
		head.site_count = plan->low.site_count;
	for (uint32_t n = 0; n < head.site_count; n++)
		head.offset_count += plan->low.site_list[n].offsets != NULL;
	p = malloc(ptx_piece_size(&head));
	if (!p)
		return NULL;
	*p = head;
	memset(&described, 0, sizeof(described));
	describe_plan(plan, version.standalone, &described);
	memcpy(p + 1, (char *)&described + PLAIN_START, PLAIN_BYTES);
	pack_sites(&plan->low, p);
	memcpy(object_of(p), LLVMGetBufferStart(object), head.object_bytes);
	return p;
}

static bool copy_sites(const struct ptx_piece *p, struct ptx_binary *b)
{
	size_t sites = p->site_count * sizeof(struct ptx_site);
	size_t offsets = p->offset_count * sizeof(int64_t[PTX_SITE_LANES]);

	b->sites = malloc(sites + 1);
	b->offsets = malloc(offsets + 1);
	if (!b->sites || !b->offsets)
		return false;
	memcpy(b->sites, sites_of(p), sites);
	memcpy(b->offsets, offsets_of(p), offsets);
	for (uint32_t n = 0; n < p->site_count; n++) {
		uintptr_t number = (uintptr_t)b->sites[n].offsets;

		if (number > p->offset_count)
			return false;
		b->sites[n].offsets = number ? b->offsets[number - 1] : NULL;
	}
	return true;
}

bool ptx_piece_describe(const struct ptx_piece *p, struct ptx_binary *b)
{
	struct ptx_binary described;

	memcpy((char *)&described + PLAIN_START, p + 1, PLAIN_BYTES);
	if (described.site_count != p->site_count)
		return false;
	memcpy((char *)b + PLAIN_START, p + 1, PLAIN_BYTES);
	return copy_sites(p, b);
}
