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

static bool multiply(struct lift *l, const struct sass_instr *i, const char *shape, unsigned int a, unsigned int b,
		     unsigned int c)
{
	char first[128], second[64], third[128], result[128] = "{";
	struct value d[4];
	size_t length = 1;

	fragment(l, &i->a, a, first, sizeof(first));
	fragment(l, &i->b, b, second, sizeof(second));
	fragment(l, &i->c, c, third, sizeof(third));
	for (unsigned int n = 0; n < c; n++) {
		d[n] = temporary(l, TEMPORARY_32);
		length += (size_t)snprintf(result + length, sizeof(result) - length, "%s%s", n ? ", " : "", d[n].text);
	}
	emit_guarded(l, "mma.sync.aligned.%s %s}, %s, %s, %s", shape, result, first, second, third);
	for (unsigned int n = 0; n < c; n++)
		write_32(l, i->d == SASS_RZ ? SASS_RZ : i->d + n, d[n]);
	return true;
}

enum { HMMA_F16, HMMA_BF16, HMMA_TF32 };

bool lift_hmma(struct lift *l, const struct sass_instr *i)
{
	static const char *const types[] = {"f16", "bf16", "tf32", NULL};
	int64_t type = i->field[SASS_F_TYPE];
	bool is_long = i->field[SASS_F_LONG], is_short = i->field[SASS_F_SHORT];
	const char *sum = i->field[SASS_F_F32] ? "f32" : "f16";
	unsigned int k = is_long ? 16 : 8, count = is_long ? 4 : 2;
	char shape[64];

	if (!types[type] || (is_long && is_short))
		return refuse(l, " of type %u", (unsigned int)type);
	if (type == HMMA_TF32) {
		if (is_long)
			return refuse(l, " of a shape");
		k = is_short ? 4 : 8;
		count = is_short ? 2 : 4;
	} else if (is_short) {
		return refuse(l, " of a shape");
	}
	snprintf(shape, sizeof(shape), "m16n8k%u.row.col.%s.%s.%s.%s", k, sum, types[type], types[type], sum);
	return multiply(l, i, shape, count, count / 2, i->field[SASS_F_F32] ? 4 : 2);
}

bool lift_imma(struct lift *l, const struct sass_instr *i)
{
	bool four = i->field[SASS_F_FOUR], m16 = i->field[SASS_F_M16], k32 = i->field[SASS_F_K32];
	const char *width = four ? "4" : "8";
	unsigned int k = (four ? 32 : 16) * (m16 && k32 ? 2u : 1u);
	char shape[80];

	if (four != (bool)i->field[SASS_F_FOUR_B] || !i->field[SASS_F_COL] || (k32 && !m16))
		return refuse(l, " of a shape");
	if (four) /* the shapes of 4 bits have their own numbers */
		k = k32 ? 32 : 64;
	if (four && k == 64)
		return refuse(l, " of a shape");
	snprintf(shape, sizeof(shape), "m%un8k%u.row.col%s.s32.%c%s.%c%s.s32", m16 ? 16u : 8u, k,
		 i->field[SASS_F_SAT] ? ".satfinite" : "", i->field[SASS_F_SIGNED] ? 's' : 'u', width,
		 i->field[SASS_F_SIGNED_B] ? 's' : 'u', width);
	if (!m16)
		return multiply(l, i, shape, 1, 1, 2);
	return multiply(l, i, shape, (four ? k32 : k32) ? four ? 2 : 4 : 2, k32 && !four ? 2 : 1, 4);
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
