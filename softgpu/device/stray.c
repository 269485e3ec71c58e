/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses of kernels beside allocations: the memory nearby, and what a GPU would have mapped there. */
#include "device/memory.h"

#include "device/arena.h"
#include "device/device.h"

#define PAGE 4096u
#define FAR (1ull << 30)

/* Limit for pages outside all allocations that the process may have stored to: 16 MiB. */
#define MOST_PAGES 4096u
#define SLOTS (2 * MOST_PAGES)

static uint64_t pages[SLOTS]; /* open addressing; 0: none */
static unsigned int page_count;

static uint64_t round_down(uint64_t n, uint64_t step)
{
	return n & ~(step - 1);
}

static uint64_t round_up(uint64_t n, uint64_t step)
{
	return round_down(n + step - 1, step);
}

/* ---- the nearest allocation ---- */

static void measure(const struct softgpu_range *r, uint64_t address, uint64_t bytes, struct softgpu_neighbour *n)
{
	uint64_t end = r->start + r->size;

	*n = (struct softgpu_neighbour){
		.start = r->start,
		.size = r->size,
		.device = r->device,
		.where = SOFTGPU_INSIDE,
	};
	if (address >= end) {
		n->where = SOFTGPU_BEHIND;
		n->distance = address - end;
	} else if (address < r->start) {
		n->where = bytes > r->start - address ? SOFTGPU_ACROSS_START : SOFTGPU_BEFORE;
		n->distance = r->start - address;
	} else if (bytes > end - address) {
		n->where = SOFTGPU_ACROSS_END;
	}
}

bool softgpu_stray_neighbour(uint64_t address, uint64_t bytes, struct softgpu_neighbour *n)
{
	const struct softgpu_range *behind = softgpu_range_behind(address), *before = softgpu_range_before(address);
	struct softgpu_neighbour other;

	n->distance = FAR;
	if (behind)
		measure(behind, address, bytes, n);
	if (before) {
		measure(before, address, bytes, &other);
		if (other.distance <= n->distance)
			*n = other;
	}
	return n->distance < FAR;
}

/* ---- what is mapped ---- */

/* Device memory of this process alone: neither the host's nor another process's. */
static bool is_own(const struct softgpu_range *r)
{
	return r->kind != SOFTGPU_HOST && r->kind != SOFTGPU_IMPORTED;
}

/* The part of a range that no stray access may touch. An import has whole pages, with bytes of the other process. */
static struct softgpu_span forbidden(const struct softgpu_range *r, const struct CUctx_st *context, bool write)
{
	if (r->kind == SOFTGPU_IMPORTED)
		return (struct softgpu_span){round_down(r->start, PAGE), round_up(r->start + r->size, PAGE)};
	if (!softgpu_range_is_open(r, context, write))
		return (struct softgpu_span){r->start, r->start + r->size};
	return (struct softgpu_span){0, 0};
}

/* Cuts off the part that must not be touched. False: the access touches it. */
static bool cut(struct softgpu_span *same, const struct softgpu_span * not, uint64_t start, uint64_t end)
{
	if (not ->end <= start)
		same->start = not ->end > same->start ? not ->end : same->start;
	else if (not ->start >= end)
		same->end = not ->start < same->end ? not ->start : same->end;
	else
		return false;
	return true;
}

/* The granule has an allocation, and the part of the access in it may be. */
static bool granule_allows(const struct CUctx_st *context, uint64_t granule, uint64_t start, uint64_t end, bool write,
			   struct softgpu_span *same)
{
	const struct softgpu_range *r = softgpu_range_behind(granule - PAGE);
	bool mapped = false;

	for (; r && r->start < granule + SOFTGPU_MAPPING; r = softgpu_range_behind(r->start + r->size)) {
		const struct softgpu_span not = forbidden(r, context, write);

		if (!cut(same, &not, start, end))
			return false;
		mapped |= is_own(r) && softgpu_range_is_open(r, context, false) && r->start + r->size > granule;
	}
	return mapped;
}

/* False: there are too many already, or the process may have no more memory. */
static bool count_page(CUdevice dev, uint64_t page)
{
	unsigned int slot = (unsigned int)((page / PAGE * 0x9e3779b97f4a7c15ull) >> 40) % SLOTS;

	for (; pages[slot]; slot = (slot + 1) % SLOTS)
		if (pages[slot] == page)
			return true;
	if (page_count == MOST_PAGES || !softgpu_memory_count(dev, PAGE))
		return false;
	pages[slot] = page;
	page_count++;
	return true;
}

static bool count_pages(CUdevice dev, uint64_t start, uint64_t end)
{
	for (uint64_t page = round_down(start, PAGE); page < end; page += PAGE)
		if (!softgpu_range_overlaps(page, PAGE) && !count_page(dev, page))
			return false;
	return true;
}

bool softgpu_stray_is_mapped(const struct CUctx_st *context, uint64_t address, uint64_t bytes, bool write,
			     struct softgpu_span *same)
{
	uint64_t end, step = write ? PAGE : SOFTGPU_MAPPING;

	if (__builtin_add_overflow(address, bytes, &end) || !softgpu_arena_is_readable(address, bytes))
		return false;
	*same = (struct softgpu_span){round_down(address, step), round_up(end, step)};
	if (!softgpu_arena_is_readable(same->start, same->end - same->start))
		*same = (struct softgpu_span){address, end};
	for (uint64_t granule = round_down(address, SOFTGPU_MAPPING); granule < end; granule += SOFTGPU_MAPPING)
		if (!granule_allows(context, granule, address, end, write, same))
			return false;
	return !write || count_pages(context->device, address, end);
}
