/* SPDX-License-Identifier: Apache-2.0 */
#include "sass/cubin/cubin-data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sass/cubin/text.h"
#include "sass/cubin/memory.h"

#define STO_CUDA_MANAGED 0x04
#define STO_CUDA_SHARED 0x40
#define STO_CUDA_CONSTANT 0x80

#define MAX_DATA_SECTIONS 16
/* A gap this large is kept, because something may be in it. */
#define GAP_BYTES 8
#define MAX_ALIGN 65536

/* The variables that are read so far, and where they are. */
struct data {
	struct sass_file *file;
	struct sass_cubin *cubin;
	struct sass_variable *found; /* a variable for each symbol that is one */
	uint32_t found_count;
	struct sass_relocations relocations;
};

static bool is_data(const struct sass_section *s)
{
	return !strcmp(s->name, ".nv.global") || !strcmp(s->name, ".nv.global.init") ||
	       !strcmp(s->name, ".nv.constant3");
}

static enum sass_space space_of(const struct sass_section *s)
{
	return strcmp(s->name, ".nv.constant3") ? SASS_GLOBAL : SASS_CONSTANT;
}

static bool is_object(const struct sass_symbol *s)
{
	return s->type == STT_OBJECT || s->type == SASS_STT_OBJECT;
}

/* The largest power of two that the offset and the section's own alignment have in common. */
static uint32_t alignment(const struct sass_section *s, uint64_t offset)
{
	uint64_t both = s->align | offset | MAX_ALIGN;

	return (uint32_t)(both & -both);
}

static struct sass_variable variable(const struct data *d, uint32_t section, uint64_t offset, uint64_t bytes)
{
	const struct sass_section *s = &d->file->sections[section];

	return (struct sass_variable){.space = space_of(s),
				      .section = section,
				      .offset = offset,
				      .bytes = bytes,
				      .align = alignment(s, offset),
				      .initial = s->data ? s->data + offset : NULL};
}

static bool find_variables(struct data *d)
{
	d->found = sass_allocate(d->file->symbol_count + 1u, sizeof(*d->found));
	if (!d->found)
		return sass_file_no_memory(d->file);
	for (uint32_t n = 0; n < d->file->symbol_count; n++) {
		const struct sass_symbol *s = &d->file->symbols[n];
		const struct sass_section *section = &d->file->sections[s->section];
		struct sass_variable *v = &d->found[d->found_count];

		if (!s->section || !is_object(s) || !s->bytes || !is_data(section))
			continue;
		if (s->value > section->bytes || s->bytes > section->bytes - s->value)
			return sass_file_fail(d->file, "the variable `%.200s` goes beyond `%.200s`", s->name,
					      section->name);
		*v = variable(d, s->section, s->value, s->bytes);
		v->name = s->name;
		v->global = s->binding != STB_LOCAL;
		v->managed = s->other & STO_CUDA_MANAGED;
		d->found_count++;
	}
	return true;
}

static int by_place(const void *a, const void *b)
{
	const struct sass_variable *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

/* Adds a variable for bytes that have no symbol, if there may be something in them. */
static bool add_gap(struct data *d, uint32_t section, uint64_t from, uint64_t to)
{
	struct sass_variable v = variable(d, section, from, to - from);
	bool empty = v.space != SASS_CONSTANT && v.bytes < GAP_BYTES;

	for (uint64_t n = 0; v.initial && empty && n < v.bytes; n++)
		empty = !v.initial[n];
	if (from == to || empty)
		return true;
	if (asprintf(&v.own_name, "vcuda_gap_%u_%llu", section, (unsigned long long)from) < 0)
		return sass_file_no_memory(d->file);
	v.name = v.own_name;
	d->cubin->variables[d->cubin->variable_count++] = v;
	return true;
}

/* The variables of one section, of which `*next` is the first one that was found, with the gaps. */
static bool place_section(struct data *d, uint32_t section, uint32_t *next)
{
	uint64_t end = 0;

	for (; *next < d->found_count && d->found[*next].section == section; ++*next) {
		const struct sass_variable *v = &d->found[*next];

		/* a second name of the same bytes */
		if (v->offset < end)
			continue;
		if (!add_gap(d, section, end, v->offset))
			return false;
		d->cubin->variables[d->cubin->variable_count++] = *v;
		end = v->offset + v->bytes;
	}
	return add_gap(d, section, end, d->file->sections[section].bytes);
}

static bool read_relocations(struct data *d, uint32_t section)
{
	uint32_t first = d->relocations.count;

	for (uint32_t n = 0; n < d->file->section_count; n++) {
		const struct sass_section *s = &d->file->sections[n];

		if ((s->type == SHT_REL || s->type == SHT_RELA) && s->info == section &&
		    !sass_relocations_read(d->file, s, &d->relocations))
			return false;
	}
	sass_relocations_sort(&d->relocations, first);
	return true;
}

/* Gives each variable of a section its relocations. The list may still move: only counts are kept. */
static void share_relocations(struct data *d, uint32_t first_variable, uint32_t first)
{
	struct sass_cubin *c = d->cubin;
	uint32_t at = first;

	for (uint32_t n = first_variable; n < c->variable_count; n++) {
		struct sass_variable *v = &c->variables[n];

		while (at < d->relocations.count && d->relocations.list[at].offset < v->offset)
			at++;
		v->first_relocation = at;
		while (at < d->relocations.count && d->relocations.list[at].offset < v->offset + v->bytes)
			at++;
		v->relocation_count = at - v->first_relocation;
	}
}

static bool place_variables(struct data *d)
{
	uint32_t next = 0, sections = 0;
	struct sass_cubin *c = d->cubin;

	/* behind each variable and in each section there may be a gap */
	c->variables = sass_allocate(2 * (uint64_t)d->found_count + MAX_DATA_SECTIONS, sizeof(*c->variables));
	if (!c->variables)
		return sass_file_no_memory(d->file);
	if (d->found_count)
		qsort(d->found, d->found_count, sizeof(*d->found), by_place);
	for (uint32_t n = 0; n < d->file->section_count; n++) {
		uint32_t first_variable = c->variable_count, first = d->relocations.count;

		if (!is_data(&d->file->sections[n]))
			continue;
		if (++sections > MAX_DATA_SECTIONS)
			return sass_file_fail(d->file, "the machine code has too many sections of variables");
		if (!place_section(d, n, &next) || !read_relocations(d, n))
			return false;
		share_relocations(d, first_variable, first);
	}
	return true;
}

static bool read_undefined(struct data *d)
{
	struct sass_cubin *c = d->cubin;

	c->undefined = sass_allocate(d->file->symbol_count + 1u, sizeof(*c->undefined));
	if (!c->undefined)
		return sass_file_no_memory(d->file);
	for (uint32_t n = 0; n < d->file->symbol_count; n++) {
		const struct sass_symbol *s = &d->file->symbols[n];

		if (s->section || !sass_is_name(s->name) || s->binding == STB_LOCAL || (s->other & STO_CUDA_SHARED) ||
		    (!is_object(s) && s->type != STT_FUNC))
			continue;
		c->undefined[c->undefined_count++] =
			(struct sass_undefined){.name = s->name,
						.is_function = s->type == STT_FUNC,
						.space = s->other & STO_CUDA_CONSTANT ? SASS_CONSTANT : SASS_GLOBAL};
	}
	return true;
}

bool sass_data_read(struct sass_file *file, struct sass_cubin *c)
{
	struct data d = {.file = file, .cubin = c};
	bool good = find_variables(&d) && place_variables(&d) && sass_data_name(file, c) && read_undefined(&d);

	free(d.found);
	c->data_relocations = d.relocations.list;
	for (uint32_t n = 0; good && n < c->variable_count; n++)
		if (c->variables[n].relocation_count)
			c->variables[n].relocations = c->data_relocations + c->variables[n].first_relocation;
	return good;
}

void sass_data_free(struct sass_cubin *c)
{
	for (uint32_t n = 0; n < c->variable_count; n++)
		free(c->variables[n].own_name);
	free(c->variables);
	free(c->undefined);
	free(c->data_relocations);
}

const struct sass_variable *sass_variable_at(const struct sass_cubin *c, uint32_t section, uint64_t offset)
{
	const struct sass_variable key = {.section = section, .offset = offset}, *v;
	uint32_t low = 0, high = c->variable_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		v = &c->variables[middle];
		if (v->section < key.section || (v->section == key.section && v->offset <= key.offset))
			low = middle + 1;
		else
			high = middle;
	}
	v = low ? &c->variables[low - 1] : NULL;
	return v && v->section == section && offset - v->offset <= v->bytes ? v : NULL;
}
