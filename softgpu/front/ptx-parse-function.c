/* SPDX-License-Identifier: Apache-2.0 */
/* Functions' heads: name, parameters, tuning directives. */
#include <string.h>

#include "front/ptx-facts.h"
#include "front/ptx-parse.h"

/* The name of a .reg parameter means a register in the body: the parameter itself gets a name that no text has. */
static struct ptx_symbol *declare_param(struct ptx_parser *p, struct ptx_declaration *d, bool in_register)
{
	bool predicate = in_register && d->type == PTX_PRED;
	struct ptx_symbol *symbol;
	char *name;

	if (!in_register)
		return ptx_parse_declare(p, &p->symbols, d->name, d->name_length);
	if (predicate) {
		d->type = PTX_B32;
		d->size = d->align = 4;
	}
	if (d->open_array || d->size != ptx_types[d->type].bits / 8) {
		ptx_parse_fail(p, PTX_NOT_SUPPORTED, "the .reg parameter `%.*s` is not of a plain type",
			       (int)(d->name_length < 100 ? d->name_length : 100), d->name);
		return NULL;
	}
	name = ptx_alloc(&p->module->arena, d->name_length + 2);
	if (!name) {
		ptx_parse_no_memory(p);
		return NULL;
	}
	name[0] = ' ';
	memcpy(name + 1, d->name, d->name_length);
	symbol = ptx_parse_declare(p, &p->symbols, name, d->name_length + 1);
	if (!symbol)
		return NULL;
	symbol->register_name = name + 1;
	symbol->predicate = predicate;
	return symbol;
}

static bool parse_param(struct ptx_parser *p, struct ptx_function *fn, struct ptx_symbol **slot, uint32_t index)
{
	struct ptx_declaration d = {.space = ptx_parse_space(&p->token)};
	bool in_register = !fn->entry && ptx_token_is(&p->token, ".reg");
	struct ptx_symbol *symbol;

	if (d.space != PTX_PARAM && !in_register)
		return ptx_parse_fail(p, PTX_NOT_SUPPORTED, "`%.*s`: only .param parameters are supported",
				      (int)(p->token.length < 60 ? p->token.length : 60), p->token.text);
	ptx_parse_next(p);
	if (!ptx_parse_declaration(p, &d))
		return false;
	symbol = declare_param(p, &d, in_register);
	if (!symbol)
		return false;
	*slot = symbol;
	symbol->kind = PTX_SYM_PARAM;
	symbol->space = PTX_PARAM;
	symbol->type = (uint8_t)d.type;
	symbol->size = d.size;
	symbol->align = d.align;
	symbol->index = index;
	symbol->function = fn;
	return true;
}

static struct ptx_symbol **parse_params(struct ptx_parser *p, struct ptx_function *fn, uint32_t *count, bool offsets)
{
	struct ptx_symbol **list = NULL, **slot;
	uint32_t room = 0;

	*count = 0;
	if (!ptx_parse_expect(p, '('))
		return NULL;
	while (p->token.kind != ')' && p->status == PTX_OK) {
		slot = ptx_grow(&p->module->arena, (void **)&list, count, &room, sizeof(*slot));
		if (!slot) {
			ptx_parse_no_memory(p);
			break;
		}
		if (!parse_param(p, fn, slot, *count - 1))
			break;
		if (offsets && !ptx_parse_place(p, &fn->param_bytes, *slot))
			break;
		if (!ptx_parse_accept(p, ','))
			break;
	}
	ptx_parse_expect(p, ')');
	return list;
}

/* Whether a directive changes nothing here, or only the reported attributes of the kernel. */
static bool is_hint(const struct ptx_token *token)
{
	static const char *const hints[] = {".minnctapersm", ".maxnctapersm", ".maxnreg",
					    ".maxclusterrank", ".explicitcluster", ".blocksareclusters",
					    ".abi_preserve", ".abi_preserve_control", ".pragma"};

	for (size_t n = 0; n < sizeof(hints) / sizeof(hints[0]); n++)
		if (ptx_token_is(token, hints[n]))
			return true;
	return false;
}

/* A product that is too large for a number stays so. No factor is 0 or larger than 32 bits, as in the driver. */
static uint64_t times(struct ptx_parser *p, uint64_t product, uint64_t value)
{
	if (!value || value > UINT32_MAX)
		ptx_parse_fail(p, PTX_INVALID, "a number from 1 to %u is expected", UINT32_MAX);
	return __builtin_mul_overflow(product, value, &product) || product > UINT32_MAX ? UINT32_MAX : product;
}

/* A directive with the product of its numbers. */
static void set_tuning(struct ptx_parser *p, struct ptx_function *fn, const struct ptx_token *directive,
		       uint64_t product)
{
	if (ptx_token_is(directive, ".maxntid") || ptx_token_is(directive, ".reqntid"))
		fn->maxntid = (uint32_t)product;
	else if (ptx_token_is(directive, ".maxnreg"))
		fn->maxnreg = (uint32_t)product;
	else if (ptx_token_is(directive, ".minnctapersm"))
		fn->minnctapersm = (uint32_t)product;
	else if (ptx_token_is(directive, ".reqnctapercluster") && product != 1)
		ptx_parse_fail(p, PTX_NOT_SUPPORTED, "clusters of more than one block are not supported");
}

/* .maxntid 256, 1, 1 and the like, between a function's head and its body. */
static void parse_tuning(struct ptx_parser *p, struct ptx_function *fn)
{
	while (p->token.kind == PTX_TOK_NAME && p->token.text[0] == '.') {
		bool maxntid = ptx_token_is(&p->token, ".maxntid") || ptx_token_is(&p->token, ".reqntid");
		bool cluster = ptx_token_is(&p->token, ".reqnctapercluster"), pragma = ptx_token_is(&p->token, ".pragma");
		const struct ptx_token directive = p->token;
		uint64_t product = 1, value;

		if (ptx_token_is(&p->token, ".noreturn"))
			fn->noreturn = true;
		else if (!maxntid && !cluster && !is_hint(&p->token)) {
			ptx_parse_fail(p, PTX_NOT_SUPPORTED, "the directive `%.*s` is not supported",
				       (int)p->token.length, p->token.text);
			return;
		}
		ptx_parse_next(p);
		while (p->token.kind == PTX_TOK_INT || p->token.kind == PTX_TOK_STRING || p->token.kind == ',') {
			if (p->token.kind == PTX_TOK_INT && ptx_parse_integer(p, &value))
				product = times(p, product, value);
			else
				ptx_parse_next(p);
		}
		set_tuning(p, fn, &directive, product);
		if (pragma && !ptx_parse_expect(p, ';'))
			return;
	}
}

static struct ptx_kernel *find_kernel(struct ptx_parser *p, uint32_t first, const char *name)
{
	for (uint32_t k = first; k; k = p->module->kernels[k - 1].next)
		if (!strcmp(p->module->kernels[k - 1].info.name, name))
			return &p->module->kernels[k - 1];
	return NULL;
}

/*
 * In place of one of that name, if there is one: a weak one, or another text's own. Programs ask for kernels by name, so
 * a module has one of each.
 */
static bool add_kernel(struct ptx_parser *p, struct ptx_function *fn, uint32_t hash)
{
	struct ptx_module *m = p->module;
	uint32_t *first = &p->kernels[hash % PTX_BUCKETS];
	struct ptx_kernel *k = find_kernel(p, *first, fn->name);
	struct ptx_param *params = ptx_alloc(&m->arena, (fn->param_count + 1) * sizeof(*params));

	if (!k) {
		k = ptx_grow(&m->arena, (void **)&m->kernels, &m->kernel_count, &m->kernel_room, sizeof(*k));
		if (!k)
			return ptx_parse_no_memory(p);
		k->next = *first;
		*first = m->kernel_count;
	}
	if (!params)
		return ptx_parse_no_memory(p);
	for (uint32_t i = 0; i < fn->param_count; i++) {
		params[i].offset = fn->params[i]->offset;
		params[i].size = fn->params[i]->size;
	}
	k->function = fn;
	k->info = (struct ptx_kernel_info){.name = fn->name,
					   .param_count = fn->param_count,
					   .params = params,
					   .param_bytes = fn->param_bytes,
					   .max_threads = fn->maxntid};
	return true;
}

static bool add_function(struct ptx_parser *p, struct ptx_symbol *symbol)
{
	struct ptx_module *m = p->module;
	struct ptx_symbol **slot =
		ptx_grow(&m->arena, (void **)&m->functions, &m->function_count, &m->function_room, sizeof(*slot));

	if (!slot)
		return ptx_parse_no_memory(p);
	*slot = symbol;
	symbol->index = m->function_count - 1;
	return true;
}

/* [(returns)] _ (parameters) [.noreturn]: what a function that is called through a pointer looks like. */
bool ptx_parse_prototype(struct ptx_parser *p, struct ptx_symbol *label)
{
	struct ptx_function *fn = ptx_alloc(&p->module->arena, sizeof(*fn));
	uint32_t scope_start = p->scope_count;

	if (!fn)
		return ptx_parse_no_memory(p);
	ptx_parse_next(p);
	fn->module = p->module;
	fn->name = label->name;
	if (p->token.kind == '(')
		fn->rets = parse_params(p, fn, &fn->ret_count, false);
	if (!ptx_parse_expect(p, PTX_TOK_NAME))
		return false;
	if (p->token.kind == '(')
		fn->params = parse_params(p, fn, &fn->param_count, false);
	parse_tuning(p, fn);
	ptx_parse_close_scope(p, scope_start);
	label->function = fn;
	return ptx_parse_expect(p, ';');
}

/* Parameters are visible in the body, too, and not behind it. */
static bool reopen_params(struct ptx_parser *p, struct ptx_function *fn)
{
	for (uint32_t i = 0; i < fn->ret_count + fn->param_count; i++)
		if (!ptx_parse_reopen(p, i < fn->ret_count ? fn->rets[i] : fn->params[i - fn->ret_count]))
			return false;
	return true;
}

bool ptx_parse_function_body(struct ptx_parser *p, struct ptx_function *fn)
{
	uint32_t mark = p->scope_count;

	p->function = fn;
	if (!reopen_params(p, fn) || !ptx_parse_body(p))
		return false;
	ptx_parse_close_scope(p, mark);
	fn->read = true;
	return true;
}

/* Skips a body that is known to be right. Reading it later checks it again. */
static bool pass_over(struct ptx_parser *p, struct ptx_function *fn)
{
	const char *start = p->start + fn->body.at;

	if (!ptx_facts_extent(p->module->facts, fn->number, (uint64_t)(p->lexer.end - start), &fn->body) ||
	    start[fn->body.bytes - 1] != '}')
		return ptx_parse_fail(p, PTX_INVALID, "what is known of `%s` does not fit it", fn->name);
	p->lexer.at = start + fn->body.bytes;
	p->lexer.line = fn->body.line + fn->body.lines;
	ptx_parse_next(p);
	return p->status == PTX_OK;
}

static bool parse_or_pass_over(struct ptx_parser *p, struct ptx_function *fn)
{
	struct ptx_module *m = p->module;
	struct ptx_function **slot =
		ptx_grow(&m->arena, (void **)&m->bodies, &m->body_count, &m->body_room, sizeof(*slot));

	if (!slot)
		return ptx_parse_no_memory(p);
	*slot = fn;
	fn->number = m->body_count - 1;
	fn->body = (struct ptx_extent){.at = (uint64_t)(p->token.text - p->start),
				       .text = p->text,
				       .line = p->token.line,
				       .visible = p->scope_count};
	if (m->facts)
		return pass_over(p, fn);
	if (!ptx_parse_function_body(p, fn))
		return false;
	fn->body.bytes = (uint64_t)(p->closing.text + 1 - p->start) - fn->body.at;
	fn->body.lines = p->closing.line - fn->body.line;
	return true;
}

static bool same_types(struct ptx_symbol *const *a, struct ptx_symbol *const *b, uint32_t count)
{
	for (uint32_t n = 0; n < count; n++)
		if (a[n]->type != b[n]->type)
			return false;
	return true;
}

/* Whether calls are read the same by either declaration. */
static bool same_calls(const struct ptx_function *a, const struct ptx_function *b)
{
	return ptx_same_signature(a, b) && same_types(a->params, b->params, a->param_count) &&
	       same_types(a->rets, b->rets, a->ret_count);
}

/* [(returns)] name [(parameters)] and what follows up to the body. */
static bool parse_head(struct ptx_parser *p, struct ptx_function *fn, const char **name, size_t *length)
{
	ptx_parse_next(p);
	p->function = fn;
	if (!fn->entry && p->token.kind == '(')
		fn->rets = parse_params(p, fn, &fn->ret_count, false);
	*name = p->token.text;
	*length = p->token.length;
	fn->line = p->token.line;
	if (!ptx_parse_expect(p, PTX_TOK_NAME))
		return false;
	fn->name = ptx_strndup(&p->module->arena, *name, *length);
	if (!fn->name)
		return ptx_parse_no_memory(p);
	if (p->token.kind == '(')
		fn->params = parse_params(p, fn, &fn->param_count, fn->entry);
	parse_tuning(p, fn);
	if (fn->param_bytes > 32768)
		return ptx_parse_fail(p, PTX_INVALID, "`%s` has more than 32 KiB of parameters", fn->name);
	return p->status == PTX_OK;
}

bool ptx_parse_function(struct ptx_parser *p, bool entry, unsigned linkage)
{
	struct ptx_module *m = p->module;
	struct ptx_function *fn = ptx_alloc(&m->arena, sizeof(*fn));
	struct ptx_symbol *symbol, *old;
	uint32_t mark = p->scope_count;
	const char *name;
	size_t length;

	if (!fn)
		return ptx_parse_no_memory(p);
	fn->module = m;
	fn->entry = entry;
	fn->version = p->dialect.version;
	fn->target = p->dialect.target;
	if (!parse_head(p, fn, &name, &length))
		return false;
	/* the function's own name must outlive its parameters' scope: close it, declare, open it again */
	ptx_parse_close_scope(p, mark);
	old = ptx_parse_find_linked(p, name, length, linkage);
	if (old && (old->kind != PTX_SYM_FUNCTION || old->function->entry != entry))
		return ptx_parse_fail(p, PTX_INVALID, "`%s` is declared twice", fn->name);
	symbol = old ? old : ptx_parse_declare(p, &p->symbols, name, length);
	if (!symbol)
		return false;
	symbol->kind = PTX_SYM_FUNCTION;
	if (!old && !add_function(p, symbol))
		return false;
	if (p->token.kind == '{') {
		/* the first of several weak definitions counts, unless one is strong */
		bool again = old && old->function->defined, extra = again && (linkage & PTX_LINK_WEAK);

		if (again && !extra && (!old->weak || old->text == p->text))
			return ptx_parse_fail(p, PTX_INVALID, "`%s` is defined twice", fn->name);
		fn->defined = true;
		/* calls that were parsed before hold the symbol, so a definition replaces its declaration there */
		if (!extra) {
			m->indivisible |= old && !same_calls(old->function, fn);
			symbol->function = fn;
			ptx_parse_mark_linked(p, symbol, linkage);
		}
		symbol->text = p->text;
		if (!parse_or_pass_over(p, fn) || (entry && !extra && !add_kernel(p, fn, symbol->hash)))
			return false;
		ptx_parse_accept(p, ';');
	} else {
		if (!old)
			symbol->function = fn;
		ptx_parse_mark_linked(p, symbol, linkage | (old && old->function->defined ? PTX_LINK_EXTERN : 0));
		ptx_parse_expect(p, ';');
	}
	p->function = NULL;
	return p->status == PTX_OK;
}
