/* SPDX-License-Identifier: Apache-2.0 */
/* .alias: a second name of a function. Once all is parsed, the function takes the place of the name. */
#include "front/ptx-parse.h"

static struct ptx_symbol *find_function(struct ptx_parser *p)
{
	struct ptx_symbol *s =
		p->token.kind == PTX_TOK_NAME ? ptx_parse_symbol(p, p->token.text, p->token.length) : NULL;

	if (s && s->kind == PTX_SYM_FUNCTION && !s->function->entry) {
		ptx_parse_next(p);
		return s;
	}
	ptx_parse_fail(p, PTX_INVALID, "`%.*s` is not a function that was declared before",
		       (int)(p->token.length < 100 ? p->token.length : 100), p->token.text);
	return NULL;
}

/* name, function; */
bool ptx_parse_alias(struct ptx_parser *p)
{
	struct ptx_symbol *name, *function;

	ptx_parse_next(p);
	name = find_function(p);
	if (!name || !ptx_parse_expect(p, ','))
		return false;
	function = find_function(p);
	if (!function)
		return false;
	while (function->alias)
		function = function->alias;
	if (name->alias || name == function)
		return ptx_parse_fail(p, PTX_INVALID, "`%s` has a function already", name->name);
	if (!ptx_same_signature(name->function, function->function))
		return ptx_parse_fail(p, PTX_INVALID, "`%s` is not declared as `%s` is", name->name, function->name);
	name->alias = function;
	return ptx_parse_expect(p, ';');
}

static const struct ptx_symbol *meant(const struct ptx_symbol *s)
{
	while (s && s->alias)
		s = s->alias;
	return s;
}

static void replace_in_operand(struct ptx_operand *o)
{
	o->symbol = meant(o->symbol);
	for (unsigned e = 0; o->kind == PTX_OP_VECTOR && e < o->count; e++)
		replace_in_operand(&o->elements[e]);
}

static void replace_in_call(struct ptx_call *call)
{
	const struct ptx_targets *targets = call->prototype ? call->prototype->targets : NULL;

	call->callee = meant(call->callee);
	replace_in_operand(&call->pointer);
	for (uint32_t n = 0; targets && n < targets->count; n++)
		targets->list[n] = meant(targets->list[n]);
}

void ptx_alias_body(const struct ptx_function *fn)
{
	for (uint32_t k = 0; k < fn->instr_count; k++) {
		for (unsigned n = 0; n < fn->instrs[k].count; n++)
			replace_in_operand(&fn->instrs[k].ops[n]);
		if (fn->instrs[k].call)
			replace_in_call(fn->instrs[k].call);
	}
}

enum ptx_status ptx_module_aliases(struct ptx_module *m, struct ptx_error *error)
{
	for (uint32_t f = 0; f < m->function_count; f++) {
		m->aliased |= m->functions[f]->alias != NULL;
		if (m->functions[f]->alias && m->functions[f]->function->defined) {
			ptx_error_set(error, m->functions[f]->function->line, "`%s` is defined and an alias",
				      m->functions[f]->name);
			return PTX_INVALID;
		}
	}
	for (uint32_t v = 0; m->aliased && v < m->variable_count; v++)
		for (struct ptx_reloc *r = m->relocs[v]; r; r = r->next)
			r->symbol = meant(r->symbol);
	for (uint32_t f = 0; m->aliased && f < m->function_count; f++)
		ptx_alias_body(m->functions[f]->function);
	return PTX_OK;
}
