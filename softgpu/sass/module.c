/* SPDX-License-Identifier: Apache-2.0 */
#include "sass/module.h"

#include <errno.h>
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
	{"__cuda_syscall_CGS_get_intrinsic_handle",
	 ".extern .func (.param .b64 r) __cuda_syscall_CGS_get_intrinsic_handle(.param .b32 a);\n"},
	{"__cuda_syscall_CGS_sync",
	 ".extern .func (.param .b32 r) __cuda_syscall_CGS_sync(.param .b64 a, .param .b32 b);\n"},
	{"__assertfail", ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, "
			 ".param .b64 e);\n"},
	{"cudaGraphSetConditional", ".extern .func cudaGraphSetConditional(.param .b64 a, .param .b32 b);\n"},
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
	if (c->has_callees)
		sass_text_put(text, ".extern .func " VCUDA_SASS_CALL "(.param .b64 a);\n");
}

static uint64_t blocks_of_cluster(const struct sass_function *f)
{
	uint64_t blocks = 1;

	for (unsigned int n = 0; n < 3; n++)
		if (f->cluster[n])
			blocks = blocks > UINT32_MAX ? blocks : blocks * f->cluster[n];
	return blocks;
}

static int lift(struct sass_text *text, const struct sass_cubin *c, const struct sass_function *f, const char *entry,
		char *error, size_t room)
{
	struct sass_whole whole;
	int result;

	if (blocks_of_cluster(f) > 1) {
		snprintf(error, room, "clusters of more than one block");
		return -ENOTSUP;
	}
	result = sass_whole_make(c, f, &whole, error, room);
	if (result)
		return result;
	whole.function.entry = entry;
	if (entry && c->callee_constant2) {
		whole.function.constant2 = c->callee_constant2;
		whole.function.constant2_bytes = c->callee_constant2_bytes;
	}
	result = sass_lift(c, &whole.function, text, error, room);
	sass_whole_free(&whole);
	return result;
}

/* The kernels of a text. */
struct contents {
	const struct sass_cubin *cubin;
	const char *kernel; /* NULL: all */
	bool outline;
	char *error;
	size_t room;
};

static int add_kernel(struct sass_text *text, const struct contents *of, const struct sass_function *f)
{
	char error[200] = "machine code that was not translated";
	size_t before = text->length;
	const char *entry = f->kernel ? NULL : of->kernel;
	int result = of->outline ? -ENOTSUP : lift(text, of->cubin, f, entry, error, sizeof(error));

	if (result != -ENOTSUP)
		return result;
	sass_text_cut(text, before);
	if (of->kernel && !of->outline) {
		snprintf(of->error, of->room, "%s", error);
		return -ENOSYS;
	}
	sass_entry_add_refused(text, f, error);
	return 0;
}

/* The function that the name of a callee's entry is of; NULL: none. */
static const struct sass_function *callee(const struct contents *of)
{
	const struct sass_function *f;
	unsigned int section;
	char name[64];

	if (!of->kernel || sscanf(of->kernel, VCUDA_SASS_CALLEE, &section) != 1 ||
	    !vcuda_sass_callee(vcuda_sass_address(section, 0), name, sizeof(name)) || strcmp(name, of->kernel))
		return NULL;
	f = sass_function_in(of->cubin, section);
	return f && !f->kernel ? f : NULL;
}

static int add_kernels(struct sass_text *text, const struct contents *of)
{
	const struct sass_function *called = callee(of);
	const struct sass_cubin *c = of->cubin;
	int result = 0;

	if (called)
		return add_kernel(text, of, called);
	for (uint32_t n = 0; n < c->function_count && !result && !text->failed; n++)
		if (c->functions[n].kernel && sass_is_name(c->functions[n].name) &&
		    (!of->kernel || of->outline || !strcmp(of->kernel, c->functions[n].name)))
			result = add_kernel(text, of, &c->functions[n]);
	return result;
}

static int add_all(struct sass_text *text, const struct contents *of)
{
	sass_text_add(text, ".version " VERSION "\n.target sm_%u\n.address_size 64\n", of->cubin->architecture);
	declare_functions(text, of->cubin);
	if (!sass_variables_add(text, of->cubin, !of->kernel || of->outline, of->error, of->room))
		return -ENOTSUP;
	return add_kernels(text, of);
}

int sass_module_text(const struct sass_cubin *c, const char *kernel, char **data, size_t *length, char *error,
		     size_t room)
{
	const struct contents of = {c, kernel, kernel && !strcmp(kernel, VCUDA_SASS_OUTLINE), error, room};
	struct sass_text text = {0};
	int result = add_all(&text, &of);

	if (!result && text.failed)
		result = text.no_memory ? -ENOMEM : -ENOTSUP;
	if (result == -ENOMEM)
		snprintf(error, room, "there is no memory to translate the machine code");
	else if (text.failed)
		snprintf(error, room, "the text for the machine code needs more than %zu MiB", SASS_TEXT_BYTES >> 20);
	if (result) {
		free(text.data);
		return result;
	}
	*data = text.data;
	*length = text.length;
	return 0;
}
