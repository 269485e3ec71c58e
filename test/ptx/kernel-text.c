/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel-text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char result_names[] = "defg", operand_names[] = "abcx";

unsigned inputs_column(struct inputs *in, const struct value_type *type, unsigned position)
{
	unsigned column = in->count;

	for (unsigned n = 0; n < in->count; n++)
		if (in->columns[n].type == type && in->columns[n].position == position)
			return n;
	if (column == sizeof(in->columns) / sizeof(in->columns[0]))
		abort();
	in->count++;
	in->columns[column].type = type;
	in->columns[column].position = position;
	in->values = realloc(in->values, in->count * TUPLES * sizeof(*in->values));
	for (unsigned n = 0; n < TUPLES; n++)
		in->values[column * TUPLES + n] = value_input(type, position, n);
	return column;
}

static void declare(FILE *out, const struct value_type *type, char name)
{
	if (type->reg == 1)
		fprintf(out, "\t.reg .pred %%_%c;\n", name);
	else
		fprintf(out, "\t.reg .b%u %%_%c;\n", type->reg, name);
}

static void load(FILE *out, const struct value_type *type, char name, unsigned column)
{
	unsigned long offset = column * (unsigned long)TUPLES * 8;

	if (type->reg == 1)
		fprintf(out, "\tld.global.u32 %%word, [%%in+%lu];\n\tsetp.ne.u32 %%_%c, %%word, 0;\n", offset, name);
	else
		fprintf(out, "\tld.global.b%u %%_%c, [%%in+%lu];\n", type->reg, name, offset);
}

static void store(FILE *out, const struct value_type *type, char name, unsigned column)
{
	unsigned long offset = column * (unsigned long)TUPLES * 8;

	if (type->reg == 1)
		fprintf(out, "\tselp.u32 %%word, 1, 0, %%_%c;\n\tst.global.u32 [%%out+%lu], %%word;\n", name, offset);
	else
		fprintf(out, "\tst.global.b%u [%%out+%lu], %%_%c;\n", type->reg, offset, name);
}

static void body(FILE *out, const char *text)
{
	fputc('\t', out);
	for (; *text; text++)
		if (*text == '$')
			fputs("%_", out);
		else
			fputc(*text, out);
	fputc('\n', out);
}

static void one_case(FILE *out, const struct ptx_case *c, struct inputs *in, unsigned *column)
{
	fputs("\t{\n", out);
	for (unsigned n = 0; n < c->result_count; n++)
		declare(out, c->results[n], result_names[n]);
	for (unsigned n = 0; n < c->operand_count; n++) {
		declare(out, c->operands[n], operand_names[n]);
		load(out, c->operands[n], operand_names[n], inputs_column(in, c->operands[n], n));
	}
	body(out, c->text);
	for (unsigned n = 0; n < c->result_count; n++)
		store(out, c->results[n], result_names[n], (*column)++);
	fputs("\t}\n", out);
}

char *kernel_text(const struct case_file *file, const struct ptx_case *cases, unsigned count, struct inputs *in)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	unsigned column = 0;

	fprintf(out, ".version 8.5\n.target %s\n.address_size 64\n%s\n", file->target, file->module);
	fprintf(out,
		".visible .entry test(.param .u64 p_out, .param .u64 p_in, .param .u64 p_own)\n{\n"
		"\t.reg .b32 %%word, %%tuple, %%x, %%y;\n\t.reg .b64 %%out, %%in, %%own, %%at;\n"
		"\tld.param.u64 %%out, [p_out];\n\tld.param.u64 %%in, [p_in];\n\tld.param.u64 %%own, [p_own];\n"
		"\tcvta.to.global.u64 %%out, %%out;\n\tcvta.to.global.u64 %%in, %%in;\n"
		"\tcvta.to.global.u64 %%own, %%own;\n"
		"\tmov.u32 %%x, %%tid.x;\n\tmov.u32 %%tuple, %%tid.y;\n\tmad.lo.u32 %%x, %%tuple, %u, %%x;\n"
		"\tmov.u32 %%tuple, %%tid.z;\n\tmad.lo.u32 %%x, %%tuple, %u, %%x;\n"
		"\tmov.u32 %%y, %%ctaid.x;\n\tmad.lo.u32 %%tuple, %%y, %u, %%x;\n"
		"\tmul.wide.u32 %%at, %%tuple, 8;\n\tadd.s64 %%out, %%out, %%at;\n\tadd.s64 %%in, %%in, %%at;\n"
		"\tmul.wide.u32 %%at, %%tuple, %u;\n\tadd.s64 %%own, %%own, %%at;\n",
		file->threads[0], file->threads[0] * file->threads[1], THREADS, OWN_BYTES);
	for (unsigned n = 0; n < count; n++)
		one_case(out, &cases[n], in, &column);
	fputs("\tret;\n}\n", out);
	fclose(out);
	return text;
}
