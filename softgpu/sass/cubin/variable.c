/* SPDX-License-Identifier: Apache-2.0 */
#include "sass/cubin/variable.h"
#include "sass/cubin/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Values in a line of the text. */
#define LINE 16

struct writer {
	struct sass_text *text;
	const struct sass_cubin *cubin;
	bool values;
	char *error;
	size_t room;
};

static bool fail(struct writer *w, const struct sass_variable *v, const char *why)
{
	snprintf(w->error, w->room, "the variable `%.100s` of the machine code has %s", v->name, why);
	return false;
}

static const char *space_of(enum sass_space space)
{
	return space == SASS_CONSTANT ? ".const" : ".global";
}

/* Bytes of an element: addresses are elements of 8, and words make the text shorter than bytes do. */
static unsigned int element_of(const struct sass_variable *v)
{
	if (v->relocation_count)
		return 8;
	return v->align % 4 == 0 && v->bytes % 4 == 0 ? 4 : 1;
}

static void add_declaration(struct writer *w, const struct sass_variable *v, const char *linkage)
{
	unsigned int element = element_of(v);

	sass_text_add(w->text, "%s%s %s.align %u .u%u ", linkage, space_of(v->space),
		      v->managed ? ".attribute(.managed) " : "", v->align, 8 * element);
	sass_text_put(w->text, v->name);
	sass_text_add(w->text, "[%" PRIu64 "]", v->bytes / element);
}

/* The address of code is a number that no memory has: it can be compared, and an access of it is a fault. */
static bool add_function(struct writer *w, const struct sass_variable *v, const struct sass_relocation *r)
{
	if (!r->symbol_section)
		return fail(w, v, "the address of a function that the module does not have");
	sass_text_add(w->text, "0x%" PRIx64,
		      vcuda_sass_address(r->symbol_section, r->symbol_value) + (uint64_t)r->addend);
	return true;
}

static bool add_address(struct writer *w, const struct sass_variable *v, const struct sass_relocation *r)
{
	const struct sass_variable *to;
	int64_t addend = r->addend;
	const char *name = r->symbol;

	if (r->is_function || sass_function_in(w->cubin, r->symbol_section))
		return add_function(w, v, r);
	if (r->symbol_section) {
		to = sass_variable_at(w->cubin, r->symbol_section, r->symbol_value);
		if (!to)
			return fail(w, v, "the address of something that is no variable");
		name = to->name;
		addend = (int64_t)((uint64_t)addend + r->symbol_value - to->offset);
	} else if (!sass_is_name(name)) {
		return fail(w, v, "the address of something that is no variable");
	}
	sass_text_put(w->text, "generic(");
	sass_text_put(w->text, name);
	sass_text_put(w->text, ")");
	if (addend)
		sass_text_add(w->text, "%c%" PRIu64, addend < 0 ? '-' : '+',
			      addend < 0 ? -(uint64_t)addend : (uint64_t)addend);
	return true;
}

static bool is_address(const struct sass_relocation *r)
{
	return r->type == SASS_ADDRESS_64 || r->type == SASS_GENERIC_64 ||
	       (r->type == SASS_FUNCTION_64 && r->is_function);
}

/* An element is a number or, where a relocation is, an address. */
static bool add_element(struct writer *w, const struct sass_variable *v, uint64_t at, unsigned int bytes,
			uint32_t *relocation)
{
	const struct sass_relocation *r = *relocation < v->relocation_count ? &v->relocations[*relocation] : NULL;
	uint64_t value = 0;

	if (r && r->offset - v->offset < at + bytes) {
		++*relocation;
		if (!is_address(r))
			return fail(w, v, "a relocation of an unknown kind");
		if (r->offset - v->offset != at)
			return fail(w, v, "an address that is not a whole number of 64 bits");
		return add_address(w, v, r);
	}
	if (v->initial)
		memcpy(&value, v->initial + at, bytes);
	sass_text_add(w->text, value < 10 ? "%" PRIu64 : "0x%" PRIx64, value);
	return true;
}

/* Zeroes at the end are left out. */
static uint64_t used_bytes(const struct sass_variable *v, unsigned int element)
{
	uint64_t used = v->initial ? v->bytes : 0, last;

	while (used && !v->initial[used - 1])
		used--;
	if (v->relocation_count) {
		last = v->relocations[v->relocation_count - 1].offset - v->offset + 1;
		used = used > last ? used : last;
	}
	return (used + element - 1) / element * element;
}

static bool add_value(struct writer *w, const struct sass_variable *v)
{
	unsigned int element = element_of(v);
	uint64_t used = used_bytes(v, element);
	uint32_t relocation = 0;

	if (!used || !w->values)
		return true;
	sass_text_put(w->text, " = {");
	for (uint64_t at = 0; at < used; at += element) {
		sass_text_put(w->text, !at ? "" : at / element % LINE ? ", " : ",\n");
		if (!add_element(w, v, at, element, &relocation))
			return false;
	}
	sass_text_put(w->text, "}");
	return relocation == v->relocation_count || fail(w, v, "two addresses in one place");
}

static bool add_variable(struct writer *w, const struct sass_variable *v, bool is_declared)
{
	if (v->bytes % element_of(v))
		return fail(w, v, "addresses and a size that is no multiple of 8");
	add_declaration(w, v, v->global || is_declared ? ".visible " : "");
	if (!add_value(w, v))
		return false;
	sass_text_put(w->text, ";\n");
	return true;
}

/* Declares the variables whose addresses are in others: they may be defined behind these. */
static void declare(struct writer *w, bool *is_declared)
{
	for (uint32_t n = 0; n < w->cubin->variable_count; n++) {
		const struct sass_variable *v = &w->cubin->variables[n];

		for (uint32_t k = 0; k < v->relocation_count; k++) {
			const struct sass_relocation *r = &v->relocations[k];
			const struct sass_variable *to = sass_variable_at(w->cubin, r->symbol_section, r->symbol_value);

			if (!to || is_declared[to - w->cubin->variables])
				continue;
			is_declared[to - w->cubin->variables] = true;
			add_declaration(w, to, ".extern ");
			sass_text_put(w->text, ";\n");
		}
	}
}

static void declare_undefined(struct writer *w)
{
	for (uint32_t n = 0; n < w->cubin->undefined_count; n++) {
		if (w->cubin->undefined[n].is_function)
			continue;
		sass_text_add(w->text, ".extern %s .align 8 .b8 ", space_of(w->cubin->undefined[n].space));
		sass_text_put(w->text, w->cubin->undefined[n].name);
		sass_text_put(w->text, "[];\n");
	}
}

bool sass_variables_add(struct sass_text *text, const struct sass_cubin *c, bool values, char *error, size_t room)
{
	struct writer w = {.text = text, .cubin = c, .values = values, .error = error, .room = room};
	bool *is_declared = sass_allocate(c->variable_count + 1u, sizeof(*is_declared));
	bool good = true;

	if (!is_declared) {
		sass_text_no_memory(text);
		return true;
	}
	declare_undefined(&w);
	if (values)
		declare(&w, is_declared);
	for (uint32_t n = 0; n < c->variable_count && good && !text->failed; n++)
		good = add_variable(&w, &c->variables[n], is_declared[n]);
	free(is_declared);
	return good;
}
