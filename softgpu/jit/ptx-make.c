/* SPDX-License-Identifier: Apache-2.0 */
#include "jit/ptx-make.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * Code of 32 lanes is always quick first: optimised code takes 3 to 5 times as long to compile. A kernel without loops
 * whose threads do not work together has scalar code before that, which takes a half to a tenth of the time of quick
 * code for 32 lanes. Code of one lane is not quick first where that takes less than about 0.3 s: such a block often runs
 * for long, and ends in the code that it began in.
 */
#define MANY_INSTRUCTIONS 300
#define SCALAR_INSTRUCTIONS 32
/*
 * In a kernel with so many branches that lanes may take apart, the lanes of some warp nearly always part, so the kernel
 * needs a masked version beside the full one. Standalone code takes half the time of both to compile. It ran warps whose
 * lanes part up to twice as fast as both, and warps whose lanes stay together up to 7 times more slowly than the full
 * version: a smaller kernel, which compiles in less than about 0.1 s, is not worth that.
 */
#define STANDALONE_BRANCHES 8
#define STANDALONE_INSTRUCTIONS 256
/* A larger kernel stays quick, so that it does not keep the background thread busy for minutes. */
#define OPTIMISED_INSTRUCTIONS 16384
/* The same of targets of brx.idx: the time grows with their square. 120 take 0.5 s, 1000 more than a minute. */
#define OPTIMISED_CHOICES 192

static double ms_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

double ptx_make_now_ms(void)
{
	return ms_of(CLOCK_MONOTONIC);
}

double ptx_make_cpu_ms(void)
{
	return ms_of(CLOCK_THREAD_CPUTIME_ID);
}

static bool is_wanted(const char *how)
{
	const char *wanted = getenv("VCUDA_CPU_COMPILE");

	return wanted && !strcmp(wanted, how);
}

bool ptx_make_is_patient(void)
{
	return is_wanted("optimised");
}

bool ptx_make_may_be_replaced(struct ptx_version v)
{
	return !v.masked && !v.checked && !ptx_make_is_patient() && !is_wanted("quick");
}

static bool stays_quick(const struct ptx_plan *plan)
{
	return plan->body.instr_count > OPTIMISED_INSTRUCTIONS || plan->body.choices > OPTIMISED_CHOICES;
}

static bool starts_quick(struct ptx_version v, const struct ptx_plan *plan)
{
	return stays_quick(plan) ||
	       (!ptx_make_is_patient() && (v.masked || plan->lanes > 1 || plan->body.instr_count > MANY_INSTRUCTIONS));
}

static enum ptx_status compile(const struct ptx_wanted *w, struct ptx_plan *plan, struct ptx_made *made,
			       struct ptx_error *error)
{
	LLVMMemoryBufferRef object = NULL;
	char name[PTX_NAME_BYTES];
	enum ptx_status status;
	uint64_t stack;

	ptx_key_name(w->kernel, w->blockdim, made->version, name);
	status = ptx_compile(plan, made->version, name, &object, &stack, &made->times, error);
	if (status != PTX_OK)
		return status;
	made->piece = ptx_piece_pack(plan, made->version, object, stack);
	LLVMDisposeMemoryBuffer(object);
	return made->piece ? PTX_OK : PTX_NO_MEMORY;
}

/* Less than this is not worth code that another one replaces. */
static bool is_small(const struct ptx_plan *plan)
{
	return plan->body.instr_count < SCALAR_INSTRUCTIONS;
}

/* A plan for code of one lane where that is allowed and better code can follow. */
static enum ptx_status create_plan(const struct ptx_wanted *w, struct ptx_version *version, struct ptx_plan **plan,
				   struct ptx_error *error)
{
	enum ptx_status status;

	version->scalar |= w->choose && ptx_make_may_be_replaced(*version) && !is_wanted("standalone");
	status = ptx_plan_create(w->kernel, w->blockdim, &version->scalar, plan, error);
	if (status != PTX_OK || !version->scalar || (!stays_quick(*plan) && !is_small(*plan)))
		return status;
	ptx_plan_destroy(*plan);
	version->scalar = false;
	return ptx_plan_create(w->kernel, w->blockdim, NULL, plan, error);
}

static unsigned varying_branches(const struct ptx_body *body)
{
	unsigned count = 0;

	for (uint32_t n = 0; n < body->block_count; n++)
		count += body->blocks[n].condition >= 0 && body->shapes[body->blocks[n].condition].kind != PTX_UNIFORM;
	return count;
}

/* A block of fewer threads than a warp has lanes never runs the full version. */
static bool is_standalone(const struct ptx_wanted *w, const struct ptx_plan *plan)
{
	if (!w->choose || !ptx_make_may_be_replaced(w->version) || plan->lanes == 1 || stays_quick(plan))
		return false;
	return is_wanted("standalone") || plan->body.threads < PTX_LANES ||
	       (plan->body.instr_count >= STANDALONE_INSTRUCTIONS &&
		varying_branches(&plan->body) >= STANDALONE_BRANCHES);
}

enum ptx_status ptx_make(const struct ptx_wanted *w, struct ptx_made *made, struct ptx_error *error)
{
	double start = ptx_make_now_ms(), cpu = ptx_make_cpu_ms();
	enum ptx_status status;
	struct ptx_plan *plan;

	*made = (struct ptx_made){.version = w->version};
	status = create_plan(w, &made->version, &plan, error);
	if (status != PTX_OK)
		return status;
	made->times.parse = plan->parse_ms;
	made->times.analysis = ptx_make_now_ms() - start - plan->parse_ms;
	if (w->choose && (made->version.scalar || starts_quick(w->version, plan)))
		made->version.quick = true;
	made->version.standalone |= !made->version.scalar && is_standalone(w, plan);
	if (!made->version.quick && stays_quick(plan))
		status = PTX_NOT_SUPPORTED;
	else
		status = compile(w, plan, made, error);
	ptx_plan_destroy(plan);
	made->times.cpu = ptx_make_cpu_ms() - cpu;
	if (status == PTX_OK)
		made->piece->made_us = (uint32_t)(made->times.cpu * 1e3);
	return status;
}
