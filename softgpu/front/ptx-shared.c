/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where shared variables lie. A kernel has those that its instructions and those of the functions that it may call
 * name, as with a GPU's own compiler: a module can have many kernels whose variables together fit in no block.
 */
#include <stdlib.h>
#include <string.h>

#include "common/reserved-shared.h"
#include "front/ptx-shared.h"
#include "front/ptx-source.h"

struct walk {
	struct ptx_module *module;
	struct ptx_kernel *kernel;
	bool *seen;                  /* by function number */
	struct ptx_function **left;  /* functions that are still to be looked at */
	uint32_t left_count;
	uint64_t end;
	enum ptx_status status;
	struct ptx_error *error;
};

static const struct ptx_shared_place *find(const struct ptx_kernel *kernel, const struct ptx_symbol *symbol)
{
	for (uint32_t n = 0; n < kernel->shared_count; n++)
		if (kernel->shared[n].symbol == symbol)
			return &kernel->shared[n];
	return NULL;
}

uint64_t ptx_shared_offset(const struct ptx_kernel *kernel, const struct ptx_symbol *symbol)
{
	const struct ptx_shared_place *place = find(kernel, symbol);

	/* beyond all of a block's memory: an access there faults */
	return place ? place->offset : kernel->info.static_shared;
}

/* Machine code has a variable of its own for the reserved memory: sass/lift/lift.c. */
uint64_t ptx_shared_reserved(const struct ptx_kernel *kernel)
{
	uint64_t bytes = 0, offset;
	const struct ptx_symbol *reserved = ptx_special_reserved("%reserved_smem_offset_begin", &offset);

	for (uint32_t n = 0; n < kernel->shared_count; n++) {
		const struct ptx_symbol *symbol = kernel->shared[n].symbol;

		if (symbol == reserved || (!strcmp(symbol->name, VCUDA_RESERVED_VARIABLE) && symbol->size == reserved->size))
			bytes += symbol->size;
	}
	return bytes;
}

static void add_function(struct walk *w, const struct ptx_symbol *symbol)
{
	if (!symbol->function || !symbol->function->defined || w->seen[symbol->index])
		return;
	w->seen[symbol->index] = true;
	w->left[w->left_count++] = symbol->function;
}

static void add_symbol(struct walk *w, const struct ptx_symbol *symbol)
{
	struct ptx_shared_place *place;

	if (!symbol || symbol->kind != PTX_SYM_VARIABLE || symbol->space != PTX_SHARED || symbol->dynamic ||
	    find(w->kernel, symbol))
		return;
	place = ptx_grow(&w->module->arena, (void **)&w->kernel->shared, &w->kernel->shared_count,
			 &w->kernel->shared_room, sizeof(*place));
	if (!place) {
		w->status = PTX_NO_MEMORY;
		return;
	}
	place->symbol = symbol;
	place->offset = (w->end + symbol->align - 1) & ~(symbol->align - 1);
	if (__builtin_add_overflow(place->offset, symbol->size, &w->end) || w->end > PTX_MAX_SHARED_BYTES) {
		ptx_error_set(w->error, symbol->line, "`%s` is too large for its state space", symbol->name);
		w->status = PTX_INVALID;
	}
}

static void add_operand(struct walk *w, const struct ptx_operand *o)
{
	if (o->kind == PTX_OP_SYMBOL || o->kind == PTX_OP_MEM)
		add_symbol(w, o->symbol);
	for (uint32_t n = 0; o->kind == PTX_OP_VECTOR && n < o->count; n++)
		add_operand(w, &o->elements[n]);
}

static void add_call(struct walk *w, const struct ptx_call *call)
{
	for (uint32_t n = 0; n < call->arg_count; n++)
		add_symbol(w, call->args[n]);
	if (call->callee) {
		add_function(w, call->callee);
		return;
	}
	for (uint32_t n = 0; call->prototype && n < w->module->function_count; n++)
		if (ptx_call_may_reach(call, w->module->functions[n]))
			add_function(w, w->module->functions[n]);
}

static void look_at(struct walk *w, struct ptx_function *function)
{
	w->status = ptx_source_read_body(function, w->error);
	if (w->status != PTX_OK)
		return;
	for (uint32_t i = 0; i < function->instr_count; i++) {
		const struct ptx_instr *in = &function->instrs[i];

		for (uint32_t n = 0; n < in->count; n++)
			add_operand(w, &in->ops[n]);
		if (in->call)
			add_call(w, in->call);
	}
}

enum ptx_status ptx_shared_place(struct ptx_module *module, struct ptx_kernel *kernel, uint64_t *bytes,
				 struct ptx_error *error)
{
	struct walk w = {.module = module, .kernel = kernel, .error = error, .status = PTX_NO_MEMORY};

	kernel->shared_count = 0;
	w.seen = calloc(module->function_count + 1u, sizeof(*w.seen));
	w.left = calloc(module->function_count + 1u, sizeof(*w.left));
	if (w.seen && w.left) {
		w.status = PTX_OK;
		w.left[w.left_count++] = kernel->function;
	}
	while (w.left_count && w.status == PTX_OK)
		look_at(&w, w.left[--w.left_count]);
	free(w.seen);
	free(w.left);
	*bytes = w.end;
	return w.status;
}
