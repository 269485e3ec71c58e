/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemMap() of parts and beyond reservations; cuMemUnmap() of parts and of several; cuMemAddressReserve(). */
#include "ask.h"

#define HALF (granule / 2)

/* A letter for each granule: m where something is mapped. */
static void say_mapped(CUdeviceptr p, size_t granules)
{
	char map[32] = "";

	for (size_t i = 0; i < granules; i++) {
		CUmemGenericAllocationHandle handle = 0;
		bool is = cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)(p + i * granule)) == CUDA_SUCCESS;

		map[i] = is ? 'm' : '-';
		if (is)
			cuMemRelease(handle);
	}
	say("%s", map);
}

/* ---- parts of a handle ---- */

struct part {
	const char *name;
	size_t at, size, offset; /* halves of granules */
	unsigned long long flags;
};

static const struct part parts[] = {
	{"granules 0-3 of 4", 0, 8, 0, 0},
	{"granules 0-1 of 4", 0, 4, 0, 0},
	{"granule 0 of 4", 0, 2, 0, 0},
	{"granules 2-3 of 4", 0, 4, 4, 0},
	{"granule 1 of 4", 0, 2, 2, 0},
	{"4 granules from granule 1 of 4", 0, 8, 2, 0},
	{"2 granules from granule 3 of 4", 0, 4, 6, 0},
	{"granule 4 of 4", 0, 2, 8, 0},
	{"5 granules of 4", 0, 10, 0, 0},
	{"half a granule of 4", 0, 1, 0, 0},
	{"1.5 granules of 4", 0, 3, 0, 0},
	{"4 granules from half a granule on", 0, 8, 1, 0},
	{"half a granule from half a granule on", 0, 1, 1, 0},
	{"size 0", 0, 0, 0, 0},
	{"size 0, offset 1 granule", 0, 0, 2, 0},
	{"all 4, at half a granule", 1, 8, 0, 0},
	{"all 4, flags 1", 0, 8, 0, 1},
	{"granules 0-1 of 4, flags 1", 0, 4, 0, 1},
};

static void map_parts(const int *with)
{
	CUmemLocationType type = (CUmemLocationType)with[0];
	CUmemGenericAllocationHandle handle = make(type, 4);

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		const struct part *t = &parts[i];
		CUdeviceptr p = reserve(8), at = p + t->at * HALF;
		CUresult code = cuMemMap(at, t->size * HALF, t->offset * HALF, handle, t->flags);

		question("cuMemMap(%s)", t->name);
		say("%d", code);
		say_mapped(p, 8);
		if (code == CUDA_SUCCESS) {
			say("access %d", give(at, t->size * HALF, DEVICE, 0, RW));
			say("unmap %d", cuMemUnmap(at, t->size * HALF));
		}
		say("free %d", cuMemAddressFree(p, 8 * granule));
		end();
	}
	question("cuMemMap(a handle that is none)");
	say("%d", cuMemMap(reserve(4), 4 * granule, 0, handle + 1000, 0));
	end();
}

/* Mapped twice at once. */
static void map_twice(const int *with)
{
	CUmemLocationType type = (CUmemLocationType)with[0];
	CUmemGenericAllocationHandle handle = make(type, 2);
	CUdeviceptr p = reserve(8);

	question("cuMemMap(one handle, two places)");
	say("%d", cuMemMap(p, 2 * granule, 0, handle, 0));
	say("%d", cuMemMap(p + 4 * granule, 2 * granule, 0, handle, 0));
	say_mapped(p, 8);
	say("access %d", give(p, 2 * granule, DEVICE, 0, RW));
	say("access %d", give(p + 4 * granule, 2 * granule, DEVICE, 0, RW));
	end();
	question("cuMemMap(over a mapping)");
	say("%d", cuMemMap(p, 2 * granule, 0, handle, 0));
	say("%d", cuMemMap(p + granule, 2 * granule, 0, handle, 0));
	say("%d", cuMemMap(p + 3 * granule, 2 * granule, 0, handle, 0));
	say("smaller %d", cuMemMap(p, granule, 0, make(type, 1), 0));
	say("larger %d", cuMemMap(p, 8 * granule, 0, make(type, 8), 0));
	say_mapped(p, 8);
	end();
}

/* ---- beyond reservations ---- */

/* Four granules whose neighbours on both sides are most likely free. */
static CUdeviceptr reserve_between(void)
{
	CUdeviceptr wide = reserve(16), p = 0;

	cuMemAddressFree(wide, 16 * granule);
	if (cuMemAddressReserve(&p, 4 * granule, 0, wide + 4 * granule, 0) || p != wide + 4 * granule)
		say("elsewhere");
	return p;
}

static void map_outside(CUmemLocationType type, const char *name, long at, size_t granules)
{
	CUmemGenericAllocationHandle handle = make(type, granules);
	CUdeviceptr p, q;
	CUresult code;

	question("cuMemMap(%s)", name);
	p = reserve_between();
	q = p + (uint64_t)(at * (long)granule);
	code = cuMemMap(q, granules * granule, 0, handle, 0);
	say("%d", code);
	say_mapped(p - granule, 8);
	if (code == CUDA_SUCCESS) {
		say("access %d", give(q, granules * granule, DEVICE, 0, RW));
		say("access of the granule inside %d", give(p + 3 * granule, granule, DEVICE, 0, RW));
		say("free %d", cuMemAddressFree(p, 4 * granule));
		say("unmap inside %d", cuMemUnmap(p + 3 * granule, granule));
		say("unmap %d", cuMemUnmap(q, granules * granule));
		say_mapped(p - granule, 8);
	}
	say("free %d", cuMemAddressFree(p, 4 * granule));
	end();
}

static void map_beyond(const int *with)
{
	CUmemLocationType type = (CUmemLocationType)with[0];

	map_outside(type, "granules 3-4 of a reservation of 4", 3, 2);
	map_outside(type, "granules 3-6 of a reservation of 4", 3, 4);
	map_outside(type, "granules 0-4 of a reservation of 4", 0, 5);
	map_outside(type, "the granule after a reservation", 4, 1);
	map_outside(type, "the granule before a reservation", -1, 1);
	map_outside(type, "the granule before and the first one", -1, 2);
	question("cuMemMap(no address)");
	say("%d", cuMemMap(0, granule, 0, make(type, 1), 0));
	end();
	question("cuMemMap(address of one granule)");
	say("%d", cuMemMap(granule, granule, 0, make(type, 1), 0));
	end();
}

/* Two reservations side by side. */
static void map_over_two(const int *with)
{
	CUmemLocationType type = (CUmemLocationType)with[0];
	CUdeviceptr wide = reserve(16), p = 0, q = 0;
	CUresult code;

	cuMemAddressFree(wide, 16 * granule);
	question("cuMemMap(over two reservations)");
	say("reserve %d", cuMemAddressReserve(&p, 2 * granule, 0, wide + 4 * granule, 0));
	say("%d", cuMemAddressReserve(&q, 2 * granule, 0, wide + 6 * granule, 0));
	say("%s", q == p + 2 * granule ? "side by side" : "apart");
	code = cuMemMap(p + granule, 2 * granule, 0, make(type, 2), 0);
	say("map %d", code);
	if (code == CUDA_SUCCESS) {
		say_mapped(p, 4);
		say("access %d", give(p + granule, 2 * granule, DEVICE, 0, RW));
		say("unmap %d", cuMemUnmap(p + granule, 2 * granule));
	}
	say("free both at once %d", cuMemAddressFree(p, 4 * granule));
	say("free %d", cuMemAddressFree(p, 2 * granule));
	say("%d", cuMemAddressFree(q, 2 * granule));
	end();
}

/* ---- cuMemUnmap() ---- */

/* Mapped are granules 0-1, 2-3 and 4-5; 6 and 7 are free. */
static void unmap_one(CUmemLocationType type, const char *name, size_t at, size_t size, bool is_mixed)
{
	CUdeviceptr p = reserve(8);

	put(type, p, 2);
	put(is_mixed ? DEVICE : type, p + 2 * granule, 2);
	put(type, p + 4 * granule, 2);
	question("cuMemUnmap(%s%s)", name, is_mixed ? ", the second is of DEVICE" : "");
	say("%d", cuMemUnmap(p + at * HALF, size * HALF));
	say_mapped(p, 8);
	say("free %d", cuMemAddressFree(p, 8 * granule));
	say("then all %d", cuMemUnmap(p, 8 * granule));
	say_mapped(p, 8);
	say("free %d", cuMemAddressFree(p, 8 * granule));
	end();
}

static void unmap_parts(const int *with)
{
	static const struct {
		const char *name;
		size_t at, size; /* halves of granules */
	} unmaps[] = {
		{"a mapping", 0, 4},
		{"the first granule of a mapping", 0, 2},
		{"the second granule of a mapping", 2, 2},
		{"half a granule", 0, 1},
		{"size 0", 0, 0},
		{"two mappings", 0, 8},
		{"three mappings", 0, 12},
		{"a mapping and a half", 0, 6},
		{"half a mapping, and one", 2, 6},
		{"half of two mappings", 2, 4},
		{"a mapping and what is free behind", 8, 8},
		{"all", 0, 16},
		{"what is free", 12, 4},
		{"beyond the reservation", 8, 12},
		{"from half a granule on", 1, 4},
	};

	for (size_t i = 0; i < sizeof(unmaps) / sizeof(unmaps[0]); i++)
		unmap_one((CUmemLocationType)with[0], unmaps[i].name, unmaps[i].at, unmaps[i].size, false);
	for (size_t i = 0; i < sizeof(unmaps) / sizeof(unmaps[0]) && with[0] != DEVICE; i++)
		unmap_one((CUmemLocationType)with[0], unmaps[i].name, unmaps[i].at, unmaps[i].size, true);
}

/* ---- cuMemAddressReserve(), cuMemAddressFree() ---- */

static void reserve_one(const char *name, size_t size, size_t alignment, uint64_t flags)
{
	CUdeviceptr p = 0;

	question("cuMemAddressReserve(%s)", name);
	say("%d", cuMemAddressReserve(&p, size, alignment, 0, flags));
	if (p) {
		say("%s", alignment && p % alignment ? "not aligned" : "aligned");
		say("free %d", cuMemAddressFree(p, size));
	}
	end();
}

static void reservations(const int *with)
{
	CUdeviceptr p;

	if (with[0])
		make((CUmemLocationType)with[0], 1);
	reserve_one("a granule", granule, 0, 0);
	reserve_one("alignment a granule", granule, granule, 0);
	reserve_one("2 granules, alignment a granule", 2 * granule, granule, 0);
	reserve_one("alignment 4 KiB", granule, 4096, 0);
	reserve_one("alignment 16 granules", granule, 16 * granule, 0);
	reserve_one("alignment 3 granules", granule, 3 * granule, 0);
	reserve_one("alignment 1", granule, 1, 0);
	reserve_one("a byte more", granule + 1, 0, 0);
	reserve_one("4 KiB", 4096, 0, 0);
	reserve_one("64 KiB", 65536, 0, 0);
	reserve_one("half a granule more", granule + HALF, 0, 0);
	reserve_one("size 0", 0, 0, 0);
	reserve_one("flags 1", granule, 0, 1);
	p = reserve(4);
	question("cuMemAddressFree(a part, more, the middle, all, again)");
	say("%d", cuMemAddressFree(p, 2 * granule));
	say("%d", cuMemAddressFree(p, 5 * granule));
	say("%d", cuMemAddressFree(p + granule, granule));
	say("%d", cuMemAddressFree(p, 4 * granule));
	say("%d", cuMemAddressFree(p, 4 * granule));
	end();
}

const struct group map_groups[] = {
	{"map, DEVICE", map_parts, {DEVICE}},
	{"map, HOST", map_parts, {HOST}},
	{"map, HOST_NUMA", map_parts, {NUMA}},
	{"twice, DEVICE", map_twice, {DEVICE}},
	{"twice, HOST", map_twice, {HOST}},
	{"twice, HOST_NUMA", map_twice, {NUMA}},
	{"beyond, DEVICE", map_beyond, {DEVICE}},
	{"beyond, HOST", map_beyond, {HOST}},
	{"beyond, HOST_NUMA", map_beyond, {NUMA}},
	{"two, DEVICE", map_over_two, {DEVICE}},
	{"two, HOST", map_over_two, {HOST}},
	{"unmap, DEVICE", unmap_parts, {DEVICE}},
	{"unmap, HOST", unmap_parts, {HOST}},
	{"unmap, HOST_NUMA", unmap_parts, {NUMA}},
	{"reserve", reservations, {0}},
	{"reserve, HOST waits", reservations, {HOST}},
	{NULL, NULL, {0}},
};
