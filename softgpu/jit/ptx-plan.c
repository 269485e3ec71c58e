/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel analysed for one block shape: what compiling a version of it begins with. The same each time. */
#include <stdlib.h>
#include <string.h>

#include "jit/ptx-compile.h"
#include "jit/ptx-make.h"
#include "front/ptx-source.h"

/* The local memory of a GPU's thread, in bytes. */
#define MAX_LOCAL (512u << 10)

static bool analyse(struct ptx_body *body, unsigned *lanes, bool *scalar)
{
	if (!ptx_body_inline(body))
		return false;
	if (body->instr_count > PTX_MOST_INSTRUCTIONS)
		return ptx_body_fail(body, PTX_NOT_SUPPORTED, body->function->line,
				     "`%s` has %u instructions, which is more than %u", body->function->name,
				     body->instr_count, PTX_MOST_INSTRUCTIONS);
	if (!ptx_body_blocks(body) || !ptx_body_order(body) || !ptx_body_fold(body) || !ptx_body_live(body))
		return false;
	if (!ptx_body_width(body, lanes, scalar))
		return false;
	if (*lanes > 1) {
		ptx_body_strides(body);
		if (!ptx_body_along(body))
			return false;
	}
	return ptx_body_origins(body);
}

static enum ptx_status make(struct ptx_plan *plan, const struct ptx_kernel *kernel, bool *scalar,
			    struct ptx_error *error)
{
	struct ptx_body *body = &plan->body;

	if (!analyse(body, &plan->lanes, scalar))
		return body->status ? body->status : PTX_NO_MEMORY;
	/* local memory of neighbouring threads stays aligned */
	body->local_bytes = (body->local_bytes + 15) & ~15ull;
	if (body->local_bytes > MAX_LOCAL) {
		ptx_error_set(error, body->function->line, "`%s` needs more than %u KiB of local memory per thread",
			      kernel->info.name, MAX_LOCAL >> 10);
		return PTX_NOT_SUPPORTED;
	}
	return prepare_lowering(body, &plan->low, plan->lanes) ? PTX_OK : body->status;
}

enum ptx_status ptx_plan_create(struct ptx_kernel *kernel, const uint32_t blockdim[3], bool *scalar,
				struct ptx_plan **plan, struct ptx_error *error)
{
	bool unwanted = false;
	struct ptx_plan *p = calloc(1, sizeof(*p));
	double start = ptx_make_now_ms();
	enum ptx_status status;

	*plan = NULL;
	if (!p)
		return PTX_NO_MEMORY;
	status = ptx_source_read(kernel, error);
	p->parse_ms = ptx_make_now_ms() - start;
	if (status != PTX_OK) {
		free(p);
		return status;
	}
	p->body.arena.limit = 1ull << 30;
	p->body.kernel = kernel;
	p->body.function = kernel->function;
	p->body.error = error;
	memcpy(p->body.blockdim, blockdim, sizeof(p->body.blockdim));
	p->body.threads = blockdim[0] * blockdim[1] * blockdim[2];
	p->body.static_shared = kernel->info.static_shared;
	status = make(p, kernel, scalar ? scalar : &unwanted, error);
	if (status != PTX_OK) {
		ptx_plan_destroy(p);
		return status;
	}
	*plan = p;
	return PTX_OK;
}

void ptx_plan_destroy(struct ptx_plan *plan)
{
	if (!plan)
		return;
	ptx_arena_free(&plan->body.arena);
	free(plan);
}
