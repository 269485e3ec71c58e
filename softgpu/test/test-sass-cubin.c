/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of cubins: what it finds in one that is made by hand and in those of NVIDIA's ptxas, and that nothing in
 * them is believed. Arguments: cubins of sass-sample.ptx, each after its architecture.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "softgpu/sass/cubin/cubin.h"
#include "softgpu/sass/sass.h"
#include "softgpu/test/sass-sample.h"

static char **cubins;
static int cubin_count;
static char error[300];

/* From memory that ends there, for the sanitizer. The caller frees *copy. */
static struct sass_cubin *open_copy(const void *data, size_t bytes, void **copy)
{
	struct sass_cubin *c;

	*copy = malloc(bytes ? bytes : 1);
	memcpy(*copy, data, bytes);
	error[0] = 0;
	sass_cubin_open(*copy, bytes, &c, error, sizeof(error));
	return c;
}

static void refused(const void *data, size_t bytes, const char *why)
{
	void *copy;

	assert_null(open_copy(data, bytes, &copy));
	if (!strstr(error, why))
		fail_msg("the error is: %s", error);
	free(copy);
}

static const struct sass_variable *find(const struct sass_cubin *c, const char *name)
{
	for (uint32_t n = 0; n < c->variable_count; n++)
		if (!strcmp(c->variables[n].name, name))
			return &c->variables[n];
	fail_msg("there is no variable %s", name);
	return NULL;
}

static const struct sass_function *kernel(const struct sass_cubin *c, const char *name)
{
	for (uint32_t n = 0; n < c->function_count; n++)
		if (!strcmp(c->functions[n].name, name))
			return &c->functions[n];
	fail_msg("there is no kernel %s", name);
	return NULL;
}

static void functions(void **state)
{
	struct sass_sample s = sass_sample();
	const struct sass_function *f;
	struct sass_cubin *c;
	void *copy;

	(void)state;
	c = open_copy(&s, sizeof(s), &copy);
	assert_non_null(c);
	assert_int_equal(c->architecture, 80);
	assert_true(c->linked && !c->specific);
	assert_int_equal(c->function_count, 1);
	f = kernel(c, "k");
	assert_true(f->kernel && f->global);
	assert_int_equal(f->bytes, 32);
	assert_memory_equal(f->code, s.text, 32);
	assert_int_equal(f->param_base, SAMPLE_PARAM_BASE);
	assert_int_equal(f->param_bytes, 16);
	assert_int_equal(f->param_count, 2);
	assert_int_equal(f->params[0].bytes, 4);
	assert_int_equal(f->params[1].offset, 8);
	assert_int_equal(f->params[1].bytes, 8);
	assert_int_equal(f->frame_bytes, 48);
	assert_int_equal(f->shared_bytes, 132);
	assert_int_equal(f->registers, 24);
	assert_int_equal(f->max_threads[0], 128);
	assert_int_equal(f->max_threads[1], 2);
	assert_int_equal(f->constant0_bytes, SAMPLE_PARAM_BASE + 16);
	assert_ptr_equal(sass_function_in(c, SAMPLE_TEXT), f);
	assert_null(sass_function_in(c, SAMPLE_DATA));
	sass_cubin_close(c);
	free(copy);
}

/* Bytes of constants without a name are variables too, so that all offsets stay. */
static void variables(void **state)
{
	struct sass_sample s = sass_sample();
	const struct sass_variable *v;
	struct sass_cubin *c;
	void *copy;

	(void)state;
	c = open_copy(&s, sizeof(s), &copy);
	assert_non_null(c);
	assert_int_equal(c->variable_count, 6);
	v = c->variables;
	assert_true(v[0].space == SASS_CONSTANT && v[0].offset == 0 && v[0].bytes == 8);
	assert_string_equal(v[1].name, "table");
	assert_true(v[1].offset == 8 && v[1].bytes == 20 && v[1].align == 8 && v[1].initial[2] == 3);
	assert_true(v[2].offset == 28 && v[2].bytes == 4 && v[2].align == 4);
	v = find(c, "pointer");
	assert_int_equal(v->relocation_count, 1);
	assert_string_equal(v->relocations[0].symbol, "counter");
	assert_int_equal(v->relocations[0].addend, 2);
	assert_ptr_equal(sass_variable_at(c, SAMPLE_DATA, 11), v);
	v = find(c, "room");
	assert_null(v->initial);
	assert_int_equal(v->bytes, 400);
	assert_ptr_equal(sass_variable_at(c, SAMPLE_ZEROES, 400), v);
	assert_null(sass_variable_at(c, SAMPLE_ZEROES, 401));
	assert_null(sass_variable_at(c, SAMPLE_TEXT, 0));
	assert_int_equal(c->bank4_count, 2);
	assert_string_equal(c->bank4[0].symbol, "counter");
	assert_true(c->bank4[1].offset == 8 && c->bank4[1].is_function && !c->bank4[1].symbol_section);
	assert_int_equal(c->undefined_count, 1);
	assert_string_equal(c->undefined[0].name, "vprintf");
	sass_cubin_close(c);
	free(copy);
}

/* Two variables may have one name, or a name that PTX does not have; the visible one keeps its name. */
static void names(void **state)
{
	struct sass_sample s = sass_sample();
	struct sass_cubin *c;
	void *copy;

	(void)state;
	s.symbols[SAMPLE_TABLE].st_name = s.symbols[SAMPLE_COUNTER].st_name;
	s.symbols[SAMPLE_TABLE].st_info = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT);
	s.strings[s.symbols[SAMPLE_ROOM].st_name] = '.';
	c = open_copy(&s, sizeof(s), &copy);
	assert_non_null(c);
	assert_int_equal(find(c, "counter")->section, SAMPLE_DATA);
	assert_string_not_equal(sass_variable_at(c, SAMPLE_CONSTANT3, 8)->name, "counter");
	assert_null(strchr(sass_variable_at(c, SAMPLE_ZEROES, 0)->name, '.'));
	sass_cubin_close(c);
	free(copy);
}

/* A variable within another one is the other one. */
static void overlaps(void **state)
{
	struct sass_sample s = sass_sample();
	struct sass_cubin *c;
	void *copy;

	(void)state;
	s.symbols[SAMPLE_POINTER].st_size = 4;
	s.symbols[SAMPLE_COUNTER].st_size = 16;
	c = open_copy(&s, sizeof(s), &copy);
	assert_non_null(c);
	assert_string_equal(sass_variable_at(c, SAMPLE_DATA, 9)->name, "counter");
	assert_int_equal(find(c, "counter")->relocation_count, 1);
	assert_int_equal(c->variable_count, 5);
	sass_cubin_close(c);
	free(copy);
}

/* The architecture is in other bits of older files. */
static void architectures(void **state)
{
	static const struct {
		uint8_t abi;
		uint32_t flags;
		unsigned int architecture;
		bool specific;
	} cases[] = {{0x33, 0x4b054b, 75, false},  {0x33, 0x5a055a, 90, false},   {0x33, 0x5a0d5a, 90, true},
		     {0x41, 0x6005604, 86, false}, {0x41, 0x6006402, 100, false}, {0x41, 0x6005a0c, 90, true}};

	(void)state;
	for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
		struct sass_sample s = sass_sample();
		struct sass_cubin *c;
		void *copy;

		s.head.e_ident[EI_OSABI] = cases[n].abi;
		s.head.e_flags = cases[n].flags;
		c = open_copy(&s, sizeof(s), &copy);
		assert_non_null(c);
		assert_int_equal(c->architecture, cases[n].architecture);
		assert_int_equal(c->specific, cases[n].specific);
		sass_cubin_close(c);
		free(copy);
	}
}

static void malformed(void **state)
{
	struct sass_sample s = sass_sample();

	(void)state;
	s.head.e_machine = EM_X86_64;
	refused(&s, sizeof(s), "no machine code of an NVIDIA GPU");
	s = sass_sample();
	s.sections[SAMPLE_TEXT].sh_offset = sizeof(s) - 8;
	refused(&s, sizeof(s), "beyond its end");
	s = sass_sample();
	s.sections[SAMPLE_CONSTANT0].sh_offset = 0;
	s.sections[SAMPLE_CONSTANT0].sh_size = sizeof(s);
	refused(&s, sizeof(s), "overlap");
	s = sass_sample();
	s.sections[SAMPLE_TEXT].sh_size = 24;
	refused(&s, sizeof(s), "`k` is not a number of instructions");
	s = sass_sample();
	s.symbols[SAMPLE_ROOM].st_size = 401;
	refused(&s, sizeof(s), "`room` goes beyond");
	s = sass_sample();
	s.data_rela[0].r_offset = 16;
	refused(&s, sizeof(s), "relocation");
	s = sass_sample();
	s.kernel_info[10] = 1; /* both have number 1 */
	refused(&s, sizeof(s), "parameters of `k`");
	s = sass_sample();
	s.kernel_info[0] = SAMPLE_SIZED(0x0a, 200);
	refused(&s, sizeof(s), "attributes of `k`");
	s = sass_sample();
	s.info[1] = SAMPLE_COUNT;
	refused(&s, sizeof(s), "attributes of no symbol");
	s = sass_sample();
	memset(s.strings, 'x', sizeof(s.strings));
	refused(&s, sizeof(s), "no name");
}

/* Each part of the file may end early, and each byte may be wrong: nothing beside the file is read. */
static void hostile(const void *data, size_t bytes, size_t step)
{
	static const uint8_t masks[] = {0xff, 1, 0x80};
	uint8_t *changed = malloc(bytes);
	void *copy;

	for (size_t length = 0; length < bytes; length += step) {
		sass_cubin_close(open_copy(data, length, &copy));
		free(copy);
	}
	for (size_t at = 0; at < bytes; at += step) {
		memcpy(changed, data, bytes);
		changed[at] ^= masks[at / step % 3];
		sass_cubin_close(open_copy(changed, bytes, &copy));
		free(copy);
	}
	free(changed);
}

static void hostile_sample(void **state)
{
	struct sass_sample s = sass_sample();

	(void)state;
	for (size_t length = 0; length < sizeof(s); length++)
		refused(&s, length, "machine code");
	hostile(&s, sizeof(s), 1);
}

static void *read_file(const char *path, size_t *bytes)
{
	FILE *file = fopen(path, "rb");
	char *data = malloc(1 << 20);

	assert_non_null(file);
	assert_non_null(data);
	*bytes = fread(data, 1, 1 << 20, file);
	fclose(file);
	return data;
}

static void check_params(const struct sass_cubin *c, unsigned int architecture)
{
	const struct sass_function *f = kernel(c, "params");

	assert_true(f->kernel);
	assert_int_equal(f->param_base, architecture >= 90 ? 0x210 : 0x160);
	assert_int_equal(f->param_count, 3);
	assert_int_equal(f->params[0].bytes, 1);
	assert_true(f->params[1].offset == 16 && f->params[1].bytes == 32);
	assert_true(f->params[2].offset == 48 && f->params[2].bytes == 8);
	assert_int_equal(f->param_bytes, 56);
	assert_int_equal(f->shared_base, architecture >= 90 ? 1024 : 0);
	assert_true(f->shared_bytes - f->shared_base >= 132 && f->shared_bytes - f->shared_base < 256);
	assert_true(f->max_threads[0] == 128 && f->max_threads[1] == 2 && f->max_threads[2] == 1);
	f = kernel(c, "variables");
	assert_int_equal(f->required_threads[0], 32);
	f = kernel(c, "prints");
	assert_true(f->frame_bytes >= 8 && f->registers >= 2);
}

static void check_variables(const struct sass_cubin *c)
{
	const struct sass_variable *pointer = find(c, "pointer"), *words = find(c, "words");
	uint64_t end = 0;

	assert_int_equal(pointer->relocation_count, 2);
	assert_string_equal(pointer->relocations[0].symbol, "counter");
	assert_string_equal(pointer->relocations[1].symbol, "words");
	assert_int_equal(pointer->relocations[1].addend, 8);
	assert_int_equal(words->initial[4], 2);
	assert_null(find(c, "zeroes")->initial);
	assert_memory_equal(find(c, "format")->initial, "n %d\n", 6);
	for (uint32_t n = 0; n < c->variable_count; n++) {
		if (c->variables[n].space != SASS_CONSTANT)
			continue;
		assert_int_equal(c->variables[n].offset, end);
		assert_int_equal(end % c->variables[n].align, 0);
		end += c->variables[n].bytes;
	}
	assert_int_equal(end, c->constant3_bytes);
	assert_int_equal(c->undefined_count, 1);
	assert_int_equal(c->bank4_count, 5);
}

static void cubins_of_ptxas(void **state)
{
	(void)state;
	if (!cubin_count) {
		print_message("NVIDIA's ptxas is not installed: none of its cubins is read\n");
		skip();
	}
	for (int n = 0; n + 1 < cubin_count; n += 2) {
		unsigned int architecture = (unsigned int)atoi(cubins[n]);
		size_t bytes;
		void *data = read_file(cubins[n + 1], &bytes);
		struct sass_cubin *c;

		assert_int_equal(sass_cubin_open(data, bytes, &c, error, sizeof(error)), 0);
		assert_int_equal(c->architecture, architecture);
		assert_true(c->linked && !c->specific);
		assert_int_equal(c->function_count, 5);
		for (uint32_t f = 0; f < c->function_count; f++)
			assert_int_equal(c->functions[f].param_base, architecture >= 90 ? 0x210 : 0x160);
		check_params(c, architecture);
		check_variables(c);
		sass_cubin_close(c);
		hostile(data, bytes, 7);
		free(data);
	}
}

/* ---- memory ---- */

static unsigned int allocations_left;

static bool has_room(uint64_t bytes)
{
	(void)bytes;
	return allocations_left && allocations_left--;
}

/* Translates with room for more and more allocations, until there is enough. How many allocations that is. */
static unsigned int translate_in_little(const void *data, size_t bytes, const char *name)
{
	for (unsigned int most = 0;; most++) {
		char *text = NULL;
		size_t length;
		int result;

		allocations_left = most;
		error[0] = 0;
		result = vcuda_sass_to_ptx(data, bytes, name, &text, &length, error, sizeof(error));
		free(text);
		if (!result)
			return most;
		assert_int_equal(result, -ENOMEM);
		assert_non_null(strstr(error, "there is no memory"));
	}
}

/* An allocation that fails is no fault of the cubin, and no reason to refuse a kernel. */
static void no_memory(void **state)
{
	struct sass_sample s = sass_sample();

	(void)state;
	vcuda_sass_ask_for_memory(has_room);
	assert_true(translate_in_little(&s, sizeof(s), "k") > 10);
	assert_true(translate_in_little(&s, sizeof(s), NULL) > 10);
	for (int n = 0; n + 1 < cubin_count; n += 2) {
		size_t bytes;
		void *data = read_file(cubins[n + 1], &bytes);

		assert_true(translate_in_little(data, bytes, NULL) > 20);
		free(data);
	}
	vcuda_sass_ask_for_memory(NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions),      cmocka_unit_test(variables),       cmocka_unit_test(names),
		cmocka_unit_test(overlaps),       cmocka_unit_test(architectures),   cmocka_unit_test(malformed),
		cmocka_unit_test(hostile_sample), cmocka_unit_test(cubins_of_ptxas), cmocka_unit_test(no_memory),
	};

	cubins = argv + 1;
	cubin_count = argc - 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
