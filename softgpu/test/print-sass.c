/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints machine code as the decoder sees it: print-sass CUBIN... A line has, separated by blanks: architecture,
 * both words, name, kind, guard, destination, three sources, and fields as NAME=VALUE. A
 * source with a choice of halves has that at its end. Each different instruction is
 * printed once a file. Exit status 1: a cubin is not read.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/sass/cubin/cubin.h"
#include "softgpu/sass/lift/decode.h"

static const char *const field_names[] = {
#define X(name) #name,
	SASS_FIELD_NAMES(X)
#undef X
};

static void print_source(const struct sass_operand *o, bool is_there)
{
	if (!is_there || o->kind == SASS_NONE) {
		printf(" .");
		return;
	}
	printf(" %s%s", o->negate ? "-" : "", o->absolute ? "|" : "");
	if (o->kind == SASS_REGISTER)
		printf("R%u", o->reg);
	else if (o->kind == SASS_UNIFORM)
		printf("UR%u", o->reg);
	else if (o->kind == SASS_IMMEDIATE)
		printf("%#x", o->number);
	else if (o->bindless)
		printf("cx[UR%u][%#x]", o->reg, o->number);
	else
		printf("c[%#x][%#x]", o->bank, o->number);
	if (o->half)
		printf(".h%u", o->half);
}

static void print_instruction(unsigned int architecture, const uint64_t words[2])
{
	static const char *const kinds[] = {"alu", "ualu", "op"};
	struct sass_instr i;
	char error[200];

	if (!sass_decode((const uint8_t *)words, 0, &i, error, sizeof(error))) {
		printf("%u %016" PRIx64 " %016" PRIx64 " unknown\n", architecture, words[0], words[1]);
		return;
	}
	printf("%u %016" PRIx64 " %016" PRIx64 " %s %s %s%u", architecture, words[0], words[1], i.form->name,
	       kinds[i.form->kind], i.guard_not ? "!" : "", i.guard);
	if (i.form->sources[0])
		printf(" %sR%u", i.form->kind == SASS_UALU ? "U" : "", i.d);
	else
		printf(" .");
	print_source(&i.a, i.form->sources[1]);
	print_source(&i.b, i.form->sources[2] || i.form->sources[3]);
	print_source(&i.c, i.form->sources[3]);
	for (unsigned int n = 0; n < i.form->field_count; n++)
		printf(" %s=%" PRId64, field_names[i.form->fields[n].field], i.field[i.form->fields[n].field]);
	putchar('\n');
}

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, SASS_BYTES);
}

static void print_function(unsigned int architecture, const struct sass_function *f)
{
	uint32_t count = f->bytes / SASS_BYTES;
	uint64_t(*words)[2] = malloc(f->bytes);

	memcpy(words, f->code, f->bytes);
	qsort(words, count, SASS_BYTES, compare);
	for (uint32_t n = 0; n < count; n++)
		if (!n || compare(words[n - 1], words[n]))
			print_instruction(architecture, words[n]);
	free(words);
}

static bool print_file(const char *path)
{
	static char data[16 << 20];
	FILE *file = fopen(path, "rb");
	size_t bytes = file ? fread(data, 1, sizeof(data), file) : 0;
	struct sass_cubin *c;
	char error[300];

	if (file)
		fclose(file);
	if (sass_cubin_open(data, bytes, &c, error, sizeof(error))) {
		fprintf(stderr, "%s: %s\n", path, error);
		return false;
	}
	for (uint32_t n = 0; n < c->function_count; n++)
		print_function(c->architecture, &c->functions[n]);
	sass_cubin_close(c);
	return true;
}

int main(int argc, char **argv)
{
	bool good = argc > 1;

	for (int n = 1; n < argc; n++)
		good &= print_file(argv[n]);
	return !good;
}
