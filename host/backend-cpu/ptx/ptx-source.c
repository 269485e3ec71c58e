/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading on demand. A body is read by a parser whose scope holds what it held when the body was passed over: the
 * symbols that its text had by then.
 */
#include <stdlib.h>
#include <string.h>

#include "ptx-facts.h"
#include "ptx-parse.h"
#include "ptx-probe.h"
#include "ptx-shared.h"
#include "ptx-source.h"

struct kept_text {
	char *text;
	size_t length;
	struct ptx_symbol **symbols; /* in order of declaration */
	uint32_t symbol_count;
};

struct ptx_source {
	struct ptx_parser *parser; /* while a kernel is read */
	size_t count;
	struct kept_text texts[];
};

struct ptx_source *ptx_source_create(const struct ptx_text *texts, size_t count)
{
	struct ptx_source *source = calloc(1, sizeof(*source) + count * sizeof(source->texts[0]));

	for (size_t n = 0; source && n < count; n++) {
		source->texts[n].text = malloc(texts[n].length + 1);
		if (!source->texts[n].text) {
			ptx_source_destroy(source);
			return NULL;
		}
		if (texts[n].length)
			memcpy(source->texts[n].text, texts[n].text, texts[n].length);
		source->texts[n].length = texts[n].length;
		source->count++;
	}
	return source;
}

void ptx_source_destroy(struct ptx_source *source)
{
	if (!source)
		return;
	for (size_t n = 0; n < source->count; n++)
		free(source->texts[n].text);
	free(source);
}

bool ptx_source_note(struct ptx_source *source, struct ptx_parser *p)
{
	struct kept_text *text = &source->texts[p->text - 1];

	text->symbols = ptx_alloc(&p->module->arena, (p->scope_count + 1u) * sizeof(*text->symbols));
	if (!text->symbols)
		return false;
	if (p->scope_count)
		memcpy(text->symbols, p->scope, p->scope_count * sizeof(*text->symbols));
	text->symbol_count = p->scope_count;
	return true;
}

/* Makes the scope what it was before a body. Symbols of several texts hang in the lists of the last. */
static bool enter(struct ptx_parser *p, const struct kept_text *text, const struct ptx_extent *body)
{
	if (p->text != body->text) {
		memset(&p->symbols, 0, sizeof(p->symbols));
		p->scope_count = 0;
		p->text = body->text;
	}
	ptx_parse_close_scope(p, body->visible);
	while (p->scope_count < body->visible)
		if (!ptx_parse_reopen(p, text->symbols[p->scope_count]))
			return false;
	return true;
}

/* What a reading that failed has left, so that the next one begins anew. */
static void clear(struct ptx_function *fn)
{
	fn->read = false;
	fn->instrs = NULL;
	fn->regs = NULL;
	fn->labels = NULL;
	fn->instr_count = fn->reg_count = fn->label_count = 0;
	fn->local_bytes = 0;
	fn->dynamic_shared = false;
}

enum ptx_status ptx_source_read_body(struct ptx_function *fn, struct ptx_error *error)
{
	struct ptx_source *source = fn->module->source;
	const struct ptx_extent *body = &fn->body;
	const struct kept_text *text;
	struct ptx_parser *p;

	if (fn->read)
		return PTX_OK;
	if (!source->parser)
		source->parser = calloc(1, sizeof(*source->parser));
	p = source->parser;
	if (!p)
		return PTX_NO_MEMORY;
	text = &source->texts[body->text - 1];
	p->module = fn->module;
	p->error = error;
	p->start = text->text;
	p->lexer = (struct ptx_lexer){text->text + body->at, text->text + body->at + body->bytes, body->line};
	if (enter(p, text, body)) {
		ptx_parse_next(p);
		if (ptx_parse_function_body(p, fn) && p->token.kind)
			ptx_parse_fail(p, PTX_INVALID, "what was known of `%s` does not fit it", fn->name);
	}
	if (p->status != PTX_OK) {
		clear(fn);
		return p->status;
	}
	ptx_statistics_count(&ptx_statistics.bodies);
	if (fn->module->aliased)
		ptx_alias_body(fn);
	return PTX_OK;
}

static enum ptx_status read_kernel(struct ptx_kernel *kernel, struct ptx_error *error)
{
	struct ptx_module *m = kernel->function->module;
	enum ptx_status status;
	uint64_t bytes;

	status = ptx_shared_place(m, kernel, &bytes, error);
	if (status == PTX_OK && bytes != kernel->info.static_shared) {
		ptx_error_set(error, kernel->function->line, "what was known of `%s` does not fit it",
			      kernel->info.name);
		status = PTX_INVALID;
	}
	/* the text was good once, so it is the facts that are not its own: the next load finds out for itself */
	if (status != PTX_OK && status != PTX_NO_MEMORY)
		ptx_facts_forget(&m->text);
	kernel->read = status == PTX_OK;
	return status;
}

enum ptx_status ptx_source_read(struct ptx_kernel *kernel, struct ptx_error *error)
{
	struct ptx_module *m = kernel->function->module;
	enum ptx_status status = PTX_OK;

	if (!m->facts)
		return PTX_OK;
	pthread_mutex_lock(&m->reading);
	if (!kernel->read)
		status = read_kernel(kernel, error);
	free(m->source->parser);
	m->source->parser = NULL;
	pthread_mutex_unlock(&m->reading);
	return status;
}
