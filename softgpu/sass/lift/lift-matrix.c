/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor cores. The registers of a fragment are those of mma.sync in PTX. */
#include <stdio.h>
#include <string.h>

#include "sass/lift/lifting.h"

/* {%r0, %r1, ...} of a source. */
static void fragment(struct lift *l, const struct sass_operand *o, unsigned int count, char *to, size_t room)
{
	size_t length = (size_t)snprintf(to, room, "{");

	for (unsigned int n = 0; n < count; n++) {
		struct value v = in_register(
			l, register_name(l, o->kind == SASS_UNIFORM, o->reg == SASS_RZ ? o->reg : o->reg + n));

		length += (size_t)snprintf(to + length, room - length, "%s%s", n ? ", " : "", v.text);
	}
	snprintf(to + length, room - length, "}");
}

/* The same with f64 numbers, in pairs of registers. */
static void fragment_64(struct lift *l, const struct sass_operand *o, unsigned int count, bool absolute, bool negated,
			char *to, size_t room)
{
	size_t length = (size_t)snprintf(to, room, "{");

	for (unsigned int n = 0; n < count; n++) {
		struct sass_operand pair = {.kind = SASS_REGISTER,
					    .reg = (uint8_t)(o->reg == SASS_RZ ? o->reg : o->reg + 2 * n)};
		struct value v = source_64(l, &pair);

		if (v.text[0] != '%')
			v = compute64(l, "mov.b64", "0");
		if (absolute)
			v = compute64(l, "abs.f64", "%s", v.text);
		if (negated)
			v = compute64(l, "neg.f64", "%s", v.text);
		length += (size_t)snprintf(to + length, room - length, "%s%s", n ? ", " : "", v.text);
	}
	snprintf(to + length, room - length, "}");
}

/* The operands of a sparse matrix: the register of its metadata, and which lanes have it. */
static void metadata(struct lift *l, const struct sass_instr *i, char *to, size_t room)
{
	struct value v = in_register(l, register_name(l, false, (unsigned int)i->field[SASS_F_METADATA]));

	snprintf(to, room, ", %s, %u", v.text, (unsigned int)i->field[SASS_F_SELECTOR]);
}

static bool multiply(struct lift *l, const struct sass_instr *i, const char *shape, unsigned int a, unsigned int b,
		     unsigned int c)
{
	char first[128], second[128], third[128], result[128] = "{", sparse[64] = "";
	struct value d[4];
	size_t length = 1;

	fragment(l, &i->a, a, first, sizeof(first));
	fragment(l, &i->b, b, second, sizeof(second));
	fragment(l, &i->c, c, third, sizeof(third));
	if (i->field[SASS_F_SPARSE])
		metadata(l, i, sparse, sizeof(sparse));
	else if (i->field[SASS_F_METADATA] || i->field[SASS_F_SELECTOR])
		return refuse(l, " with metadata");
	for (unsigned int n = 0; n < c; n++) {
		d[n] = temporary(l, TEMPORARY_32);
		length += (size_t)snprintf(result + length, sizeof(result) - length, "%s%s", n ? ", " : "", d[n].text);
	}
	emit_guarded(l, "mma%s.sync.aligned.%s %s}, %s, %s, %s%s", *sparse ? ".sp" : "", shape, result, first, second,
		     third, sparse);
	for (unsigned int n = 0; n < c; n++)
		write_32(l, i->d == SASS_RZ ? SASS_RZ : i->d + n, d[n]);
	return true;
}

enum { HMMA_F16, HMMA_BF16, HMMA_TF32 };

/*
 * Numbers of 16 bits have k8, or k16 if long; tf32 has k8, or k4 if short. Sparse numbers of 16 bits have k16 if long,
 * k32 if long and short; sparse tf32 has k8, or k16 if long. 0: no shape.
 */
static unsigned int hmma_k(const struct sass_instr *i)
{
	bool is_long = i->field[SASS_F_LONG], is_short = i->field[SASS_F_SHORT], sparse = i->field[SASS_F_SPARSE];

	if (i->field[SASS_F_TYPE] == HMMA_TF32) {
		if (sparse)
			return is_short ? 0 : is_long ? 16 : 8;
		return is_long ? 0 : is_short ? 4 : 8;
	}
	if (sparse)
		return !is_long ? 0 : is_short ? 32 : 16;
	return is_short ? 0 : is_long ? 16 : 8;
}

bool lift_hmma(struct lift *l, const struct sass_instr *i)
{
	static const char *const types[] = {"f16", "bf16", "tf32", NULL};
	const char *type = types[i->field[SASS_F_TYPE]], *sum = i->field[SASS_F_F32] ? "f32" : "f16";
	unsigned int k = hmma_k(i), b; /* registers of b, of which each has 4 numbers of tf32 or 8 others, in k */
	char shape[64];

	if (!type)
		return refuse(l, " of type %u", (unsigned int)i->field[SASS_F_TYPE]);
	if (!k)
		return refuse(l, " of a shape");
	b = i->field[SASS_F_TYPE] == HMMA_TF32 ? k / 4 : k / 8;
	snprintf(shape, sizeof(shape), "m16n8k%u.row.col.%s.%s.%s.%s", k, sum, type, type, sum);
	return multiply(l, i, shape, i->field[SASS_F_SPARSE] ? b : 2 * b, b, i->field[SASS_F_F32] ? 4 : 2);
}

bool lift_imma(struct lift *l, const struct sass_instr *i)
{
	bool four = i->field[SASS_F_FOUR], m16 = i->field[SASS_F_M16], sparse = i->field[SASS_F_SPARSE];
	unsigned int size = 2u * i->field[SASS_F_K64] + i->field[SASS_F_K32], least = four + sparse, b;
	char shape[80], width = four ? '4' : '8';

	/* k is 16 << size: two sizes for each width, twice as large where A is sparse */
	if (four != (bool)i->field[SASS_F_FOUR_B] || !i->field[SASS_F_COL] ||
	    (m16 ? size != least && size != least + 1 : size || least))
		return refuse(l, " of a shape");
	snprintf(shape, sizeof(shape), "m%un8k%u.row.col%s.s32.%c%c.%c%c.s32", m16 ? 16u : 8u, 16u << size,
		 i->field[SASS_F_SAT] ? ".satfinite" : "", i->field[SASS_F_SIGNED] ? 's' : 'u', width,
		 i->field[SASS_F_SIGNED_B] ? 's' : 'u', width);
	if (!m16)
		return multiply(l, i, shape, 1, 1, 2);
	b = 1u << (size - four);
	return multiply(l, i, shape, sparse ? b : 2 * b, b, 4);
}

bool lift_bmma(struct lift *l, const struct sass_instr *i)
{
	char shape[80];

	if (i->field[SASS_F_K256] || !i->field[SASS_F_M16] || !i->field[SASS_F_ONE] || !i->field[SASS_F_COL])
		return refuse(l, " of a shape");
	snprintf(shape, sizeof(shape), "m16n8k256.row.col.s32.b1.b1.s32.%s.popc", i->field[SASS_F_AND] ? "and" : "xor");
	return multiply(l, i, shape, 4, 2, 4);
}

bool lift_dmma(struct lift *l, const struct sass_instr *i)
{
	struct value d[2] = {temporary(l, TEMPORARY_64), temporary(l, TEMPORARY_64)};
	char first[64], second[64], third[64];

	fragment_64(l, &i->a, 1, i->field[SASS_F_ABS_A], i->field[SASS_F_NEG_A], first, sizeof(first));
	fragment_64(l, &i->b, 1, i->field[SASS_F_ABS_B], i->field[SASS_F_NEG_B], second, sizeof(second));
	fragment_64(l, &i->c, 2, i->field[SASS_F_ABS_C], i->field[SASS_F_NEG_C], third, sizeof(third));
	emit_guarded(l, "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%s, %s}, %s, %s, %s", d[0].text, d[1].text,
		     first, second, third);
	write_64(l, i->d, d[0]);
	write_64(l, i->d + 2u, d[1]);
	return true;
}

static void names_of(const struct value *v, unsigned int count, char *to, size_t room)
{
	size_t length = (size_t)snprintf(to, room, "{");

	for (unsigned int n = 0; n < count; n++)
		length += (size_t)snprintf(to + length, room - length, "%s%s", n ? ", " : "", v[n].text);
	snprintf(to + length, room - length, "}");
}

bool lift_ldsm(struct lift *l, const struct sass_instr *i)
{
	unsigned int count = 1u << i->field[SASS_F_COUNT];
	struct sass_instr plain = *i;
	struct value d[4], address = shared_address(l, &plain, &i->a);
	char to[128];

	if (count > 4 || i->field[SASS_F_TYPE])
		return refuse(l, " of a shape");
	for (unsigned int n = 0; n < count; n++)
		d[n] = temporary(l, TEMPORARY_32);
	names_of(d, count, to, sizeof(to));
	emit_guarded(l, "ldmatrix.sync.aligned.m8n8.x%u%s.shared.b16 %s, [%s+%lld]", count,
		     i->field[SASS_F_TRANSPOSED] ? ".trans" : "", to, address.text,
		     (long long)plain.field[SASS_F_OFFSET]);
	for (unsigned int n = 0; n < count; n++)
		write_32(l, i->d == SASS_RZ ? SASS_RZ : i->d + n, d[n]);
	return true;
}

bool lift_movm(struct lift *l, const struct sass_instr *i)
{
	if (i->field[SASS_F_KIND])
		return refuse(l, " of a shape");
	write_32(l, i->d,
		 compute32(l, "movmatrix.sync.aligned.m8n8.trans.b16", "%s",
			   in_register(l, source_bits(l, &i->a)).text));
	return true;
}
