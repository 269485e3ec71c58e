/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile cubins, and the PTX that they become. The seeds are a cubin that is made by hand, linked and not, of an old
 * and a new form. */
#include <stdlib.h>
#include <string.h>

#include "softgpu/sass/cubin/cubin.h"
#include "softgpu/sass/module.h"
#include "softgpu/sass/sass.h"
#include "softgpu/test/sass-sample.h"
#include "test/fuzz/fuzz.h"

static const uint8_t *file, *file_end;

/* All bytes that the reader returns are inside the file. */
static void check(const uint8_t *at, uint64_t bytes)
{
	static volatile uint8_t sum;

	if (!at || !bytes)
		return;
	if (at < file || at > file_end || bytes > (uint64_t)(file_end - at))
		abort();
	sum = (uint8_t)(sum + at[0] + at[bytes - 1]);
}

static void check_name(const char *name)
{
	check((const uint8_t *)name, strlen(name) + 1);
}

static void check_function(const struct sass_function *f)
{
	uint32_t end = 0;

	check_name(f->name);
	check(f->code, f->bytes);
	check(f->constant0, f->constant0_bytes);
	check(f->constant2, f->constant2_bytes);
	if (f->bytes % 16)
		abort();
	for (uint32_t n = 0; n < f->param_count; n++) {
		if (f->params[n].ordinal != n || f->params[n].offset < end)
			abort();
		end = f->params[n].offset + f->params[n].bytes;
	}
	if (end > f->param_bytes)
		abort();
	for (uint32_t n = 0; n < f->relocation_count; n++)
		if (f->relocations[n].offset >= f->bytes ||
		    (n && f->relocations[n].offset < f->relocations[n - 1].offset))
			abort();
}

static void check_variable(const struct sass_cubin *c, const struct sass_variable *v)
{
	check(v->initial, v->bytes);
	if (!v->align || (v->align & (v->align - 1)) || v->offset % v->align)
		abort();
	if (v != c->variables && v[-1].section == v->section && v[-1].offset + v[-1].bytes > v->offset)
		abort();
	if (sass_variable_at(c, v->section, v->offset) != v)
		abort();
	for (uint32_t n = 0; n < v->relocation_count; n++)
		if (v->relocations[n].offset < v->offset || v->relocations[n].offset >= v->offset + v->bytes)
			abort();
}

/* The text is whole. */
static void check_text(const struct sass_cubin *c, const char *kernel)
{
	char error[300] = "", *text = NULL;
	size_t length;
	int result = sass_module_text(c, kernel, &text, &length, error, sizeof(error));

	if (result ? text || !*error : strlen(text) != length)
		abort();
	free(text);
}

/* The texts of functions that kernels call by their addresses. */
static void check_callees(const struct sass_cubin *c)
{
	char name[64];

	for (uint32_t n = 0; n < c->function_count; n++)
		if (!c->functions[n].kernel &&
		    vcuda_sass_callee(vcuda_sass_address(c->functions[n].section, 0), name, sizeof(name)))
			check_text(c, name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char error[300];
	struct sass_cubin *c;

	sass_cubin_open(data, bytes, &c, error, sizeof(error));
	file = data;
	file_end = data + bytes;
	for (uint32_t n = 0; c && n < c->function_count; n++)
		check_function(&c->functions[n]);
	for (uint32_t n = 0; c && n < c->variable_count; n++)
		check_variable(c, &c->variables[n]);
	if (c) {
		check(c->constant3, c->constant3_bytes);
		check(c->constant4, c->constant4_bytes);
		check_text(c, NULL);
		check_text(c, VCUDA_SASS_OUTLINE);
		check_callees(c);
	}
	sass_cubin_close(c);
	return 0;
}

size_t fuzz_seed(unsigned int number, uint8_t *buffer, size_t room)
{
	struct sass_sample s = sass_sample();
	struct sass_cubin *c;
	char error[300];

	if (sizeof(s) > room)
		return 0;
	if (number % 2)
		s.head.e_type = ET_REL;
	if (number / 2 % 2) {
		s.head.e_ident[EI_OSABI] = 0x33;
		s.head.e_flags = 0x500550;
	}
	memcpy(buffer, &s, sizeof(s));
	/* The reader must accept a good file. */
	if (sass_cubin_open(buffer, sizeof(s), &c, error, sizeof(error)) || c->architecture != 80 ||
	    c->function_count != 1)
		abort();
	sass_cubin_close(c);
	return sizeof(s);
}
