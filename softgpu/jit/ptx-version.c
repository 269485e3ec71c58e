/* SPDX-License-Identifier: Apache-2.0 */
#include "jit/ptx-version.h"

#include <stdlib.h>
#include <string.h>

#include "cache/ptx-cache.h"
#include "common/log.h"
#include "jit/ptx-make.h"
#include "jit/ptx-elsewhere.h"
#include "front/ptx-statistics.h"

/*
 * Quick code is replaced once it has run for as long as it took to compile, which is a third to a fifth of what
 * optimised code takes. For how long masked code has run is not known by itself: it is often the last warp alone.
 */
#define MASKED_WORTH 4
/* Quick code of 32 lanes takes two to ten times as long to compile as scalar code. */
#define SCALAR_WORTH 2

static bool checked; /* atomic */

void ptx_check_accesses(void)
{
	__atomic_store_n(&checked, true, __ATOMIC_RELAXED);
}

bool ptx_version_is_checked(void)
{
	return __atomic_load_n(&checked, __ATOMIC_RELAXED);
}

static void report(const struct ptx_binary *b, const struct ptx_made *made, bool loaded)
{
	const char *wanted = getenv("VCUDA_VERBOSE"), *from = loaded ? "cache" : "compiler";
	const struct ptx_times *t = &made->times;
	const uint32_t *d = b->blockdim;

	if (!wanted || !*wanted)
		return;
	vcuda_log("kernel %s, block %ux%ux%u: %s code, %s, from the %s; instructions %u, ms: parse %.2f, "
		  "analysis %.2f, lowering %.2f, "
		  "passes %.2f, emission %.2f, link %.2f",
		  b->kernel->info.name, d[0], d[1], d[2],
		  made->version.masked       ? "masked"
		  : made->version.standalone ? "standalone"
					     : "full",
		  made->version.scalar  ? "scalar"
		  : made->version.quick ? "quick"
					: "optimised",
		  from, made->piece->instructions, t->parse, t->analysis, t->lowering, t->passes, t->emission, t->link);
}

static uint64_t ns_of(double ms)
{
	return ms > 0 ? (uint64_t)(ms * 1e6) : 0;
}

static void tell(const struct ptx_binary *b, const struct ptx_made *made, bool loaded, bool background, double start)
{
	const struct ptx_times *t = &made->times;
	struct vcuda_compiled compiled = {.loaded = loaded,
					  .quick = made->version.quick,
					  .background = background,
					  .instructions = made->piece->instructions,
					  .bytes = made->piece->object_bytes,
					  .wall_ns = ns_of(ptx_make_now_ms() - start),
					  .cpu_ns = ns_of(t->cpu),
					  .parse_ns = ns_of(t->parse),
					  .analysis_ns = ns_of(t->analysis),
					  .lowering_ns = ns_of(t->lowering),
					  .passes_ns = ns_of(t->passes),
					  .emission_ns = ns_of(t->emission),
					  .link_ns = ns_of(t->link)};

	ptx_elsewhere_tell(b->kernel, &compiled);
}

static void forget_description(struct ptx_binary *b)
{
	free(b->sites);
	free(b->offsets);
	b->sites = NULL;
	b->offsets = NULL;
}

/* Code that runs, of a piece, which stays the caller's. */
static enum ptx_status take(struct ptx_binary *b, struct ptx_made *made, bool describe, struct ptx_machine_code **code,
			    struct ptx_error *error)
{
	struct ptx_machine_code *c = calloc(1, sizeof(*c));
	double start = ptx_make_now_ms();
	char name[PTX_NAME_BYTES];

	ptx_key_name(b->kernel, b->blockdim, made->version, name);
	if (!c || (describe && !ptx_piece_describe(made->piece, b)) ||
	    !ptx_jit_link(b->kernel->function->module, ptx_piece_object(made->piece), made->piece->object_bytes, name,
			  &c->code, error)) {
		if (describe)
			forget_description(b);
		free(c);
		return PTX_NO_MEMORY;
	}
	c->stack = made->piece->stack;
	c->quick = made->version.quick;
	c->worth_ns = made->piece->made_us * 1000ull *
		      (made->version.masked   ? MASKED_WORTH
		       : made->version.scalar ? SCALAR_WORTH
					      : 1);
	*code = c;
	made->times.link = ptx_make_now_ms() - start;
	return PTX_OK;
}

static bool load(struct ptx_binary *b, struct ptx_version v, bool describe, struct ptx_machine_code **code)
{
	struct vcuda_cache *cache = ptx_cache_default();
	struct ptx_made made = {.version = v};
	double start = ptx_make_now_ms();
	struct ptx_error error = {0};
	struct vcuda_cache_key key;
	bool ok = false;
	size_t size;

	if (!cache || !ptx_key_version(b->kernel, b->blockdim, v, &key))
		return false;
	made.piece = vcuda_cache_load(cache, &key, &size);
	if (!made.piece)
		return false;
	if (ptx_piece_is_good(made.piece, size, v.masked))
		ok = take(b, &made, describe, code, &error) == PTX_OK;
	made.times.link = ptx_make_now_ms() - start;
	if (ok) {
		ptx_statistics_count(&ptx_statistics.loaded);
		report(b, &made, true);
		tell(b, &made, true, false, start);
	} else {
		vcuda_cache_forget(cache, &key);
	}
	free(made.piece);
	return ok;
}

static enum ptx_status use(struct ptx_binary *b, struct ptx_made *made, bool describe, struct ptx_machine_code **code,
			   struct ptx_error *error)
{
	struct vcuda_cache_key key;
	bool keep = ptx_key_version(b->kernel, b->blockdim, made->version, &key);
	enum ptx_status status = take(b, made, describe, code, error);

	ptx_statistics_count(&ptx_statistics.compiled);
	if (made->version.quick)
		ptx_statistics_count(&ptx_statistics.quick);
	report(b, made, false);
	if (status == PTX_OK && keep && ptx_cache_default())
		vcuda_cache_store(ptx_cache_default(), &key, made->piece, ptx_piece_size(made->piece));
	return status;
}

enum ptx_status ptx_version_make(struct ptx_binary *b, struct ptx_version *v, bool choose, bool describe,
				 struct ptx_machine_code **code, struct ptx_error *error)
{
	const struct ptx_version quick = {.masked = v->masked, .quick = true, .checked = v->checked};
	const struct ptx_version first[] = {{.quick = true, .scalar = true}, {.quick = true, .standalone = true}};
	struct ptx_wanted wanted = {
		.kernel = b->kernel, .version = *v, .choose = choose, .urgent = describe && v->quick};
	double start = ptx_make_now_ms();
	enum ptx_status status;
	struct ptx_made made;

	if (load(b, *v, describe, code))
		return PTX_OK;
	if (choose && !ptx_make_is_patient() && load(b, quick, describe, code)) {
		*v = quick;
		return PTX_OK;
	}
	for (unsigned n = 0; n < 2 && choose && ptx_make_may_be_replaced(*v); n++)
		if (load(b, first[n], describe, code)) {
			*v = first[n];
			return PTX_OK;
		}
	memcpy(wanted.blockdim, b->blockdim, sizeof(wanted.blockdim));
	status = (ptx_elsewhere_is_used() ? ptx_elsewhere_make : ptx_make)(&wanted, &made, error);
	if (status != PTX_OK)
		return status;
	*v = made.version;
	status = use(b, &made, describe, code, error);
	tell(b, &made, false, !choose, start);
	free(made.piece);
	return status;
}
