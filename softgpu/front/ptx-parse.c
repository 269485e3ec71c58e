/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module: tokens, symbols, directives. One token of look-ahead; the first error is kept and turns the rest of the
 * text into nothing, so no loop here needs to look for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/ptx-parse.h"
#include "front/ptx-source.h"

const struct ptx_type_info ptx_types[PTX_TYPE_COUNT] = {[PTX_NONE] = {"", 0, ' '},
#define X(id, text, bits, cls) [PTX_##id] = {text, bits, cls},
							PTX_TYPES(X)
#undef X
};

void ptx_parse_next(struct ptx_parser *p)
{
	if (p->status == PTX_OK)
		ptx_lex_next(&p->lexer, &p->token);
	if (p->status == PTX_OK && p->token.kind == PTX_TOK_BAD)
		ptx_parse_fail(p, PTX_INVALID, "`%.*s` is not a PTX token",
			       (int)(p->token.length < 40 ? p->token.length : 40), p->token.text);
}

bool ptx_parse_fail(struct ptx_parser *p, enum ptx_status status, const char *format, ...)
{
	va_list args;

	if (p->status == PTX_OK) {
		va_start(args, format);
		ptx_error_set_list(p->error, p->token.line, format, args);
		va_end(args);
		p->status = status;
	}
	p->token.kind = PTX_TOK_END;
	return false;
}

bool ptx_parse_no_memory(struct ptx_parser *p)
{
	return ptx_parse_fail(p, PTX_NO_MEMORY, "out of memory while reading the module");
}

bool ptx_parse_accept(struct ptx_parser *p, int kind)
{
	if (p->token.kind != kind)
		return false;
	ptx_parse_next(p);
	return true;
}

bool ptx_parse_expect(struct ptx_parser *p, int kind)
{
	if (ptx_parse_accept(p, kind))
		return true;
	if (kind < 256)
		return ptx_parse_fail(p, PTX_INVALID, "expected `%c` before `%.*s`", kind,
				      (int)(p->token.length < 40 ? p->token.length : 40), p->token.text);
	return ptx_parse_fail(p, PTX_INVALID, "expected a %s before `%.*s`", kind == PTX_TOK_NAME ? "name" : "number",
			      (int)(p->token.length < 40 ? p->token.length : 40), p->token.text);
}

bool ptx_parse_integer(struct ptx_parser *p, uint64_t *value)
{
	bool minus = ptx_parse_accept(p, '-');

	*value = minus ? -p->token.value : p->token.value;
	return ptx_parse_expect(p, PTX_TOK_INT);
}

unsigned ptx_parse_type(const char *text, size_t length)
{
	for (unsigned t = 1; t < PTX_TYPE_COUNT; t++)
		if (strlen(ptx_types[t].text) == length && !memcmp(ptx_types[t].text, text, length))
			return t;
	return PTX_NONE;
}

uint32_t ptx_parse_hash(const char *name, size_t length)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)name[i]) * 16777619u;
	return hash;
}

struct ptx_symbol *ptx_parse_find(struct ptx_table *table, const char *name, size_t length)
{
	uint32_t hash = ptx_parse_hash(name, length);

	for (struct ptx_symbol *s = table->buckets[hash % PTX_BUCKETS]; s; s = s->next)
		if (s->hash == hash && strlen(s->name) == length && !memcmp(s->name, name, length))
			return s;
	return NULL;
}

struct ptx_symbol *ptx_parse_symbol(struct ptx_parser *p, const char *name, size_t length)
{
	struct ptx_symbol *symbol = ptx_parse_find(&p->symbols, name, length);

	return symbol || !p->around ? symbol : ptx_names_find(p->around, p->visible, name, length);
}

struct ptx_symbol *ptx_parse_declare(struct ptx_parser *p, struct ptx_table *table, const char *name, size_t length)
{
	struct ptx_symbol *symbol = ptx_alloc(&p->module->arena, sizeof(*symbol));

	if (!symbol || !(symbol->name = ptx_strndup(&p->module->arena, name, length))) {
		ptx_parse_no_memory(p);
		return NULL;
	}
	symbol->line = p->token.line;
	symbol->hash = ptx_parse_hash(name, length);
	if (table == &p->symbols)
		return ptx_parse_reopen(p, symbol) ? symbol : NULL;
	symbol->next = table->buckets[symbol->hash % PTX_BUCKETS];
	table->buckets[symbol->hash % PTX_BUCKETS] = symbol;
	return symbol;
}

bool ptx_parse_reopen(struct ptx_parser *p, struct ptx_symbol *symbol)
{
	if (p->scope_count == p->scope_room) {
		uint32_t room = p->scope_room ? 2 * p->scope_room : 64;
		struct ptx_symbol **bigger =
			room > p->scope_room ? realloc(p->scope, room * sizeof(struct ptx_symbol *)) : NULL;

		if (!bigger)
			return ptx_parse_no_memory(p);
		p->scope = bigger;
		p->scope_room = room;
	}
	p->scope[p->scope_count++] = symbol;
	symbol->next = p->symbols.buckets[symbol->hash % PTX_BUCKETS];
	p->symbols.buckets[symbol->hash % PTX_BUCKETS] = symbol;
	return true;
}

void ptx_parse_close_scope(struct ptx_parser *p, uint32_t scope_start)
{
	while (p->scope_count > scope_start) {
		struct ptx_symbol *symbol = p->scope[--p->scope_count];

		p->symbols.buckets[symbol->hash % PTX_BUCKETS] = symbol->next;
	}
}

struct ptx_symbol *ptx_parse_find_linked(struct ptx_parser *p, const char *name, size_t length, unsigned linkage)
{
	struct ptx_symbol *symbol = ptx_parse_find(&p->symbols, name, length);

	return symbol && symbol->text != p->text && !linkage ? NULL : symbol;
}

void ptx_parse_mark_linked(struct ptx_parser *p, struct ptx_symbol *symbol, unsigned linkage)
{
	symbol->text = p->text;
	symbol->global |= linkage != 0;
	if (linkage & PTX_LINK_EXTERN)
		return;
	symbol->weak = linkage & PTX_LINK_WEAK;
	symbol->common = linkage & PTX_LINK_COMMON;
}

/* Behind a text only its global symbols are known. */
static void forget_locals(struct ptx_parser *p)
{
	uint32_t count = p->scope_count, kept = 0;

	ptx_parse_close_scope(p, 0);
	for (uint32_t n = 0; n < count; n++) {
		struct ptx_symbol *symbol = p->scope[n];

		if (!symbol->global)
			continue;
		p->scope[kept++] = symbol;
		symbol->next = p->symbols.buckets[symbol->hash % PTX_BUCKETS];
		p->symbols.buckets[symbol->hash % PTX_BUCKETS] = symbol;
	}
	p->scope_count = kept;
}

static unsigned linkage_of(const struct ptx_token *token)
{
	if (ptx_token_is(token, ".extern"))
		return PTX_LINK_EXTERN;
	if (ptx_token_is(token, ".visible"))
		return PTX_LINK_VISIBLE;
	if (ptx_token_is(token, ".weak"))
		return PTX_LINK_WEAK;
	return ptx_token_is(token, ".common") ? PTX_LINK_COMMON : 0;
}

static void parse_version(struct ptx_parser *p)
{
	unsigned version = 0;
	double value;

	/* "9.0" was read as a number with a fraction */
	if (p->token.kind == PTX_TOK_DOUBLE) {
		memcpy(&value, &p->token.value, sizeof(value));
		version = ptx_dialect_version(value);
	}
	if (version < 10)
		ptx_parse_fail(p, PTX_INVALID, ".version must be followed by a number such as 9.0");
	/* as below: mad.f32 */
	if (p->module->version && (p->module->version < 32) != (version < 32))
		p->module->indivisible = true;
	if (version > p->module->version)
		p->module->version = version;
	p->dialect.version = version;
	p->dialect.target = 0;
	ptx_parse_next(p);
}

static void parse_target(struct ptx_parser *p)
{
	unsigned target;

	do {
		ptx_dialect_target(&p->dialect, p->token.text, p->token.length);
		target = p->dialect.target;
		/* what an instruction needs differs between these: then bodies are read in the order of the text */
		if (p->module->target && (p->module->target < 20) != (target < 20))
			p->module->indivisible = true;
		if (target > p->module->target)
			p->module->target = target;
		if (!ptx_dialect_has_target(&p->dialect))
			ptx_parse_fail(p, PTX_INVALID, "PTX .version %u.%u does not support .target %.*s",
				       p->dialect.version / 10, p->dialect.version % 10, (int)p->token.length,
				       p->token.text);
		ptx_parse_expect(p, PTX_TOK_NAME);
	} while (ptx_parse_accept(p, ','));
}

static void skip_line(struct ptx_parser *p)
{
	unsigned line = p->token.line;

	while (p->token.kind && p->token.line == line)
		ptx_parse_next(p);
}

static void skip_section(struct ptx_parser *p)
{
	while (p->token.kind && p->token.kind != '{')
		ptx_parse_next(p);
	while (p->token.kind && p->token.kind != '}')
		ptx_parse_next(p);
	ptx_parse_accept(p, '}');
}

static void parse_directive(struct ptx_parser *p)
{
	unsigned linkage = 0, word;
	uint64_t size;

	while ((word = linkage_of(&p->token))) {
		linkage |= word;
		ptx_parse_next(p);
	}
	if (ptx_token_is(&p->token, ".entry") || ptx_token_is(&p->token, ".func")) {
		ptx_parse_function(p, ptx_token_is(&p->token, ".entry"), linkage);
	} else if (ptx_parse_space(&p->token)) {
		ptx_parse_variable(p, linkage);
	} else if (ptx_token_is(&p->token, ".alias")) {
		ptx_parse_alias(p);
	} else if (ptx_token_is(&p->token, ".version")) {
		ptx_parse_next(p);
		parse_version(p);
	} else if (ptx_token_is(&p->token, ".target")) {
		ptx_parse_next(p);
		parse_target(p);
	} else if (ptx_token_is(&p->token, ".address_size")) {
		ptx_parse_next(p);
		if (ptx_parse_integer(p, &size) && size != 64)
			ptx_parse_fail(p, PTX_NOT_SUPPORTED, "only .address_size 64 is supported");
	} else if (ptx_token_is(&p->token, ".file") || ptx_token_is(&p->token, ".loc")) {
		skip_line(p);
	} else if (ptx_token_is(&p->token, ".section")) {
		skip_section(p);
	} else if (ptx_token_is(&p->token, ".pragma")) {
		ptx_parse_next(p);
		ptx_parse_expect(p, PTX_TOK_STRING);
		ptx_parse_expect(p, ';');
	} else {
		bool directive = p->token.kind == PTX_TOK_NAME && p->token.text[0] == '.';

		ptx_parse_fail(p, directive ? PTX_NOT_SUPPORTED : PTX_INVALID, "`%.*s` is not %s at module scope",
			       (int)(p->token.length < 60 ? p->token.length : 60), p->token.text,
			       directive ? "supported" : "allowed");
	}
}

static void parse_text(struct ptx_parser *p, const struct ptx_text *text)
{
	size_t length = text->length;

	/* text that was NUL-terminated often comes with the NUL */
	while (length && !text->text[length - 1])
		length--;
	p->lexer = (struct ptx_lexer){text->text, text->text + length, 1};
	p->start = text->text;
	p->text++;
	p->constant_bytes = 0;
	/* names that are known already depend on the dialect of the text */
	p->dialect = (struct ptx_dialect){0};
	memset(p->mnemonics, 0, sizeof(p->mnemonics));
	ptx_parse_next(p);
	if (p->status == PTX_OK && !ptx_token_is(&p->token, ".version"))
		ptx_parse_fail(p, PTX_INVALID, "a PTX module must start with .version");
	while (p->token.kind && p->status == PTX_OK)
		parse_directive(p);
	if (p->status == PTX_OK && p->module->source && !ptx_source_note(p->module->source, p))
		ptx_parse_no_memory(p);
	if (p->status == PTX_OK)
		forget_locals(p);
}

void ptx_parse_end(struct ptx_parser *p)
{
	if (p)
		free(p->scope);
	free(p);
}

enum ptx_status ptx_parse(struct ptx_module *module, const struct ptx_text *texts, size_t count,
			  struct ptx_error *error)
{
	struct ptx_parser *p = calloc(1, sizeof(*p));
	enum ptx_status status;

	if (!p)
		return PTX_NO_MEMORY;
	*p = (struct ptx_parser){.module = module, .error = error};
	for (size_t n = 0; n < count && p->status == PTX_OK; n++)
		parse_text(p, &texts[n]);
	status = p->status;
	ptx_parse_end(p);
	return status;
}
