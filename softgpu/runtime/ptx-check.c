/* SPDX-License-Identifier: Apache-2.0 */
/* The slow paths of memory accesses: finding the memory of an address, lane by lane. */
#include <string.h>

#include "runtime/ptx-run.h"

static bool inside(uint64_t address, uint64_t bytes, uint64_t start, uint64_t size)
{
	return address >= start && bytes <= size && address - start <= size - bytes;
}

/* A function's variables may be younger than the launch's map. */
static bool find_variable(const struct ptx_context *ctx, uint64_t address, uint64_t bytes, bool write, uint64_t *start,
			  uint64_t *end)
{
	const struct ptx_module *module = ctx->binary->kernel->function->module;

	for (uint32_t n = 0; n < module->variable_count; n++)
		if (inside(address, bytes, module->addresses[n], module->variables[n].size)) {
			*start = module->addresses[n];
			*end = module->addresses[n] + module->variables[n].size;
			return !write || !module->variables[n].constant;
		}
	return false;
}

/* The range of global memory, parameters, shared or local memory that holds all of the access. */
static bool find_range(const struct ptx_context *ctx, uint64_t address, uint64_t bytes, bool write, uint64_t *start,
		       uint64_t *end)
{
	const struct ptx_memory_map *map = ctx->launch->memory;
	const struct {
		uint64_t start, size;
		bool writable;
	} own[] = {
		{(uintptr_t)ctx->shared, ctx->shared_bytes, true},
		{(uintptr_t)ctx->local, ctx->local_bytes, true},
		{(uintptr_t)ctx->params, ctx->binary->kernel->info.param_bytes, false},
	};
	size_t low = 0, high = map ? map->count : 0;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (map->ranges[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (map && low < map->count &&
	    inside(address, bytes, map->ranges[low].start, map->ranges[low].end - map->ranges[low].start)) {
		*start = map->ranges[low].start;
		*end = map->ranges[low].end;
		/* neighbours form one span: an access may cross from one allocation to the next on a GPU as well */
		return !write || map->ranges[low].writable;
	}
	for (unsigned n = 0; n < 3; n++)
		if (inside(address, bytes, own[n].start, own[n].size)) {
			*start = own[n].start;
			*end = own[n].start + own[n].size;
			return !write || own[n].writable;
		}
	return ctx->caller_live && find_variable(ctx, address, bytes, write, start, end);
}

/*
 * Compiled code compares with `end` minus the length of a span, and the difference must not wrap around. Spans are
 * below 16 MiB, so ranges that start below 16 MiB are not remembered.
 */
static void remember(struct ptx_context *ctx, uint32_t number, uint64_t start, uint64_t end)
{
	const struct ptx_site *site = &ctx->binary->sites[number];
	uint64_t address = 0;

	if (start < 16u << 20)
		return;
	if (site->aligned)
		memcpy(&address, ctx->params + site->provenance, sizeof(address));
	ctx->cache[number].start = start;
	ctx->cache[number].end = end;
	ctx->cache[number].room = 0;
	if (site->span && end - start >= site->span && !(address & ((uint64_t)site->size * site->count - 1)))
		ctx->cache[number].room = end - start - site->span + 1;
}

void ptx_check_provenances(struct ptx_context *ctx)
{
	const struct ptx_site *sites = ctx->binary->sites, *last = NULL;
	uint64_t address, start = 0, end = 0;
	bool found = false;

	for (uint32_t n = 0; n < ctx->binary->site_count; n++) {
		ctx->cache[n].room = 0;
		if (sites[n].provenance == PTX_NO_PROVENANCE)
			continue;
		/* most follow one of the same parameter */
		if (!last || last->provenance != sites[n].provenance || last->write != sites[n].write) {
			memcpy(&address, ctx->params + sites[n].provenance, sizeof(address));
			found = find_range(ctx, address, 1, sites[n].write, &start, &end);
		}
		last = &sites[n];
		if (found)
			remember(ctx, n, start, end);
	}
}

uint8_t *ptx_check_lane(struct ptx_context *ctx, uint32_t number, uint64_t address, uint32_t thread)
{
	const struct ptx_site *site = &ctx->binary->sites[number];
	uint64_t bytes = (uint64_t)site->size * site->count, start, end;
	struct ptx_cached_range *cached = &ctx->cache[number];

	if (address & (bytes - 1) && bytes > 1)
		return ptx_stray(ctx, site, PTX_FAULT_MISALIGNED, address, bytes, thread);
	bytes -= site->unused;
	if (site->space == PTX_SHARED) {
		if (inside(address, bytes, 0, ctx->shared_bytes))
			return ctx->shared + address;
	} else if (site->space == PTX_LOCAL) {
		if (inside(address, bytes, 0, ctx->binary->local_stride))
			return ctx->local + thread * ctx->binary->local_stride + address;
	} else if (cached->start <= cached->end && inside(address, bytes, cached->start, cached->end - cached->start)) {
		return (uint8_t *)(uintptr_t)address;
	} else if (find_range(ctx, address, bytes, site->write, &start, &end)) {
		remember(ctx, number, start, end);
		return (uint8_t *)(uintptr_t)address;
	}
	return ptx_stray(ctx, site, PTX_FAULT_ILLEGAL_ADDRESS, address, (uint64_t)site->size * site->count, thread);
}

uint8_t *ptx_check_span(struct ptx_context *ctx, uint32_t number, uint64_t address, uint64_t bytes, uint64_t align,
			uint32_t thread)
{
	const struct ptx_site *site = &ctx->binary->sites[number];
	struct ptx_cached_range *cached = &ctx->cache[number];
	uint64_t start, end;

	if (address & (align - 1))
		return ptx_stray(ctx, site, PTX_FAULT_MISALIGNED, address, bytes, thread);
	if (site->space == PTX_SHARED) {
		if (inside(address, bytes, 0, ctx->shared_bytes))
			return ctx->shared + address;
	} else if (cached->start <= cached->end && inside(address, bytes, cached->start, cached->end - cached->start)) {
		return (uint8_t *)(uintptr_t)address;
	} else if (find_range(ctx, address, bytes, site->write, &start, &end)) {
		remember(ctx, number, start, end);
		return (uint8_t *)(uintptr_t)address;
	}
	return ptx_stray(ctx, site, PTX_FAULT_ILLEGAL_ADDRESS, address, bytes, thread);
}

void ptx_rt_check(struct ptx_context *ctx, uint32_t number, uint64_t base, uint32_t thread)
{
	const struct ptx_site *site = &ctx->binary->sites[number];
	uint64_t bytes = (uint64_t)site->size * site->count, from = base + (uint64_t)(site->imm + site->low), start,
		 end;

	/* most often one allocation has all addresses of the warp */
	if (site->space != PTX_SHARED && site->space != PTX_LOCAL && !(from & (bytes - 1)) &&
	    find_range(ctx, from, (uint64_t)(site->high - site->low) + bytes - site->unused, site->write, &start, &end)) {
		remember(ctx, number, start, end);
		return;
	}
	for (unsigned lane = 0; lane < (site->offsets ? 32u : 1u); lane++)
		ptx_check_lane(ctx, number, base + (uint64_t)(site->imm + (site->offsets ? site->offsets[lane] : 0)),
			       thread + lane);
}

uint32_t ptx_rt_reach(struct ptx_context *ctx, uint32_t number, uint64_t from, uint64_t bytes)
{
	const struct ptx_site *site = &ctx->binary->sites[number];
	uint64_t start, end;

	if (from & ((uint64_t)site->size * site->count - 1) || !find_range(ctx, from, bytes, site->write, &start, &end))
		return false;
	remember(ctx, number, start, end);
	return true;
}

/* The range that this instruction hit last serves most lanes without a call. */
#define EACH_LANE(type, statement)                                                                                     \
	for (uint32_t left = mask; left; left &= left - 1) {                                                           \
		unsigned lane = (unsigned)__builtin_ctz(left);                                                         \
		uint64_t address = addresses[lane];                                                                    \
		volatile type *at = (volatile type *)(uintptr_t)(address + window);                                    \
		if (address < start || address > last || (address & (bytes - 1)))                                      \
			at = (volatile type *)ptx_check_lane(ctx, number, address, thread + lane);                     \
		statement;                                                                                             \
	}                                                                                                              \
	break

/*
 * A vector of 8 or 16 bytes is loaded and stored whole. PTX does not promise it, but programs that pass a state and a
 * number in one vector rely on it, as CUB's scans do.
 */
typedef uint64_t two_words __attribute__((vector_size(16), aligned(1)));

static bool goes_whole(unsigned count, uint64_t bytes)
{
	return count > 1 && (bytes == 8 || bytes == 16);
}

static void load_whole(void *to, const volatile void *from, uint64_t bytes)
{
	if (bytes == 16)
		*(two_words *)to = *(const volatile two_words *)from;
	else
		*(uint64_t *)to = *(const volatile uint64_t *)from;
}

static void store_whole(volatile void *to, const void *from, uint64_t bytes)
{
	if (bytes == 16)
		*(volatile two_words *)to = *(const two_words *)from;
	else
		*(volatile uint64_t *)to = *(const uint64_t *)from;
}

#define LOAD_LANES(type)                                                                                               \
	EACH_LANE(type, {                                                                                              \
		type whole[16 / sizeof(type)];                                                                         \
		const volatile type *from = at;                                                                        \
		if (is_whole) {                                                                                        \
			load_whole(whole, at, bytes);                                                                  \
			from = whole;                                                                                  \
		}                                                                                                      \
		for (unsigned part = 0; part < count; part++)                                                          \
			((type *)data)[part * 32 + lane] = from[part];                                                 \
	})

#define STORE_LANES(type)                                                                                              \
	EACH_LANE(type, {                                                                                              \
		type whole[16 / sizeof(type)];                                                                         \
		volatile type *to = is_whole ? whole : at;                                                             \
		for (unsigned part = 0; part < count; part++)                                                          \
			to[part] = ((const type *)data)[part * 32 + lane];                                             \
		if (is_whole)                                                                                          \
			store_whole(at, whole, bytes);                                                                 \
	})

/* Addresses in [*start, *last] need no further check; adding `window` gives host addresses. */
static void fast_window(struct ptx_context *ctx, uint32_t number, const uint64_t *addresses, uint32_t mask,
			uint64_t *start, uint64_t *last, uint64_t *window)
{
	const struct ptx_site *site = &ctx->binary->sites[number];
	uint64_t bytes = (uint64_t)site->size * site->count - site->unused, from, end;
	const struct ptx_cached_range *cached = &ctx->cache[number];

	*start = 1;
	*last = 0;
	*window = 0;
	if (site->space == PTX_SHARED) {
		*window = (uintptr_t)ctx->shared;
		if (ctx->shared_bytes >= bytes) {
			*start = 0;
			*last = ctx->shared_bytes - bytes;
		}
	} else if (site->space != PTX_LOCAL) {
		uint64_t first = addresses[__builtin_ctz(mask)];

		if ((cached->start > cached->end || !inside(first, bytes, cached->start, cached->end - cached->start)) &&
		    find_range(ctx, first, bytes, site->write, &from, &end))
			remember(ctx, number, from, end);
		if (cached->start <= cached->end && cached->end - cached->start >= bytes) {
			*start = cached->start;
			*last = cached->end - bytes;
		}
	}
}

void ptx_rt_load(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *addresses, void *data,
		 uint32_t thread)
{
	unsigned count = ctx->binary->sites[number].count, size = ctx->binary->sites[number].size;
	uint64_t bytes = (uint64_t)size * count, start, last, window;
	bool is_whole = goes_whole(count, bytes);

	fast_window(ctx, number, addresses, mask, &start, &last, &window);
	switch (size) {
	case 1:
		LOAD_LANES(uint8_t);
	case 2:
		LOAD_LANES(uint16_t);
	case 4:
		LOAD_LANES(uint32_t);
	default:
		LOAD_LANES(uint64_t);
	}
}

void ptx_rt_store(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *addresses, const void *data,
		  uint32_t thread)
{
	unsigned count = ctx->binary->sites[number].count, size = ctx->binary->sites[number].size;
	uint64_t bytes = (uint64_t)size * count, start, last, window;
	bool is_whole = goes_whole(count, bytes);

	fast_window(ctx, number, addresses, mask, &start, &last, &window);
	switch (size) {
	case 1:
		STORE_LANES(uint8_t);
	case 2:
		STORE_LANES(uint16_t);
	case 4:
		STORE_LANES(uint32_t);
	default:
		STORE_LANES(uint64_t);
	}
}

const char *ptx_check_string(struct ptx_context *ctx, uint64_t address, size_t limit, size_t *length)
{
	uint64_t start, end;
	const char *text = (const char *)(uintptr_t)address;
	size_t most;

	if (!find_range(ctx, address, 1, false, &start, &end))
		return NULL;
	most = end - address < limit ? end - address : limit;
	*length = strnlen(text, most);
	return *length < most || most == limit ? text : NULL;
}

bool ptx_check_bytes(struct ptx_context *ctx, uint64_t address, size_t bytes)
{
	uint64_t start, end;

	return find_range(ctx, address, bytes, false, &start, &end);
}
