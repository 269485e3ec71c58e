/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels. Each block in braces has its own; a name that a block uses and does not define is one of the block around it.
 * Which it is shows where the block ends: until then the block has an undefined label of that name.
 */
#include <string.h>

#include "front/ptx-parse.h"

struct ptx_symbol *ptx_parse_label(struct ptx_parser *p, const struct ptx_token *name)
{
	struct ptx_symbol *label = ptx_parse_find(&p->labels, name->text, name->length), **slot;
	uint32_t *at;

	if (label && label->offset == p->depth)
		return label;
	label = ptx_parse_declare(p, &p->labels, name->text, name->length);
	at = ptx_grow(&p->module->arena, (void **)&p->function->labels, &p->function->label_count, &p->label_room,
		      sizeof(*at));
	slot = ptx_grow(&p->module->arena, (void **)&p->label_scope, &p->label_scope_count, &p->label_scope_room,
			sizeof(*slot));
	if (!label || !at || !slot) {
		ptx_parse_no_memory(p);
		return NULL;
	}
	*slot = label;
	label->kind = PTX_SYM_LABEL;
	label->index = p->function->label_count - 1;
	label->line = name->line;
	label->offset = p->depth;
	*at = UINT32_MAX;
	return label;
}

/* For what must stand before it is used: of this name the innermost that says what may be called. */
struct ptx_symbol *ptx_parse_prototype_label(struct ptx_parser *p, const struct ptx_token *name)
{
	for (struct ptx_symbol *s = ptx_parse_find(&p->labels, name->text, name->length); s; s = s->next)
		if (strlen(s->name) == name->length && !memcmp(s->name, name->text, name->length) &&
		    (s->function || s->targets))
			return s;
	return ptx_parse_label(p, name);
}

void ptx_parse_begin_labels(struct ptx_parser *p)
{
	memset(&p->labels, 0, sizeof(p->labels));
	p->label_room = p->label_scope_count = p->label_scope_room = p->depth = 0;
	p->label_scope = NULL;
	p->outer_labels = NULL;
}

static bool not_defined(struct ptx_parser *p, const struct ptx_symbol *label)
{
	p->token.line = label->line;
	return ptx_parse_fail(p, PTX_INVALID, "the label `%s` is not defined", label->name);
}

bool ptx_parse_open_scope(struct ptx_parser *p)
{
	if (p->depth == PTX_MAX_SCOPES)
		return ptx_parse_fail(p, PTX_INVALID, "blocks are nested too deeply");
	p->scope_starts[p->depth++] = p->scope_count;
	return true;
}

bool ptx_parse_leave_scope(struct ptx_parser *p)
{
	struct ptx_symbol *inner = NULL, *next;

	while (p->label_scope_count && p->label_scope[p->label_scope_count - 1]->offset == p->depth) {
		struct ptx_symbol *label = p->label_scope[--p->label_scope_count];

		p->labels.buckets[label->hash % PTX_BUCKETS] = label->next;
		label->next = inner;
		inner = label;
	}
	ptx_parse_close_scope(p, p->scope_starts[--p->depth]);
	for (; inner; inner = next) {
		struct ptx_token name = {.text = inner->name, .length = strlen(inner->name), .line = inner->line};

		next = inner->next;
		if (p->function->labels[inner->index] != UINT32_MAX)
			continue;
		if (!p->depth)
			return not_defined(p, inner);
		inner->outer = ptx_parse_label(p, &name);
		inner->next = p->outer_labels;
		p->outer_labels = inner;
		if (!inner->outer)
			return false;
	}
	return true;
}

void ptx_parse_end_labels(struct ptx_parser *p)
{
	for (struct ptx_symbol *s = p->outer_labels; s; s = s->next) {
		const struct ptx_symbol *root = s;

		while (root->outer)
			root = root->outer;
		p->function->labels[s->index] = p->function->labels[root->index];
		s->function = root->function;
		s->targets = root->targets;
	}
}
