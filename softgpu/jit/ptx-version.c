/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A version of a kernel as one piece of memory: what running needs to know, the memory instructions, the machine code.
 * The same piece comes from the compiler and from the cache. What is in the cache was written by this very build of the
 * compiler, for this key, and its checksum is right; sizes are checked all the same.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "front/ptx-cache.h"
#include "common/log.h"
#include "jit/ptx-compile.h"
#include "front/ptx-statistics.h"

struct piece {
	uint64_t stack, object_bytes;
	uint32_t plain_bytes, site_count, offset_count, instructions;
};

#define PLAIN_START offsetof(struct ptx_binary, lanes)
#define PLAIN_BYTES (sizeof(struct ptx_binary) - PLAIN_START)
/*
 * Measured: what takes more than about 0.3 s to optimise has more instructions. A masked version takes twice as long
 * and often runs for the last warp alone: it is always quick first.
 */
#define MANY_INSTRUCTIONS 300
/* What has more than this stays quick: nobody should hold the background thread for minutes. */
#define OPTIMISED_INSTRUCTIONS 16384
/* The same of targets of brx.idx: the time grows with their square. 120 take 0.5 s, 1000 more than a minute. */
#define OPTIMISED_CHOICES 192

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void report(const struct ptx_binary *b, struct ptx_version v, const struct piece *piece,
		   const struct ptx_times *t, bool loaded)
{
	const char *wanted = getenv("VCUDA_VERBOSE"), *from = loaded ? "cache" : "compiler";
	const uint32_t *d = b->blockdim;

	if (!wanted || !*wanted)
		return;
	vcuda_log("kernel %s, block %ux%ux%u: %s code, %s, from the %s; instructions %u, ms: analysis %.2f, lowering "
		  "%.2f, "
		  "passes %.2f, emission %.2f, link %.2f",
		  b->kernel->info.name, d[0], d[1], d[2], v.masked ? "masked" : "full", v.quick ? "quick" : "optimised",
		  from, piece->instructions, t->analysis, t->lowering, t->passes, t->emission, t->link);
}

/* ---- pieces ---- */

static size_t piece_size(const struct piece *p)
{
	return sizeof(*p) + p->plain_bytes + p->site_count * sizeof(struct ptx_site) +
	       p->offset_count * sizeof(int64_t[PTX_SITE_LANES]) + p->object_bytes;
}

static bool good_piece(const struct piece *p, size_t size)
{
	return size >= sizeof(*p) && p->plain_bytes == PLAIN_BYTES && p->object_bytes < size &&
	       p->offset_count <= p->site_count && piece_size(p) == size;
}

static void *piece_sites(const struct piece *p)
{
	return (char *)(uintptr_t)(p + 1) + p->plain_bytes;
}

static void *piece_offsets(const struct piece *p)
{
	return (char *)piece_sites(p) + p->site_count * sizeof(struct ptx_site);
}

static void *piece_object(const struct piece *p)
{
	return (char *)piece_offsets(p) + p->offset_count * sizeof(int64_t[PTX_SITE_LANES]);
}

/* What is the same for all versions of the kernel for this block shape. */
static void describe_plan(const struct ptx_plan *plan, struct ptx_binary *b)
{
	const struct ptx_body *body = &plan->body;

	b->lanes = plan->lanes;
	b->site_count = plan->low.site_count;
	b->static_shared = body->static_shared;
	b->local_stride = body->local_bytes;
	b->frame_bytes = plan->low.frame_bytes;
	b->fibers = b->lanes > 1 && ptx_body_turns(body);
	b->warp_loop = b->lanes > 1 && body->has_warp_loop;
	b->waits = b->lanes > 1 && body->has_waits;
	b->strides = b->lanes > 1 && body->has_strides && !body->has_waits && !body->has_signals;
}

/* Pointers to offsets become their numbers, from 1. */
static void pack_sites(const struct ptx_lowering *low, struct piece *p)
{
	struct ptx_site *sites = piece_sites(p), site;
	char *offsets = piece_offsets(p);
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

static struct piece *pack(const struct ptx_plan *plan, bool masked, LLVMMemoryBufferRef object, uint64_t stack)
{
	struct piece head = {.stack = stack,
			     .object_bytes = LLVMGetBufferSize(object),
			     .plain_bytes = PLAIN_BYTES,
			     .instructions = plan->body.instr_count},
		     *p;
	struct ptx_binary described;

	if (!masked)
		head.site_count = plan->low.site_count;
	for (uint32_t n = 0; n < head.site_count; n++)
		head.offset_count += plan->low.site_list[n].offsets != NULL;
	p = malloc(piece_size(&head));
	if (!p)
		return NULL;
	*p = head;
	memset(&described, 0, sizeof(described));
	describe_plan(plan, &described);
	memcpy(p + 1, (char *)&described + PLAIN_START, PLAIN_BYTES);
	pack_sites(&plan->low, p);
	memcpy(piece_object(p), LLVMGetBufferStart(object), head.object_bytes);
	return p;
}

/* Fills in what a piece says about all versions. */
static bool unpack(struct ptx_binary *b, const struct piece *p)
{
	size_t sites = p->site_count * sizeof(struct ptx_site);
	size_t offsets = p->offset_count * sizeof(int64_t[PTX_SITE_LANES]);
	struct ptx_binary described;

	memcpy((char *)&described + PLAIN_START, p + 1, PLAIN_BYTES);
	if (described.site_count != p->site_count)
		return false;
	memcpy((char *)b + PLAIN_START, p + 1, PLAIN_BYTES);
	b->sites = malloc(sites + 1);
	b->offsets = malloc(offsets + 1);
	if (!b->sites || !b->offsets)
		return false;
	memcpy(b->sites, piece_sites(p), sites);
	memcpy(b->offsets, piece_offsets(p), offsets);
	for (uint32_t n = 0; n < p->site_count; n++) {
		uintptr_t number = (uintptr_t)b->sites[n].offsets;

		if (number > p->offset_count)
			return false;
		b->sites[n].offsets = number ? b->offsets[number - 1] : NULL;
	}
	return true;
}

static void forget_description(struct ptx_binary *b)
{
	free(b->sites);
	free(b->offsets);
	b->sites = NULL;
	b->offsets = NULL;
}

/* ---- making a version ---- */

static void function_name(const struct vcuda_cache_key *key, char name[40])
{
	strcpy(name, "ptx_");
	for (unsigned n = 0; n < 16; n++)
		snprintf(name + 4 + 2 * n, 3, "%02x", key->bytes[n]);
}

/* A piece that runs: takes nothing over. */
static enum ptx_status take(struct ptx_binary *b, struct ptx_version v, const struct piece *p,
			    const struct vcuda_cache_key *key, bool describe, struct ptx_machine_code **code,
			    struct ptx_error *error)
{
	struct ptx_machine_code *made = calloc(1, sizeof(*made));
	char name[40];

	function_name(key, name);
	if (!made || (describe && !unpack(b, p)) ||
	    !ptx_jit_link(b->kernel->function->module, piece_object(p), p->object_bytes, name, &made->code, error)) {
		if (describe)
			forget_description(b);
		free(made);
		return PTX_NO_MEMORY;
	}
	made->stack = p->stack;
	made->quick = v.quick;
	*code = made;
	return PTX_OK;
}

static bool load(struct ptx_binary *b, struct ptx_version v, bool describe, struct ptx_machine_code **code)
{
	struct vcuda_cache *cache = ptx_cache_default();
	struct ptx_error error = {0};
	struct ptx_times times = {0};
	double start = now_ms();
	struct vcuda_cache_key key;
	struct piece *p;
	bool ok = false;
	size_t size;

	if (!cache || !ptx_key_version(b->kernel, b->blockdim, v, &key))
		return false;
	p = vcuda_cache_load(cache, &key, &size);
	if (!p)
		return false;
	if (good_piece(p, size) && (!v.masked || !p->site_count))
		ok = take(b, v, p, &key, describe, code, &error) == PTX_OK;
	times.link = now_ms() - start;
	if (ok) {
		ptx_statistics_count(&ptx_statistics.loaded);
		report(b, v, p, &times, true);
	} else {
		vcuda_cache_forget(cache, &key);
	}
	free(p);
	return ok;
}

static enum ptx_status compile(struct ptx_binary *b, struct ptx_plan *plan, struct ptx_version v, bool describe,
			       struct ptx_machine_code **code, struct ptx_times *times, struct ptx_error *error)
{
	LLVMMemoryBufferRef object = NULL;
	enum ptx_status status;
	struct piece *p = NULL;
	struct vcuda_cache_key key;
	bool keep = ptx_key_version(b->kernel, b->blockdim, v, &key);
	uint64_t stack;
	double start;
	char name[40];

	function_name(&key, name);
	status = ptx_compile(plan, v, name, &object, &stack, times, error);
	if (status != PTX_OK)
		return status;
	start = now_ms();
	p = pack(plan, v.masked, object, stack);
	LLVMDisposeMemoryBuffer(object);
	if (!p)
		return PTX_NO_MEMORY;
	status = take(b, v, p, &key, describe, code, error);
	times->link = now_ms() - start;
	ptx_statistics_count(&ptx_statistics.compiled);
	if (v.quick)
		ptx_statistics_count(&ptx_statistics.quick);
	report(b, v, p, times, false);
	if (status == PTX_OK && keep && ptx_cache_default())
		vcuda_cache_store(ptx_cache_default(), &key, p, piece_size(p));
	free(p);
	return status;
}

/* VCUDA_CPU_COMPILE=optimised: for tests and for timing, no quick code but where nothing else is made. */
static bool is_patient(void)
{
	const char *wanted = getenv("VCUDA_CPU_COMPILE");

	return wanted && !strcmp(wanted, "optimised");
}

static bool stays_quick(const struct ptx_plan *plan)
{
	return plan->body.instr_count > OPTIMISED_INSTRUCTIONS || plan->body.choices > OPTIMISED_CHOICES;
}

static bool starts_quick(struct ptx_version v, const struct ptx_plan *plan)
{
	return stays_quick(plan) || (!is_patient() && (v.masked || plan->body.instr_count > MANY_INSTRUCTIONS));
}

enum ptx_status ptx_version_make(struct ptx_binary *b, struct ptx_version *v, bool choose, bool describe,
				 struct ptx_machine_code **code, struct ptx_error *error)
{
	struct ptx_version quick = {v->masked, true};
	struct ptx_times times = {0};
	double start = now_ms();
	enum ptx_status status;
	struct ptx_plan *plan;

	if (load(b, *v, describe, code))
		return PTX_OK;
	if (choose && !is_patient() && load(b, quick, describe, code)) {
		*v = quick;
		return PTX_OK;
	}
	status = ptx_plan_create(b->kernel, b->blockdim, &plan, error);
	if (status != PTX_OK)
		return status;
	times.analysis = now_ms() - start;
	if (choose && starts_quick(*v, plan))
		*v = quick;
	if (!v->quick && stays_quick(plan))
		status = PTX_NOT_SUPPORTED;
	else
		status = compile(b, plan, *v, describe, code, &times, error);
	ptx_plan_destroy(plan);
	return status;
}
