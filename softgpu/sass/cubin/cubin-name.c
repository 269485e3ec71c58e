/* SPDX-License-Identifier: Apache-2.0 */
/* Names of variables, which are unique and names in PTX. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sass/cubin/cubin-data.h"
#include "sass/cubin/memory.h"
#include "sass/cubin/text.h"

static int by_name(const void *a, const void *b)
{
	const struct sass_variable *const *x = a, *const *y = b;
	int order = strcmp((*x)->name, (*y)->name);

	/* the visible one keeps its name */
	if (!order && (*x)->global != (*y)->global)
		return (*x)->global ? -1 : 1;
	return order ? order : *x < *y ? -1 : *x > *y;
}

/* A name of its own, from what is a part of a name in PTX. */
static bool rename_variable(struct sass_file *file, struct sass_variable *v)
{
	static const char format[] = "vcuda_%u_%llu_%s";
	unsigned long long offset = v->offset;
	int length = snprintf(NULL, 0, format, v->section, offset, v->name);
	char *name = length < 0 ? NULL : sass_allocate((uint64_t)length + 1, 1);

	if (!name)
		return sass_file_no_memory(file);
	snprintf(name, (size_t)length + 1, format, v->section, offset, v->name);
	for (char *at = name; *at; at++)
		if (!sass_is_name_character(*at))
			*at = '_';
	free(v->own_name);
	v->name = v->own_name = name;
	return true;
}

bool sass_data_name(struct sass_file *file, struct sass_cubin *c)
{
	struct sass_variable **sorted = sass_allocate(c->variable_count + 1u, sizeof(struct sass_variable *));
	const char *before = NULL;
	bool good = true;

	if (!sorted)
		return sass_file_no_memory(file);
	for (uint32_t n = 0; n < c->variable_count; n++)
		sorted[n] = &c->variables[n];
	if (c->variable_count)
		qsort(sorted, c->variable_count, sizeof(*sorted), by_name);
	for (uint32_t n = 0; n < c->variable_count && good; n++) {
		bool again = before && !strcmp(before, sorted[n]->name);

		before = again ? before : sorted[n]->name;
		if (again || !sass_is_name(sorted[n]->name))
			good = rename_variable(file, sorted[n]);
	}
	free(sorted);
	return good;
}
