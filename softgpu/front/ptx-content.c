/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A content is a hash of the kernel, of the functions that it calls, and of the variables that these name. Numbers of
 * labels, comments, blanks and source locations do not count. Lines count from the kernel's own, as in machine code.
 *
 * Some code depends on more of the module: on the addresses of functions, which are made from the module's text, or on
 * all constant variables. The content of such a kernel is that of the whole text.
 */
#include "front/ptx-content.h"

#include <stdlib.h>
#include <string.h>

#include <nettle/sha2.h>

#include "ptx/ptx-lex.h"

/* Labels of NVIDIA's compiler, whose numbers count through the module. */
#define LABEL_PREFIX "$L_"

struct part {
	struct vcuda_cache_key hash; /* of the function by itself */
	bool known;
	bool depends; /* on more of the module */
};

struct contents {
	struct ptx_module *module;
	const struct ptx_text *texts;
	struct part *parts; /* by function number in the module */
	uint32_t *seen;     /* by function number: the kernel that has reached it last, from 1 */
	uint32_t *left;     /* functions that are still to be looked at */
};

/* A label of a body, and its place in the order of first appearances. */
struct label {
	const char *text; /* NULL: the place in the table is free */
	size_t length;
	uint32_t number;
};

/* The labels of one body, as a hash table of a power of two of places, at most half of which are taken. */
struct labels {
	struct label *table;
	uint32_t count, room;
};

static void add(struct sha256_ctx *sha, uint64_t number)
{
	sha256_update(sha, sizeof(number), (const uint8_t *)&number);
}

static void add_name(struct sha256_ctx *sha, const char *name)
{
	size_t length = name ? strlen(name) : 0;

	add(sha, length);
	sha256_update(sha, length, (const uint8_t *)name);
}

/* ---- the text of a body ---- */

/* The place of a label, or the free one where it belongs. */
static struct label *place_of(const struct labels *labels, const char *text, size_t length)
{
	uint32_t at = 2166136261u; /* FNV-1a */

	for (size_t n = 0; n < length; n++)
		at = (at ^ (uint8_t)text[n]) * 16777619u;
	for (at &= labels->room - 1; labels->table[at].text; at = (at + 1) & (labels->room - 1))
		if (labels->table[at].length == length && !memcmp(labels->table[at].text, text, length))
			break;
	return &labels->table[at];
}

static bool grow(struct labels *labels)
{
	struct labels more = {.count = labels->count, .room = labels->room ? 2 * labels->room : 64};

	more.table = calloc(more.room, sizeof(*more.table));
	if (!more.table)
		return false;
	for (uint32_t n = 0; n < labels->room; n++)
		if (labels->table[n].text)
			*place_of(&more, labels->table[n].text, labels->table[n].length) = labels->table[n];
	free(labels->table);
	*labels = more;
	return true;
}

/* False: there is no memory. */
static bool find_number(struct labels *labels, const struct ptx_token *t, uint32_t *number)
{
	struct label *l;

	if (2 * labels->count >= labels->room && !grow(labels))
		return false;
	l = place_of(labels, t->text, t->length);
	if (!l->text)
		*l = (struct label){t->text, t->length, labels->count++};
	*number = l->number;
	return true;
}

static void skip_place(struct ptx_lexer *lexer, struct ptx_token *t)
{
	for (unsigned n = 0; n < 3 && t->kind == PTX_TOK_INT; n++)
		ptx_lex_next(lexer, t);
}

/* .loc FILE LINE COLUMN {, function_name LABEL {+ OFFSET}, inlined_at FILE LINE COLUMN} */
static void skip_location(struct ptx_lexer *lexer, struct ptx_token *t)
{
	ptx_lex_next(lexer, t);
	skip_place(lexer, t);
	while (t->kind == ',') {
		bool name;

		ptx_lex_next(lexer, t);
		name = ptx_token_is(t, "function_name");
		ptx_lex_next(lexer, t);
		if (!name) {
			skip_place(lexer, t);
			continue;
		}
		ptx_lex_next(lexer, t);
		if (t->kind == '+') {
			ptx_lex_next(lexer, t);
			ptx_lex_next(lexer, t);
		}
	}
}

/* Bytes on their way to a hash: a token has few. */
struct gathered {
	struct sha256_ctx *sha;
	size_t count;
	uint8_t bytes[4096];
};

static void gather(struct gathered *g, const void *bytes, size_t length)
{
	if (length > sizeof(g->bytes) - g->count) {
		sha256_update(g->sha, g->count, g->bytes);
		g->count = 0;
	}
	if (length > sizeof(g->bytes)) {
		sha256_update(g->sha, length, bytes);
		return;
	}
	memcpy(g->bytes + g->count, bytes, length);
	g->count += length;
}

/* Tokens end with a zero. A line is told by a token that begins with one, and a label by its number behind two. */
static bool add_body(struct sha256_ctx *sha, const struct ptx_text *texts, const struct ptx_extent *body)
{
	const char *start = texts[body->text - 1].text + body->at;
	struct ptx_lexer lexer = {start, start + body->bytes, body->line};
	struct gathered g = {.sha = sha};
	struct labels labels = {0};
	unsigned line = body->line;
	struct ptx_token t;
	bool ok = true;

	ptx_lex_next(&lexer, &t);
	while (ok && t.kind != PTX_TOK_END && t.kind != PTX_TOK_BAD) {
		if (ptx_token_is(&t, ".loc")) {
			skip_location(&lexer, &t);
			continue;
		}
		if (t.line != line) {
			const uint32_t step = t.line - line;

			gather(&g, "\0\1", 2);
			gather(&g, &step, sizeof(step));
			line = t.line;
		}
		if (t.kind == PTX_TOK_NAME && t.length > 3 && !memcmp(t.text, LABEL_PREFIX, 3)) {
			uint32_t number = 0;

			ok = find_number(&labels, &t, &number);
			gather(&g, "\0\2", 2);
			gather(&g, &number, sizeof(number));
		} else {
			gather(&g, t.text, t.length);
			gather(&g, "", 1);
		}
		ptx_lex_next(&lexer, &t);
	}
	sha256_update(sha, g.count, g.bytes);
	free(labels.table);
	return ok;
}

/* ---- the symbols of a body ---- */

static void add_symbol(struct sha256_ctx *sha, const struct ptx_symbol *s)
{
	const uint64_t numbers[] = {s->kind,  s->space,  s->type,  s->is_extern, s->dynamic, s->reference, s->size,
				    s->align, s->offset, s->index, s->count,     s->lanes,   s->predicate};

	add_name(sha, s->name);
	sha256_update(sha, sizeof(numbers), (const uint8_t *)numbers);
}

static void look_at_symbol(struct sha256_ctx *sha, const struct ptx_symbol *s, struct part *part)
{
	if (!s)
		return;
	part->depends |= s->kind == PTX_SYM_FUNCTION;
	if (s->kind == PTX_SYM_VARIABLE && s->space != PTX_LOCAL && s->space != PTX_PARAM)
		add_symbol(sha, s);
}

static void look_at_operand(struct sha256_ctx *sha, const struct ptx_operand *o, struct part *part)
{
	look_at_symbol(sha, o->symbol, part);
	for (unsigned e = 0; o->kind == PTX_OP_VECTOR && e < o->count; e++)
		look_at_operand(sha, &o->elements[e], part);
}

static void look_at_call(struct sha256_ctx *sha, const struct ptx_call *call, struct part *part)
{
	part->depends |= !call->callee;
	for (uint32_t n = 0; n < call->arg_count; n++)
		look_at_symbol(sha, call->args[n], part);
	for (uint32_t n = 0; n < call->ret_count; n++)
		look_at_symbol(sha, call->rets[n], part);
}

/* The address of a recursive function is in its code. isspacep.const compares with all constant variables. */
static bool depends(const struct ptx_function *fn, const struct ptx_instr *i)
{
	return fn->recursive || (i->name && !strncmp(i->name, "isspacep", 8));
}

static void add_head(struct sha256_ctx *sha, const struct ptx_function *fn)
{
	const uint64_t numbers[] = {fn->entry,          fn->defined,     fn->noreturn,  fn->version,
				    fn->target,         fn->maxntid,     fn->maxnreg,   fn->minnctapersm,
				    fn->dynamic_shared, fn->param_bytes, fn->ret_count, fn->param_count};

	add_name(sha, fn->name);
	sha256_update(sha, sizeof(numbers), (const uint8_t *)numbers);
	for (uint32_t n = 0; n < fn->ret_count; n++)
		add_symbol(sha, fn->rets[n]);
	for (uint32_t n = 0; n < fn->param_count; n++)
		add_symbol(sha, fn->params[n]);
}

static bool find_part(struct contents *c, uint32_t function)
{
	const struct ptx_function *fn = c->module->functions[function]->function;
	struct part *part = &c->parts[function];
	struct sha256_ctx sha;

	if (part->known)
		return true;
	sha256_init(&sha);
	add_head(&sha, fn);
	if (fn->defined && !add_body(&sha, c->texts, &fn->body))
		return false;
	for (uint32_t k = 0; k < fn->instr_count; k++) {
		const struct ptx_instr *i = &fn->instrs[k];

		part->depends |= depends(fn, i);
		for (unsigned n = 0; n < i->count; n++)
			look_at_operand(&sha, &i->ops[n], part);
		if (i->call)
			look_at_call(&sha, i->call, part);
	}
	sha256_digest(&sha, sizeof(part->hash.bytes), part->hash.bytes);
	part->known = true;
	return true;
}

/* ---- kernels ---- */

/* Adds the kernel's functions, each once. False: there is no memory. */
static bool add_functions(struct contents *c, struct sha256_ctx *sha, const struct ptx_kernel *kernel, uint32_t mark,
			  bool *whole)
{
	struct ptx_module *m = c->module;
	uint32_t count = 0, first = 0;

	while (m->functions[first]->function != kernel->function)
		first++;
	c->left[count++] = first;
	c->seen[first] = mark;
	while (count) {
		uint32_t f = c->left[--count];
		const struct ptx_function *fn = m->functions[f]->function;

		if (!find_part(c, f))
			return false;
		*whole |= c->parts[f].depends;
		sha256_update(sha, sizeof(c->parts[f].hash.bytes), c->parts[f].hash.bytes);
		add(sha, fn->body.line - kernel->function->line);
		for (uint32_t k = 0; k < fn->instr_count; k++) {
			const struct ptx_symbol *callee = fn->instrs[k].call ? fn->instrs[k].call->callee : NULL;

			if (!callee || c->seen[callee->index] == mark)
				continue;
			c->seen[callee->index] = mark;
			c->left[count++] = callee->index;
		}
	}
	return true;
}

static bool find_kernel(struct contents *c, struct ptx_kernel *kernel, uint32_t mark)
{
	const struct ptx_module *m = c->module;
	const uint64_t numbers[] = {
		m->version,          m->target, m->dynamic_shared, m->uses_heap, kernel->info.static_shared,
		kernel->shared_count};
	bool whole = m->indivisible || m->aliased;
	struct sha256_ctx sha;

	sha256_init(&sha);
	add_name(&sha, kernel->info.name);
	sha256_update(&sha, sizeof(numbers), (const uint8_t *)numbers);
	for (uint32_t n = 0; n < kernel->shared_count; n++) {
		add_name(&sha, kernel->shared[n].symbol->name);
		add(&sha, kernel->shared[n].offset);
	}
	if (!whole && !add_functions(c, &sha, kernel, mark, &whole))
		return false;
	if (whole)
		sha256_update(&sha, sizeof(m->text.bytes), m->text.bytes);
	sha256_digest(&sha, sizeof(kernel->content.bytes), kernel->content.bytes);
	return true;
}

bool ptx_content_find(struct ptx_module *m, const struct ptx_text *texts)
{
	struct contents c = {.module = m, .texts = texts};
	bool ok;

	c.parts = calloc(m->function_count + 1u, sizeof(*c.parts));
	c.seen = calloc(m->function_count + 1u, sizeof(*c.seen));
	c.left = calloc(m->function_count + 1u, sizeof(*c.left));
	ok = c.parts && c.seen && c.left;
	for (uint32_t k = 0; ok && k < m->kernel_count; k++)
		ok = find_kernel(&c, &m->kernels[k], k + 1);
	free(c.left);
	free(c.seen);
	free(c.parts);
	return ok;
}
