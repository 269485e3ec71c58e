/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that kernels may access: the table of ranges as a context sees it. */
#include <stdlib.h>

#include "device/device.h"
#include "device/memory.h"

static struct softgpu_map *common[SOFTGPU_MOST_DEVICES]; /* by device; NULL: changed since it was made */

bool softgpu_range_is_open(const struct softgpu_range *r, const struct CUctx_st *context, bool write)
{
	if ((write ? r->writes : r->reads) >> context->device & 1)
		return true;
	/* A pool has access of its own. */
	return context->peer_count && r->context && !r->pool && (r->writes || !write) &&
	       softgpu_peer_has(context, r->context);
}

uint64_t softgpu_context_view(const struct CUctx_st *context)
{
	return context->peer_count ? SOFTGPU_MOST_DEVICES + context->id : (uint64_t)context->device;
}

/* libcu++ loads two bytes for an atomic of one, and swaps the word around it: no allocation begins within that. */
#define WORD 4
#define HOST_PAGE 4096u

/*
 * A GPU maps registered memory by pages. So kernels also reach the rest of the first and last page, except parts that
 * belong to other ranges.
 */
static struct ptx_range host_bounds(const struct softgpu_range *table, size_t count, const struct softgpu_range *r)
{
	struct ptx_range range = {r->start & ~(uint64_t)(HOST_PAGE - 1),
				  (r->start + r->size + HOST_PAGE - 1) & ~(uint64_t)(HOST_PAGE - 1), r->writes};

	if (r > table) {
		uint64_t before = r[-1].start + r[-1].size;

		if (r[-1].kind == SOFTGPU_HOST)
			before = (before + HOST_PAGE - 1) & ~(uint64_t)(HOST_PAGE - 1);
		if (before > r->start)
			before = r->start;
		if (before > range.start)
			range.start = before;
	}
	if (r + 1 < table + count && r[1].start < range.end)
		range.end = r[1].start;
	return range;
}

/* Ranges are sorted by start, and stay sorted. */
static struct ptx_range bounds(const struct softgpu_range *table, size_t count, const struct softgpu_range *r,
			       const struct CUctx_st *context)
{
	struct ptx_range range = {r->start, r->start + r->size, softgpu_range_is_open(r, context, true)};

	/* A variable is no registered memory. */
	if (r->kind == SOFTGPU_HOST && r->context)
		return host_bounds(table, count, r);
	range.end = (range.end + WORD - 1) & ~(uint64_t)(WORD - 1);
	return range;
}

static void append(struct ptx_range *ranges, size_t *n, const struct ptx_range *next)
{
	struct ptx_range *last = *n ? &ranges[*n - 1] : NULL;

	if (last && last->end > next->start) {
		/* pages that they share */
		last->end = next->end > last->end ? next->end : last->end;
		last->writable |= next->writable;
	} else if (last && last->end == next->start && last->writable == next->writable) {
		last->end = next->end;
	} else {
		ranges[(*n)++] = *next;
	}
}

static struct softgpu_map *make(const struct CUctx_st *context)
{
	size_t count, n = 0;
	const struct softgpu_range *table = softgpu_ranges(&count);
	struct softgpu_map *map = malloc(sizeof(*map) + count * sizeof(map->ranges[0]));

	if (!map)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		struct ptx_range range;

		if (table[i].kind == SOFTGPU_ARRAY_MEMORY || !softgpu_range_is_open(&table[i], context, false))
			continue;
		range = bounds(table, count, &table[i], context);
		append(map->ranges, &n, &range);
	}
	map->map = (struct ptx_memory_map){n, map->ranges};
	map->version = softgpu_memory_version();
	map->refs = 1;
	return map;
}

/* Contexts without peers, of which one device may have many, have one map. */
static struct softgpu_map **place_of(struct CUctx_st *context)
{
	return context->peer_count ? &context->map : &common[context->device];
}

struct softgpu_map *softgpu_map_get(struct CUctx_st *context)
{
	struct softgpu_map **map = place_of(context);

	if (*map && (*map)->version != softgpu_memory_version()) {
		softgpu_map_put(*map);
		*map = NULL;
	}
	if (!*map)
		*map = make(context);
	if (*map)
		(*map)->refs++;
	return *map;
}

void softgpu_map_put(struct softgpu_map *map)
{
	if (--map->refs == 0)
		free(map);
}

void softgpu_maps_drop(void)
{
	for (unsigned int i = 0; i < softgpu_device()->count; i++) {
		if (common[i])
			softgpu_map_put(common[i]);
		common[i] = NULL;
	}
}
