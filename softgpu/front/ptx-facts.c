/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cache/ptx-cache.h"
#include "front/ptx-facts.h"
#include "front/ptx-key.h"

/* The registers that each of 1024 threads has on a device of 65536. */
#define MOST_REGISTERS 64
#define ALL_REGISTERS 65536u
#define WARP 32u
/* More than any kernel can have. */
#define MOST_BYTES (1ull << 40)

/* Facts about one body, in order of the texts. static_shared is 0 for functions that are no kernels. */
struct fact {
	uint64_t bytes, local_bytes, static_shared, reserved_shared;
	uint32_t lines;
	uint8_t registers, dynamic_shared;
	uint8_t taken, recursive;
	struct vcuda_cache_key content; /* of a kernel */
};

struct ptx_facts {
	uint64_t count;
	struct fact list[];
};

static size_t size_of(uint64_t count)
{
	return sizeof(struct ptx_facts) + count * sizeof(struct fact);
}

struct ptx_facts *ptx_facts_make(const struct ptx_module *m)
{
	struct ptx_facts *facts = calloc(1, size_of(m->body_count));

	if (!facts)
		return NULL;
	facts->count = m->body_count;
	for (uint32_t n = 0; n < m->body_count; n++) {
		const struct ptx_function *fn = m->bodies[n];

		facts->list[n] = (struct fact){.bytes = fn->body.bytes,
					       .lines = fn->body.lines,
					       .local_bytes = fn->local_bytes,
					       .dynamic_shared = fn->dynamic_shared,
					       .recursive = fn->recursive};
		/* at most as many as let the largest block start: no launch fails for want of registers here */
		facts->list[n].registers =
			fn->reg_count < MOST_REGISTERS ? (uint8_t)(fn->reg_count + 1) : MOST_REGISTERS;
	}
	for (uint32_t f = 0; f < m->function_count; f++)
		if (m->functions[f]->function->defined)
			facts->list[m->functions[f]->function->number].taken = m->functions[f]->taken;
	for (uint32_t k = 0; k < m->kernel_count; k++) {
		facts->list[m->kernels[k].function->number].static_shared = m->kernels[k].info.static_shared;
		facts->list[m->kernels[k].function->number].reserved_shared = m->kernels[k].info.reserved_shared;
		facts->list[m->kernels[k].function->number].content = m->kernels[k].content;
	}
	return facts;
}

/* Numbers that no program is to see from a file that something else wrote. */
static bool plausible(const struct ptx_facts *facts, size_t size)
{
	if (size < sizeof(*facts) || facts->count > size / sizeof(struct fact) || size != size_of(facts->count))
		return false;
	for (uint64_t n = 0; n < facts->count; n++) {
		const struct fact *f = &facts->list[n];

		if (f->local_bytes > MOST_BYTES || f->static_shared > MOST_BYTES ||
		    f->reserved_shared > f->static_shared || !f->registers || f->registers > MOST_REGISTERS ||
		    (f->dynamic_shared | f->taken | f->recursive) > 1)
			return false;
	}
	return true;
}

struct ptx_facts *ptx_facts_load(const struct vcuda_cache_key *text)
{
	struct vcuda_cache *cache = ptx_cache_default();
	struct ptx_facts *facts;
	struct vcuda_cache_key key;
	size_t size;

	if (!cache || !ptx_key_facts(text, &key))
		return NULL;
	facts = vcuda_cache_load(cache, &key, &size);
	if (!facts || plausible(facts, size))
		return facts;
	vcuda_cache_forget(cache, &key);
	free(facts);
	return NULL;
}

void ptx_facts_store(const struct ptx_facts *facts, const struct vcuda_cache_key *text)
{
	struct vcuda_cache *cache = ptx_cache_default();
	struct vcuda_cache_key key;

	if (cache && ptx_key_facts(text, &key))
		vcuda_cache_store(cache, &key, facts, size_of(facts->count));
}

const void *ptx_facts_bytes(const struct ptx_facts *facts, size_t *size)
{
	*size = size_of(facts->count);
	return facts;
}

struct ptx_facts *ptx_facts_copy(const void *bytes, size_t size)
{
	struct ptx_facts *facts = malloc(size);

	if (!facts)
		return NULL;
	memcpy(facts, bytes, size);
	if (plausible(facts, size))
		return facts;
	free(facts);
	return NULL;
}

void ptx_facts_forget(const struct vcuda_cache_key *text)
{
	struct vcuda_cache *cache = ptx_cache_default();
	struct vcuda_cache_key key;

	if (cache && ptx_key_facts(text, &key))
		vcuda_cache_forget(cache, &key);
}

bool ptx_facts_extent(const struct ptx_facts *facts, uint32_t number, uint64_t left, struct ptx_extent *extent)
{
	if (number >= facts->count || facts->list[number].bytes < 2 || facts->list[number].bytes > left)
		return false;
	extent->bytes = facts->list[number].bytes;
	extent->lines = facts->list[number].lines;
	return true;
}

/*
 * The registers that a thread may have by the kernel's own directives: .maxnreg, and .minnctapersm blocks of .maxntid
 * threads on a multiprocessor, which natively the compiler sees to. UINT32_MAX: no bound. A number of blocks that no
 * multiprocessor has counts as none.
 */
static uint32_t directed_registers(const struct ptx_function *fn)
{
	uint64_t threads = ((uint64_t)fn->maxntid + WARP - 1) / WARP * WARP * fn->minnctapersm;
	uint32_t bound = fn->maxnreg ? fn->maxnreg : UINT32_MAX;
	uint32_t each = threads && threads <= ALL_REGISTERS ? (uint32_t)(ALL_REGISTERS / threads) & ~7u : 0;

	return each && each < bound ? each : bound;
}

bool ptx_facts_apply(const struct ptx_facts *facts, struct ptx_module *m)
{
	if (facts->count != m->body_count)
		return false;
	for (uint32_t n = 0; n < m->body_count; n++)
		m->bodies[n]->recursive = facts->list[n].recursive;
	for (uint32_t f = 0; f < m->function_count; f++)
		if (m->functions[f]->function->defined)
			m->functions[f]->taken = facts->list[m->functions[f]->function->number].taken;
	for (uint32_t k = 0; k < m->kernel_count; k++) {
		const struct fact *f = &facts->list[m->kernels[k].function->number];
		struct ptx_kernel_info *info = &m->kernels[k].info;
		uint32_t bound = directed_registers(m->kernels[k].function);

		m->kernels[k].content = f->content;
		info->static_shared = f->static_shared;
		info->reserved_shared = f->reserved_shared;
		info->local_bytes = f->local_bytes;
		info->registers = f->registers < bound ? f->registers : bound;
		info->is_bounded = m->kernels[k].function->maxntid || m->kernels[k].function->maxnreg;
		info->uses_dynamic_shared = f->dynamic_shared || m->dynamic_shared;
		info->uses_heap = m->uses_heap;
		/* another text of the module may be newer, as that of cudadevrt is */
		info->ptx_version = m->kernels[k].function->version;
		info->target_sm = m->kernels[k].function->target;
	}
	return true;
}
