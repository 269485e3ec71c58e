/* SPDX-License-Identifier: Apache-2.0 */
#include "sass/cubin/cubin-info.h"
#include "sass/cubin/memory.h"

#include <stdlib.h>
#include <string.h>

/* NVIDIA's numbers of attributes, by the names that its tools print (EIATTR_). */
/* The place of parameters in bank 0. */
#define PARAM_BASE 0x160
#define PARAM_BASE_90 0x210

enum attribute {
	MAX_THREADS = 0x05,
	PARAM_CBANK = 0x0a,
	REQNTID = 0x10,
	FRAME_SIZE = 0x11,
	MIN_STACK_SIZE = 0x12,
	KPARAM_INFO = 0x17,
	CBANK_PARAM_SIZE = 0x19,
	CRS_STACK_SIZE = 0x1e,
	MAX_STACK_SIZE = 0x23,
	REGCOUNT = 0x2f,
	INDIRECT_BRANCH_TARGETS = 0x34,
	CTA_PER_CLUSTER = 0x3d,
	KPARAM_INFO_V2 = 0x45,
};

/* An attribute of .nv.compat: the code is for exactly its architecture, or for its family. */
#define COMPAT_SPECIFIC 0x09

/* How an attribute's value is stored. */
enum format { NO_VALUE = 1, BYTE, HALF, SIZED };

#define MAX_PARAM_BYTES 65535
/* A size that the compiler does not know, because of recursion. */
#define UNKNOWN 0xffffffffu
/* The driver's default limit of a thread's stack. */
#define DEFAULT_STACK 1024
#define MAX_FRAME (512u << 10)

struct value {
	uint8_t format, attribute;
	const uint8_t *data;
	uint32_t bytes;
};

static uint32_t word(const struct value *v, uint32_t n)
{
	uint32_t word;

	memcpy(&word, v->data + n * sizeof(word), sizeof(word));
	return word;
}

static uint16_t half(const struct value *v, uint32_t n)
{
	uint16_t half;

	memcpy(&half, v->data + n * sizeof(half), sizeof(half));
	return half;
}

/* The next attribute. 1; 0 at the end; -1: it is malformed. */
static int next(const struct sass_section *info, uint64_t *at, struct value *v)
{
	uint64_t left = info->bytes - *at;

	if (!info->data || left < 4)
		return 0;
	*v = (struct value){
		.format = info->data[*at], .attribute = info->data[*at + 1], .data = info->data + *at + 2, .bytes = 2};
	*at += 4;
	if (v->format < NO_VALUE || v->format > SIZED)
		return -1;
	if (v->format != SIZED)
		return 1;
	v->bytes = half(v, 0);
	v->data += 2;
	if (v->bytes > left - 4)
		return -1;
	*at += v->bytes;
	return 1;
}

static void three_words(const struct value *v, uint32_t *to)
{
	for (uint32_t n = 0; n < 3 && v->bytes >= 12; n++)
		to[n] = word(v, n);
}

static bool add_param(struct sass_file *file, struct sass_function *f, const struct value *v, uint32_t room)
{
	bool second = v->attribute == KPARAM_INFO_V2;

	if (f->param_count == room || v->bytes < 12)
		return sass_file_fail(file, "the parameters of `%s` are malformed", f->name);
	/* The last word is the size, in the first form the upper bits of it. */
	f->params[f->param_count++] = (struct sass_param){
		.ordinal = half(v, 2),
		.offset = half(v, 3),
		.bytes = second ? word(v, 2) : word(v, 2) >> 18,
	};
	return true;
}

static int by_ordinal(const void *a, const void *b)
{
	const struct sass_param *x = a, *y = b;

	return x->ordinal < y->ordinal ? -1 : x->ordinal > y->ordinal;
}

/* Parameters are numbered without gaps, and each is behind the one before. */
static bool check_params(struct sass_file *file, struct sass_function *f)
{
	uint32_t end = 0;

	if (f->param_count)
		qsort(f->params, f->param_count, sizeof(*f->params), by_ordinal);
	for (uint32_t n = 0; n < f->param_count; n++) {
		const struct sass_param *p = &f->params[n];

		if (p->ordinal != n || p->offset < end || p->bytes == 0 || p->bytes > MAX_PARAM_BYTES)
			return sass_file_fail(file, "the parameters of `%s` are malformed", f->name);
		end = p->offset + p->bytes;
	}
	if (!f->param_bytes)
		f->param_bytes = end;
	if (end > f->param_bytes || f->param_bytes > MAX_PARAM_BYTES)
		return sass_file_fail(file, "the parameters of `%s` are malformed", f->name);
	return true;
}

static bool take(struct sass_file *file, struct sass_function *f, const struct value *v, uint32_t room)
{
	switch (v->attribute) {
	case MAX_THREADS:
		three_words(v, f->max_threads);
		return true;
	case REQNTID:
		three_words(v, f->required_threads);
		return true;
	case CTA_PER_CLUSTER:
		three_words(v, f->cluster);
		return true;
	case PARAM_CBANK: /* a symbol, the offset and the size */
		if (v->bytes >= 8) {
			f->param_base = half(v, 2);
			f->param_bytes = half(v, 3);
		}
		return true;
	case CBANK_PARAM_SIZE:
		if (v->bytes >= 2)
			f->param_bytes = half(v, 0);
		return true;
	case CRS_STACK_SIZE:
		if (v->bytes >= 4 && word(v, 0) != UNKNOWN)
			f->return_stack_bytes = word(v, 0);
		return true;
	case INDIRECT_BRANCH_TARGETS:
		if (v->format == SIZED && !f->branches) {
			f->branches = v->data;
			f->branch_words = v->bytes / 4;
		}
		return true;
	case KPARAM_INFO:
	case KPARAM_INFO_V2:
		return add_param(file, f, v, room);
	default:
		return true;
	}
}

bool sass_info_function(struct sass_file *file, const struct sass_section *info, struct sass_function *f)
{
	uint32_t room = (uint32_t)(info->bytes / 16 < MAX_PARAM_BYTES ? info->bytes / 16 : MAX_PARAM_BYTES);
	struct value v;
	uint64_t at = 0;
	int n;

	if (f->params)
		return sass_file_fail(file, "`%s` has its attributes twice", f->name);
	f->params = sass_allocate(room + 1u, sizeof(*f->params));
	if (!f->params)
		return sass_file_no_memory(file);
	while ((n = next(info, &at, &v)) > 0)
		if (!take(file, f, &v, room))
			return false;
	if (n < 0)
		return sass_file_fail(file, "the attributes of `%s` are malformed", f->name);
	return check_params(file, f);
}

static uint32_t sum(uint32_t a, uint32_t b)
{
	return a < MAX_FRAME && b < MAX_FRAME - a ? a + b : MAX_FRAME;
}

/* The frames of all functions of a section, and the stack that the compiler says its function needs with all callees.
 */
static void take_stack(struct sass_function *f, const struct value *v, bool callee)
{
	uint32_t bytes = word(v, 1);

	/* A function within the code of another may call itself. */
	if (v->attribute == FRAME_SIZE && callee && bytes)
		f->stack_bytes = sum(f->stack_bytes, DEFAULT_STACK);
	if (v->attribute == FRAME_SIZE)
		f->frame_bytes = sum(f->frame_bytes, bytes);
	else if (bytes == UNKNOWN)
		f->stack_bytes = sum(f->stack_bytes, DEFAULT_STACK);
	else if (bytes > f->stack_bytes)
		f->stack_bytes = sum(bytes, 0);
}

static bool is_stack(unsigned int attribute)
{
	return attribute == FRAME_SIZE || attribute == MIN_STACK_SIZE || attribute == MAX_STACK_SIZE;
}

bool sass_info_module(struct sass_file *file, const struct sass_section *info, struct sass_function *const *by_section)
{
	struct value v;
	uint64_t at = 0;
	int n;

	while ((n = next(info, &at, &v)) > 0) {
		const struct sass_symbol *symbol;
		struct sass_function *f;

		if ((!is_stack(v.attribute) && v.attribute != REGCOUNT) || v.bytes < 8)
			continue;
		if (word(&v, 0) >= file->symbol_count)
			return sass_file_fail(file, "the machine code has attributes of no symbol");
		symbol = &file->symbols[word(&v, 0)];
		f = by_section[symbol->section];
		if (f && v.attribute == REGCOUNT && word(&v, 1) <= 255)
			f->registers = word(&v, 1) > f->registers ? word(&v, 1) : f->registers;
		else if (f && is_stack(v.attribute))
			take_stack(f, &v, symbol->value != 0);
	}
	return n == 0 || sass_file_fail(file, "the attributes of the machine code are malformed");
}

bool sass_info_compat(struct sass_file *file, const struct sass_section *info)
{
	struct value v;
	uint64_t at = 0;
	int n;

	while ((n = next(info, &at, &v)) > 0)
		if (v.attribute == COMPAT_SPECIFIC && v.format == BYTE && v.data[0])
			file->specific = true;
	return n == 0 || sass_file_fail(file, "the attributes of the machine code are malformed");
}

void sass_info_finish(struct sass_function *f, unsigned int architecture)
{
	if (!f->param_base) /* a kernel without parameters does not say where they would be */
		f->param_base = architecture < 90 ? PARAM_BASE : PARAM_BASE_90;
	if (f->stack_bytes > f->frame_bytes)
		f->frame_bytes = f->stack_bytes;
	f->frame_bytes = sum(f->frame_bytes, f->return_stack_bytes);
}
