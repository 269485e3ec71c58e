/* SPDX-License-Identifier: Apache-2.0 */
#include "case.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
	const char *path;
	struct case_file *file;
	unsigned line;
};

char *read_text(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = NULL;
	size_t size = 0;

	if (!f)
		return NULL;
	if (getdelim(&text, &size, 0, f) < 0) {
		free(text);
		text = calloc(1, 1);
	}
	fclose(f);
	return text;
}

static bool bad(const struct reader *r, const char *what)
{
	fprintf(stderr, "%s:%u: %s\n", r->path, r->line, what);
	return false;
}

static char *trim(char *text)
{
	size_t length;

	while (isspace((unsigned char)*text))
		text++;
	length = strlen(text);
	while (length && isspace((unsigned char)text[length - 1]))
		text[--length] = 0;
	return text;
}

static bool parse_types(char *words, const struct value_type **types, unsigned *count)
{
	char *save = NULL;

	*count = 0;
	for (char *word = strtok_r(words, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
		if (*count == CASE_VALUES || !(types[*count] = value_type(word)))
			return false;
		(*count)++;
	}
	return true;
}

static uint64_t key_of(const struct ptx_case *c)
{
	uint64_t key = value_mix(c->result_count * 16 + c->operand_count);
	const struct value_type *const *lists[] = {c->results, c->operands};

	for (const char *at = c->text; *at; at++)
		key = value_mix(key ^ (unsigned char)*at);
	for (unsigned n = 0; n < 2; n++)
		for (unsigned k = 0; k < CASE_VALUES && lists[n][k]; k++)
			for (const char *at = lists[n][k]->name; *at; at++)
				key = value_mix(key ^ (unsigned char)*at);
	return key;
}

/* A bare instruction's name: all results and operands behind it. */
static char *complete(const struct ptx_case *c, const char *text)
{
	static const char results[] = "defg", operands[] = "abcx";
	char *whole = NULL;
	size_t size;
	FILE *out;

	if (strchr(text, '$') || strchr(text, ';'))
		return strdup(text);
	out = open_memstream(&whole, &size);
	fputs(text, out);
	for (unsigned n = 0; n < c->result_count; n++)
		fprintf(out, "%s$%c", n ? "|" : " ", results[n]);
	for (unsigned n = 0; n < c->operand_count; n++)
		fprintf(out, ", $%c", operands[n]);
	fputs(";", out);
	fclose(out);
	return whole;
}

static bool add_case(struct reader *r, const struct ptx_case *like, const char *text)
{
	struct case_file *file = r->file;
	struct ptx_case *c;

	file->cases = realloc(file->cases, (file->count + 1) * sizeof(*c));
	c = &file->cases[file->count++];
	*c = *like;
	c->text = complete(c, text);
	c->line = r->line;
	c->key = key_of(c);
	for (unsigned n = 0; n + 1 < file->count; n++)
		if (file->cases[n].key == c->key)
			return bad(r, "this test is there twice");
	return true;
}

/* The first <a|b|c>; text in <> without a choice belongs to the instruction. */
static const char *find_choice(const char *text, const char **close)
{
	for (; (text = strchr(text, '<')); text++) {
		*close = text + strcspn(text, ">\n");
		if (**close == '>' && memchr(text, '|', (size_t)(*close - text)))
			return text;
	}
	return NULL;
}

/* The first choice in the text with each of its values, and so on with what follows. */
static bool expand(struct reader *r, const struct ptx_case *like, const char *text)
{
	const char *close, *open = find_choice(text, &close);
	bool ok = true;
	char *one;

	if (!open)
		return add_case(r, like, text);
	for (const char *at = open + 1; ok && at <= close;) {
		size_t length = strcspn(at, "|>");

		if (asprintf(&one, "%.*s%.*s%s", (int)(open - text), text, (int)length, at, close + 1) < 0)
			return false;
		ok = expand(r, like, one);
		free(one);
		at += length + 1;
	}
	return ok;
}

static bool parse_case(struct reader *r, char *text)
{
	char *equals = strchr(text, '='), *colon = equals ? strchr(equals, ':') : NULL, *bound;
	struct ptx_case c = {.may_refuse = *text == '?'};

	if (!colon)
		return bad(r, "expected: results = operands : instruction");
	*equals = *colon = 0;
	text += c.may_refuse;
	if (!parse_types(text, c.results, &c.result_count) || !c.result_count)
		return bad(r, "unknown or too many results");
	if (!parse_types(equals + 1, c.operands, &c.operand_count))
		return bad(r, "unknown or too many operands");
	text = trim(colon + 1);
	bound = strrchr(text, '~');
	if (bound) {
		*bound++ = 0;
		if (sscanf(bound, "%lf %lf", &c.bound.relative, &c.bound.absolute) < 1)
			return bad(r, "a bound is a number or two");
	}
	return expand(r, &c, trim(text));
}

static bool parse_line(struct reader *r, char *text)
{
	unsigned *t = r->file->threads;

	if (!strncmp(text, "target ", 7)) {
		snprintf(r->file->target, sizeof(r->file->target), "%s", trim(text + 7));
		return true;
	}
	if (!strncmp(text, "threads ", 8))
		return sscanf(text + 8, "%u %u %u", &t[0], &t[1], &t[2]) == 3 || bad(r, "three numbers of threads");
	if (!strncmp(text, "module ", 7)) {
		free(r->file->module);
		r->file->module = strdup(text + 7);
		return true;
	}
	return parse_case(r, text);
}

/* From `text` to where the statement ends: a line, or with {{ in it everything up to }}. The brackets become blanks. */
static char *statement_end(char *text, unsigned *lines)
{
	char *end = text + strcspn(text, "\n"), *open = strstr(text, "{{"), *close;

	if (open && open < end) {
		close = strstr(open, "}}");
		if (!close)
			return NULL;
		for (char *at = open; at < close; at++)
			*lines += *at == '\n';
		memset(open, ' ', 2);
		memset(close, ' ', 2);
		end = close + strcspn(close, "\n");
	}
	return end;
}

bool case_file_read(const char *path, struct case_file *file)
{
	struct reader r = {path, file, 1};
	char *text = read_text(path), *end;
	bool ok = true;

	*file = (struct case_file){.target = "sm_80", .threads = {128, 1, 1}, .module = strdup("")};
	if (!text)
		return bad(&r, "cannot be read");
	for (char *at = text; ok && *at; at = end) {
		unsigned lines = 0;
		bool last;

		end = statement_end(at, &lines);
		if (!end) {
			ok = bad(&r, "'{{' without '}}'");
			break;
		}
		last = !*end;
		*end = 0;
		at = trim(at);
		if (*at && *at != '#')
			ok = parse_line(&r, at);
		r.line += lines + 1;
		end += !last;
	}
	free(text);
	return ok;
}
