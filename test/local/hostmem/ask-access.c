/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemSetAccess() and cuMemGetAccess(). */
#include "ask.h"

#define HALF (granule / 2)

static const CUmemLocation places[] = {
	{DEVICE, 0}, {DEVICE, 100}, {DEVICE, -1}, {HOST, 0},    {HOST, 55},   {HOST, -1},
	{NUMA, 0},   {NUMA, 55},    {NUMA, -1},   {CURRENT, 0}, {NOWHERE, 0}, {(CUmemLocationType)9, 0},
};

#define PLACES (sizeof(places) / sizeof(places[0]))

/* cuMemGetAccess() for a device, HOST and HOST_NUMA, and what a processor may do. */
static void say_access(CUdeviceptr p)
{
	static const CUmemLocationType asked[] = {DEVICE, HOST, NUMA};

	for (size_t i = 0; i < 3; i++) {
		CUmemLocation where = {asked[i], 0};
		unsigned long long flags = 99;
		CUresult code = cuMemGetAccess(&flags, &where, p);

		if (code == CUDA_SUCCESS)
			say("%s %llu", place_name(asked[i]), flags);
		else
			say("%s error %d", place_name(asked[i]), code);
	}
	say("CPU %s", processor_at(p));
}

/* ---- one place ---- */

static void set_one(CUmemLocationType memory, CUmemLocation where, int flags)
{
	CUdeviceptr p = reserve(1);
	CUmemGenericAllocationHandle handle = put(memory, p, 1);

	question("cuMemSetAccess(%s %d, flags %d)", place_name(where.type), where.id, flags);
	say("%d", give(p, granule, where.type, where.id, (CUmemAccess_flags)flags));
	say_access(p);
	/* A driver may say later what it cannot write to. */
	if (flags != READ)
		say("cuMemsetD8 %d", cuMemsetD8_v2(p, 1, 16));
	cuMemUnmap(p, granule);
	cuMemAddressFree(p, granule);
	cuMemRelease(handle);
	end();
}

static void set_access(const int *with)
{
	CUmemLocationType memory = (CUmemLocationType)with[0];

	for (size_t i = 0; i < PLACES; i++) {
		set_one(memory, places[i], RW);
		set_one(memory, places[i], READ);
		set_one(memory, places[i], NO_ACCESS);
	}
	for (int flags = 2; flags <= 8; flags += 6) {
		set_one(memory, (CUmemLocation){DEVICE, 0}, flags);
		set_one(memory, (CUmemLocation){HOST, 0}, flags);
	}
}

/* ---- one after the other ---- */

static void change(const int *with)
{
	static const struct {
		CUmemLocationType type;
		CUmemAccess_flags flags;
	} steps[] = {
		{DEVICE, RW},        {HOST, RW},   {HOST, READ},      {HOST, NO_ACCESS}, {NUMA, RW},
		{DEVICE, NO_ACCESS}, {NUMA, READ}, {HOST, READ},      {HOST, NO_ACCESS}, {DEVICE, READ},
		{DEVICE, RW},        {HOST, RW},   {NUMA, NO_ACCESS}, {DEVICE, RW},
	};
	CUdeviceptr p = reserve(1);

	put((CUmemLocationType)with[0], p, 1);
	question("cuMemGetAccess after cuMemMap");
	say_access(p);
	end();
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		question("step %zu, cuMemSetAccess(%s 0, flags %d)", i, place_name(steps[i].type), steps[i].flags);
		say("%d", give(p, granule, steps[i].type, 0, steps[i].flags));
		say_access(p);
		end();
	}
	question("mapped again");
	say("unmap %d", cuMemUnmap(p, granule));
	put((CUmemLocationType)with[0], p, 1);
	say_access(p);
	end();
}

/* ---- several at once ---- */

static void set_several(const int *with)
{
	static const struct {
		const char *name;
		CUmemAccessDesc of[2];
		size_t count;
	} sets[] = {
		{"DEVICE and HOST", {{{DEVICE, 0}, RW}, {{HOST, 0}, RW}}, 2},
		{"HOST and DEVICE", {{{HOST, 0}, RW}, {{DEVICE, 0}, RW}}, 2},
		{"DEVICE and HOST_NUMA", {{{DEVICE, 0}, RW}, {{NUMA, 0}, RW}}, 2},
		{"HOST and HOST_NUMA", {{{HOST, 0}, RW}, {{NUMA, 0}, READ}}, 2},
		{"DEVICE to write, DEVICE to read", {{{DEVICE, 0}, RW}, {{DEVICE, 0}, READ}}, 2},
		{"DEVICE to read, DEVICE to write", {{{DEVICE, 0}, READ}, {{DEVICE, 0}, RW}}, 2},
		{"HOST to write, HOST to read", {{{HOST, 0}, RW}, {{HOST, 0}, READ}}, 2},
		{"DEVICE and DEVICE 100", {{{DEVICE, 0}, RW}, {{DEVICE, 100}, RW}}, 2},
		{"HOST and DEVICE 100", {{{HOST, 0}, RW}, {{DEVICE, 100}, RW}}, 2},
		{"HOST and no place", {{{HOST, 0}, RW}, {{NOWHERE, 0}, RW}}, 2},
		{"DEVICE and HOST with flags 2", {{{DEVICE, 0}, RW}, {{HOST, 0}, (CUmemAccess_flags)2}}, 2},
		{"HOST, of two the first", {{{HOST, 0}, RW}, {{NOWHERE, 0}, RW}}, 1},
		{"none", {{{HOST, 0}, RW}}, 0},
	};

	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		CUdeviceptr p = reserve(1);

		put((CUmemLocationType)with[0], p, 1);
		question("cuMemSetAccess(%s)", sets[i].name);
		say("%d", cuMemSetAccess(p, granule, sets[i].of, sets[i].count));
		say_access(p);
		end();
	}
	question("cuMemSetAccess(NULL, 1 and 0)");
	say("%d", cuMemSetAccess(reserve(1), granule, NULL, 1));
	say("%d", cuMemSetAccess(reserve(1), granule, NULL, 0));
	end();
}

/* ---- parts ---- */

/* A letter for each granule: its access for the place, or x. */
static void say_row(CUdeviceptr p, size_t granules, CUmemLocationType type)
{
	CUmemLocation where = {type, 0};
	char row[16] = "";

	for (size_t i = 0; i < granules; i++) {
		unsigned long long flags = 99;

		row[i] = cuMemGetAccess(&flags, &where, p + i * granule) ? 'x' : (char)('0' + flags % 10);
	}
	say("%s %s", place_name(type), row);
}

static void say_processor_row(CUdeviceptr p, size_t granules)
{
	char row[16] = "";

	for (size_t i = 0; i < granules; i++)
		row[i] = read_faults(p + i * granule) ? '0' : write_faults(p + i * granule) ? '1' : '3';
	say("CPU %s", row);
}

static const struct part {
	const char *name;
	size_t at, size; /* halves of granules */
} parts[] = {
	{"a mapping", 0, 4},
	{"its first granule", 0, 2},
	{"its second granule", 2, 2},
	{"half a granule", 0, 1},
	{"size 0", 0, 0},
	{"two mappings", 0, 6},
	{"a half and a whole", 2, 4},
	{"two mappings and a gap", 0, 8},
	{"over a gap", 4, 6},
	{"a gap", 6, 2},
	{"from half a granule on", 1, 4},
	{"beyond the reservation", 8, 8},
};

/* Granules 0-1 are of the first place, 2 of the second, 3 free, 4 of the first. */
static void set_part(const int *with, const struct part *t, CUmemLocationType type)
{
	CUdeviceptr p = reserve(6);

	put((CUmemLocationType)with[0], p, 2);
	put((CUmemLocationType)with[1], p + 2 * granule, 1);
	put((CUmemLocationType)with[0], p + 4 * granule, 1);
	question("cuMemSetAccess(%s, %s 0)", t->name, place_name(type));
	say("%d", give(p + t->at * HALF, t->size * HALF, type, 0, RW));
	say_row(p, 5, DEVICE);
	say_row(p, 5, HOST);
	say_processor_row(p, 5);
	say("then all mapped %d", give(p, 3 * granule, type, 0, RW));
	end();
}

static void set_parts(const int *with)
{
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		set_part(with, &parts[i], DEVICE);
		set_part(with, &parts[i], HOST);
		set_part(with, &parts[i], NUMA);
	}
}

/* ---- cuMemGetAccess() ---- */

static void get_at(const char *name, CUdeviceptr p, bool is_given)
{
	if (is_given) {
		give(p, granule, DEVICE, 0, READ);
		give(p, granule, HOST, 0, RW);
	}
	for (size_t i = 0; i < PLACES; i++) {
		CUmemLocation where = places[i];
		unsigned long long flags = 99;

		question("cuMemGetAccess(%s, %s %d)", name, place_name(where.type), where.id);
		say("%d", cuMemGetAccess(&flags, &where, p));
		say("flags %llu", flags);
		end();
	}
}

static void get_access(const int *with)
{
	CUmemLocation where = {(CUmemLocationType)with[0], 0};
	unsigned long long flags;
	CUdeviceptr p = reserve(2), q;

	put((CUmemLocationType)with[0], p, 1);
	get_at("mapped", p, false);
	get_at("given", p, true);
	get_at("not mapped", p + granule, false);
	get_at("address 0", 0, false);
	if (cuMemAlloc_v2(&q, granule) == CUDA_SUCCESS)
		get_at("memory of cuMemAlloc", q, false);
	question("cuMemGetAccess(within)");
	say("%d", cuMemGetAccess(&flags, &where, p + 5));
	say("%d", cuMemGetAccess(&flags, &where, p + granule - 1));
	end();
	question("cuMemGetAccess(NULL)");
	say("flags %d", cuMemGetAccess(NULL, &where, p));
	say("place %d", cuMemGetAccess(&flags, NULL, p));
	end();
}

const struct group access_groups[] = {
	{"access, DEVICE", set_access, {DEVICE}},
	{"access, HOST", set_access, {HOST}},
	{"access, HOST_NUMA", set_access, {NUMA}},
	{"change, DEVICE", change, {DEVICE}},
	{"change, HOST", change, {HOST}},
	{"change, HOST_NUMA", change, {NUMA}},
	{"several, DEVICE", set_several, {DEVICE}},
	{"several, HOST", set_several, {HOST}},
	{"several, HOST_NUMA", set_several, {NUMA}},
	{"part, DEVICE and DEVICE", set_parts, {DEVICE, DEVICE}},
	{"part, HOST and HOST", set_parts, {HOST, HOST}},
	{"part, HOST and DEVICE", set_parts, {HOST, DEVICE}},
	{"part, HOST_NUMA and HOST", set_parts, {NUMA, HOST}},
	{"get, DEVICE", get_access, {DEVICE}},
	{"get, HOST", get_access, {HOST}},
	{"get, HOST_NUMA", get_access, {NUMA}},
	{NULL, NULL, {0}},
};
