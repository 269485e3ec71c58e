/* SPDX-License-Identifier: Apache-2.0 */
#include "sass/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sass/cubin/entry.h"
#include "sass/lift/lift.h"
#include "sass/sass.h"
#include "sass/cubin/text.h"
#include "sass/cubin/variable.h"
#include "sass/cubin/whole.h"

/* The version of PTX that the text is of. */
#define VERSION "9.0"

/* Functions of the device's runtime that machine code calls by their names. */
static const struct {
	const char *name, *declaration;
} externals[] = {
	{"__assertfail", ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, "
			 ".param .b64 e);\n"},
	{"free", ".extern .func free(.param .b64 a);\n"},
	{"malloc", ".extern .func (.param .b64 r) malloc(.param .b64 a);\n"},
	{"vprintf", ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"},
};

static void declare_functions(struct sass_text *text, const struct sass_cubin *c)
{
	for (size_t e = 0; e < sizeof(externals) / sizeof(externals[0]); e++) {
		bool used = false;

		for (uint32_t n = 0; n < c->undefined_count && !used; n++)
			used = c->undefined[n].is_function && !strcmp(c->undefined[n].name, externals[e].name);
		if (used)
			sass_text_put(text, externals[e].declaration);
	}
}

static uint64_t blocks_of_cluster(const struct sass_function *f)
{
	uint64_t blocks = 1;

	for (unsigned int n = 0; n < 3; n++)
		if (f->cluster[n])
			blocks = blocks > UINT32_MAX ? blocks : blocks * f->cluster[n];
	return blocks;
}

static bool lift(struct sass_text *text, const struct sass_cubin *c, const struct sass_function *f, char *error,
		 size_t room)
{
	struct sass_whole whole;
	bool good;

	if (blocks_of_cluster(f) > 1) {
		snprintf(error, room, "clusters of more than one block");
		return false;
	}
	if (!sass_whole_make(c, f, &whole, error, room))
		return false;
	good = sass_lift(c, &whole.function, text, error, room);
	sass_whole_free(&whole);
	return good;
}

static void add_kernel(struct sass_text *text, const struct sass_cubin *c, const struct sass_function *f, bool outline)
{
	char error[200] = "machine code that was not translated";
	size_t before = text->length;

	if (!outline && lift(text, c, f, error, sizeof(error)))
		return;
	sass_text_cut(text, before);
	sass_entry_add_refused(text, f, error);
}

char *sass_module_text(const struct sass_cubin *c, const char *kernel, size_t *length, char *error, size_t room)
{
	bool outline = kernel && !strcmp(kernel, VCUDA_SASS_OUTLINE), good;
	struct sass_text text = {0};

	sass_text_add(&text, ".version " VERSION "\n.target sm_%u\n.address_size 64\n", c->architecture);
	declare_functions(&text, c);
	good = sass_variables_add(&text, c, !kernel || outline, error, room);
	for (uint32_t n = 0; n < c->function_count && good && !text.failed; n++)
		if (c->functions[n].kernel && sass_is_name(c->functions[n].name) &&
		    (!kernel || outline || !strcmp(kernel, c->functions[n].name)))
			add_kernel(&text, c, &c->functions[n], outline);
	if (good && text.failed)
		snprintf(error, room, "the text for the machine code needs more than %zu MiB, or there is no memory",
			 SASS_TEXT_BYTES >> 20);
	if (good && !text.failed) {
		*length = text.length;
		return text.data;
	}
	free(text.data);
	return NULL;
}
