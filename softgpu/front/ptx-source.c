/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading on demand. A body is read by a parser that finds, around it, what the text declared before it. All memory
 * but the body's goes with the parser or is given back, so that no order of reading and no number of attempts need more
 * memory than reading all of the text at once.
 */
#include <stdlib.h>
#include <string.h>

#include "front/ptx-facts.h"
#include "front/ptx-parse.h"
#include "front/ptx-statistics.h"
#include "front/ptx-shared.h"
#include "front/ptx-source.h"

struct source_text {
	char *text;
	size_t length;
	struct ptx_names names;
};

struct ptx_source {
	struct ptx_parser *parser; /* while a kernel is read */
	struct ptx_arena arena;    /* of the names; as large as the module's own may be */
	size_t count;
	struct source_text texts[];
};

struct ptx_source *ptx_source_create(const struct ptx_text *texts, size_t count, size_t limit)
{
	struct ptx_source *source = calloc(1, sizeof(*source) + count * sizeof(source->texts[0]));

	if (source)
		source->arena.limit = limit;
	for (size_t n = 0; source && n < count; n++) {
		source->texts[n].text = ptx_has_room(texts[n].length) ? malloc(texts[n].length + 1) : NULL;
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
	ptx_arena_free(&source->arena);
	free(source);
}

size_t ptx_source_count(const struct ptx_source *source)
{
	return source->count;
}

struct ptx_text ptx_source_text(const struct ptx_source *source, size_t index)
{
	return (struct ptx_text){source->texts[index].text, source->texts[index].length};
}

bool ptx_source_note(struct ptx_source *source, struct ptx_parser *p)
{
	return ptx_names_make(&source->arena, &source->texts[p->text - 1].names, p->scope, p->scope_count);
}

static void enter(struct ptx_parser *p, const struct source_text *text, const struct ptx_extent *body)
{
	p->text = body->text;
	p->start = text->text;
	p->lexer = (struct ptx_lexer){text->text + body->at, text->text + body->at + body->bytes, body->line};
	p->around = &text->names;
	p->visible = body->visible;
}

/* Clears the remains of a failed reading, so that the next one begins anew. */
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
	struct ptx_arena_scope scope;
	struct ptx_parser *p;

	if (fn->read)
		return PTX_OK;
	if (!source->parser)
		source->parser = calloc(1, sizeof(*source->parser));
	p = source->parser;
	if (!p)
		return PTX_NO_MEMORY;
	p->module = fn->module;
	p->error = error;
	scope = ptx_arena_scope_begin(&fn->module->arena);
	enter(p, &source->texts[body->text - 1], body);
	ptx_parse_next(p);
	if (ptx_parse_function_body(p, fn) && p->token.kind)
		ptx_parse_fail(p, PTX_INVALID, "what was known of `%s` does not fit it", fn->name);
	if (p->status != PTX_OK) {
		clear(fn);
		ptx_arena_scope_end(&fn->module->arena, scope);
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
	ptx_parse_end(m->source->parser);
	m->source->parser = NULL;
	pthread_mutex_unlock(&m->reading);
	return status;
}
