/* SPDX-License-Identifier: Apache-2.0 */
/* Names of special registers. */
#include <stdio.h>
#include <string.h>

#include "common/reserved-shared.h"
#include "front/ptx-ir.h"

static const char *const specials[PTX_SPECIAL_COUNT] = {
	[PTX_TID_X] = "%tid.x",
	[PTX_TID_Y] = "%tid.y",
	[PTX_TID_Z] = "%tid.z",
	[PTX_NTID_X] = "%ntid.x",
	[PTX_NTID_Y] = "%ntid.y",
	[PTX_NTID_Z] = "%ntid.z",
	[PTX_CTAID_X] = "%ctaid.x",
	[PTX_CTAID_Y] = "%ctaid.y",
	[PTX_CTAID_Z] = "%ctaid.z",
	[PTX_NCTAID_X] = "%nctaid.x",
	[PTX_NCTAID_Y] = "%nctaid.y",
	[PTX_NCTAID_Z] = "%nctaid.z",
	[PTX_LANEID] = "%laneid",
	[PTX_WARPID] = "%warpid",
	[PTX_NWARPID] = "%nwarpid",
	[PTX_SMID] = "%smid",
	[PTX_NSMID] = "%nsmid",
	[PTX_GRIDID] = "%gridid",
	[PTX_MASK_EQ] = "%lanemask_eq",
	[PTX_MASK_LE] = "%lanemask_le",
	[PTX_MASK_LT] = "%lanemask_lt",
	[PTX_MASK_GE] = "%lanemask_ge",
	[PTX_MASK_GT] = "%lanemask_gt",
	[PTX_CLOCK] = "%clock",
	[PTX_CLOCK_HI] = "%clock_hi",
	[PTX_CLOCK64] = "%clock64",
	[PTX_GLOBALTIMER] = "%globaltimer",
	[PTX_GLOBALTIMER_LO] = "%globaltimer_lo",
	[PTX_GLOBALTIMER_HI] = "%globaltimer_hi",
	[PTX_DYNAMIC_SMEM] = "%dynamic_smem_size",
	[PTX_TOTAL_SMEM] = "%total_smem_size",
	[PTX_ALWAYS_0] = "%cluster_ctarank",
	[PTX_ALWAYS_1] = "%cluster_nctarank",
	[PTX_ENVREG1] = "%envreg1",
	[PTX_ENVREG2] = "%envreg2",
};

/* A cluster has one block here; no launch is from a graph's device side. */
static const struct {
	const char *name;
	enum ptx_special special;
} special_aliases[] = {
	{"%cluster_ctaid.x", PTX_ALWAYS_0},	{"%cluster_ctaid.y", PTX_ALWAYS_0},
	{"%cluster_ctaid.z", PTX_ALWAYS_0},	{"%cluster_nctaid.x", PTX_ALWAYS_1},
	{"%cluster_nctaid.y", PTX_ALWAYS_1},	{"%cluster_nctaid.z", PTX_ALWAYS_1},
	{"%clusterid.x", PTX_CTAID_X},		{"%clusterid.y", PTX_CTAID_Y},
	{"%clusterid.z", PTX_CTAID_Z},		{"%nclusterid.x", PTX_NCTAID_X},
	{"%nclusterid.y", PTX_NCTAID_Y},	{"%nclusterid.z", PTX_NCTAID_Z},
	{"%is_explicit_cluster", PTX_ALWAYS_0}, {"%aggr_smem_size", PTX_TOTAL_SMEM},
	{"%current_graph_exec", PTX_ALWAYS_0},
};

/* Fourth parts of vectors; performance counters, which count nothing; what only a driver writes. */
static bool is_always_zero(const char *name)
{
	static const char *const vectors[] = {"%tid", "%ntid", "%ctaid", "%nctaid", "%clusterid", "%nclusterid",
					      "%cluster_ctaid", "%cluster_nctaid"};
	size_t length = strlen(name);
	unsigned number;
	int end = 0;

	for (size_t n = 0; n < sizeof(vectors) / sizeof(vectors[0]); n++)
		if (length == strlen(vectors[n]) + 2 && !memcmp(name, vectors[n], length - 2) &&
		    !strcmp(name + length - 2, ".w"))
			return true;
	if (sscanf(name, "%%envreg%2u%n", &number, &end) == 1 && !name[end])
		return number < 32;
	if (sscanf(name, "%%pm%1u%n", &number, &end) == 1)
		return number < 8 && (!name[end] || !strcmp(name + end, "_64"));
	return false;
}

int ptx_special_find(const char *name)
{
	for (int i = 0; i < PTX_SPECIAL_COUNT; i++)
		if (!strcmp(specials[i], name))
			return i;
	for (size_t i = 0; i < sizeof(special_aliases) / sizeof(special_aliases[0]); i++)
		if (!strcmp(special_aliases[i].name, name))
			return special_aliases[i].special;
	return is_always_zero(name) ? PTX_ALWAYS_0 : -1;
}

/* Cooperative groups of several warps have 288 bytes behind %reserved_smem_offset_1. */
static const struct ptx_symbol reserved_shared = {
	.name = "%reserved_smem", .kind = PTX_SYM_VARIABLE, .space = PTX_SHARED, .size = VCUDA_RESERVED_BYTES, .align = 128};

const struct ptx_symbol *ptx_special_reserved(const char *name, uint64_t *offset)
{
	static const struct {
		const char *end;
		uint64_t offset;
	} parts[] = {{"begin", 0}, {"0", 0}, {"1", VCUDA_RESERVED_OFFSET_1}, {"end", VCUDA_RESERVED_BYTES}};
	static const char start[] = "%reserved_smem_offset_";

	if (strncmp(name, start, sizeof(start) - 1) != 0)
		return NULL;
	for (size_t n = 0; n < sizeof(parts) / sizeof(parts[0]); n++)
		if (!strcmp(name + sizeof(start) - 1, parts[n].end)) {
			*offset = parts[n].offset;
			return &reserved_shared;
		}
	return NULL;
}

bool ptx_special_constant(const char *name, uint64_t *value)
{
	if (strcmp(name, "%reserved_smem_offset_cap") != 0)
		return false;
	*value = VCUDA_RESERVED_BYTES;
	return true;
}
