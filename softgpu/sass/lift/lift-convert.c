/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions. */
#include <stdio.h>

#include "sass/lift/lifting.h"

/* Sizes are logarithms of bytes. */
enum { SIZE_8, SIZE_16, SIZE_32, SIZE_64, SIZE_BF16, SIZE_COUNT };

static const char *const float_types[] = {NULL, "f16", "f32", "f64", "bf16", NULL, NULL, NULL};

static struct value lower_half(struct lift *l, struct value v)
{
	struct value low = temporary(l, TEMPORARY_16), high = temporary(l, TEMPORARY_16);

	emit(l, "mov.b32 {%s, %s}, %s", low.text, high.text, in_register(l, v).text);
	return low;
}

static struct value half_to_32(struct lift *l, struct value half)
{
	return compute32(l, "cvt.u32.u16", "%s", half.text);
}

/* A floating point source of the size. */
static struct value float_source(struct lift *l, const struct sass_operand *o, int64_t size)
{
	struct value v;

	if (o->half > 1 || (o->half && size != SIZE_16 && size != SIZE_BF16))
		refuse(l, " of a half");
	if (size == SIZE_64)
		return source_f64(l, o);
	if (size == SIZE_32)
		return source_f32(l, o);
	v = in_register(l, source_bits(l, o));
	if (o->half)
		v = compute32(l, "shr.u32", "%s, 16", v.text);
	if (o->absolute)
		v = compute32(l, "and.b32", "%s, 0x7fff", v.text);
	if (o->negate)
		v = compute32(l, "xor.b32", "%s, 0x8000", v.text);
	return lower_half(l, v);
}

static void write_float(struct lift *l, const struct sass_instr *i, const char *operation, struct value source,
			int64_t size)
{
	struct value v;

	if (size == SIZE_64) {
		write_64(l, i->d, compute64(l, operation, "%s", source.text));
	} else if (size == SIZE_32) {
		write_32(l, i->d, compute32(l, operation, "%s", source.text));
	} else {
		v = temporary(l, TEMPORARY_16);
		emit(l, "%s %s, %s", operation, v.text, source.text);
		write_32(l, i->d, half_to_32(l, v));
	}
}

static const char *flushing(const struct sass_instr *i)
{
	return i->field[SASS_F_FTZ] ? ".ftz" : "";
}

static bool narrows(int64_t from, int64_t to)
{
	return to == SIZE_BF16 || (from == SIZE_BF16 ? to == SIZE_16 : to < from);
}

/* A conversion between floating point numbers rounds only where it narrows; PTX has no rounding of wider ones. */
bool lift_f2f(struct lift *l, const struct sass_instr *i)
{
	static const char *const roundings[] = {".rn", ".rm", ".rp", ".rz"};
	int64_t from = i->field[SASS_F_FROM], to = i->field[SASS_F_TO];
	const char *ftz = from == SIZE_32 || to == SIZE_32 ? flushing(i) : "";
	char operation[40];

	if (!float_types[from] || !float_types[to] || from == to)
		return refuse(l, " of two types");
	snprintf(operation, sizeof(operation), "cvt%s%s.%s.%s",
		 narrows(from, to) ? roundings[i->field[SASS_F_ROUND]] : "", ftz, float_types[to], float_types[from]);
	write_float(l, i, operation, float_source(l, &i->b, from), to);
	return true;
}

enum f2fp_source { F2FP_F32, F2FP_F16, F2FP_E5M2, F2FP_E4M3 };
enum f2fp_pack { F2FP_PACK_AB, F2FP_UNPACK_B, F2FP_OF_8_BITS }; /* of b alone; of a and b, or of b with 8 bits */

static const char *pair_type(const struct sass_instr *i)
{
	if (i->field[SASS_F_E8])
		return i->field[SASS_F_BF16] ? "e4m3x2" : "e5m2x2";
	return i->field[SASS_F_BF16] ? "bf16x2" : "f16x2";
}

/* A pair of 16 bits below c's lower half. */
static void write_merged(struct lift *l, const struct sass_instr *i, struct value pair)
{
	struct value low = half_to_32(l, pair);

	write_32(l, i->d,
		 compute32(l, "prmt.b32", "%s, %s, 0x5410", low.text, in_register(l, source_bits(l, &i->c)).text));
}

/* From two f32, or from a pair of f16, to a pair with 8 bits each. */
static bool to_8_bits(struct lift *l, const struct sass_instr *i, const char *relu)
{
	struct value b = in_register(l, source_bits(l, &i->b)), pair = temporary(l, TEMPORARY_16);
	const char *type = pair_type(i);

	if (!i->field[SASS_F_SAT] || i->field[SASS_F_ROUND])
		return refuse(l, " with a rounding");
	if (i->field[SASS_F_FROM] == F2FP_F32 && i->field[SASS_F_MERGE])
		emit(l, "cvt.rn.satfinite%s.%s.f32 %s, %s, %s", relu, type, pair.text,
		     in_register(l, source_bits(l, &i->a)).text, b.text);
	else if (i->field[SASS_F_FROM] == F2FP_F16 && !i->field[SASS_F_MERGE])
		emit(l, "cvt.rn.satfinite%s.%s.f16x2 %s, %s", relu, type, pair.text, b.text);
	else
		return refuse(l, " of two types");
	write_merged(l, i, pair);
	return true;
}

static bool from_8_bits(struct lift *l, const struct sass_instr *i, const char *relu)
{
	const char *type = i->field[SASS_F_FROM] == F2FP_E4M3 ? "e4m3x2" : "e5m2x2";
	struct value v = source_bits(l, &i->b), pair = temporary(l, TEMPORARY_32);

	if (i->field[SASS_F_BF16] || i->field[SASS_F_WIDE] || i->field[SASS_F_E8] || i->field[SASS_F_MERGE] ||
	    i->field[SASS_F_SAT] || i->field[SASS_F_FROM] < F2FP_E5M2)
		return refuse(l, " of two types");
	if (i->field[SASS_F_HIGH])
		v = compute32(l, "shr.u32", "%s, 16", in_register(l, v).text);
	emit(l, "cvt.rn%s.f16x2.%s %s, %s", relu, type, pair.text, lower_half(l, v).text);
	write_32(l, i->d, pair);
	return true;
}

static bool to_tf32(struct lift *l, const struct sass_instr *i, const char *round, const char *relu)
{
	char operation[40];

	if (!i->field[SASS_F_BF16] || i->field[SASS_F_E8] || !i->field[SASS_F_MERGE] || i->field[SASS_F_SAT] ||
	    i->field[SASS_F_FROM] || i->field[SASS_F_PACK] != F2FP_UNPACK_B)
		return refuse(l, " of two types");
	snprintf(operation, sizeof(operation), "cvt.%s%s.tf32.f32", round, relu);
	write_32(l, i->d, compute32(l, operation, "%s", in_register(l, source_bits(l, &i->b)).text));
	return true;
}

/* Two f32 to a pair of 16-bit numbers. MERGE_C has b's number below and c's half above. */
static bool to_16_bits(struct lift *l, const struct sass_instr *i, const char *round, const char *relu)
{
	struct value a, b = in_register(l, source_bits(l, &i->b)), half;
	const char *type = pair_type(i);
	char operation[40];

	if (i->field[SASS_F_FROM] || i->field[SASS_F_SAT])
		return refuse(l, " of two types");
	if (i->field[SASS_F_MERGE]) {
		half = temporary(l, TEMPORARY_16);
		emit(l, "cvt.%s%s.%s.f32 %s, %s", round, relu, i->field[SASS_F_BF16] ? "bf16" : "f16", half.text,
		     b.text);
		write_merged(l, i, half);
		return true;
	}
	a = in_register(l, source_bits(l, &i->a));
	snprintf(operation, sizeof(operation), "cvt.%s%s.%s.f32", round, relu, type);
	write_32(l, i->d, compute32(l, operation, "%s, %s", a.text, b.text));
	return true;
}

bool lift_f2fp(struct lift *l, const struct sass_instr *i)
{
	static const char *const roundings[] = {"rn", NULL, NULL, "rz"};
	const char *round = roundings[i->field[SASS_F_ROUND]], *relu = i->field[SASS_F_RELU] ? ".relu" : "";

	if (!round)
		return refuse(l, " with a rounding");
	if (i->field[SASS_F_HIGH] && (i->field[SASS_F_WIDE] || i->field[SASS_F_PACK] != F2FP_UNPACK_B))
		return refuse(l, " of an upper half");
	if (i->field[SASS_F_WIDE])
		return to_tf32(l, i, round, relu);
	if (i->field[SASS_F_PACK] == F2FP_PACK_AB && !i->field[SASS_F_E8])
		return to_16_bits(l, i, round, relu);
	if (i->field[SASS_F_PACK] == F2FP_UNPACK_B)
		return from_8_bits(l, i, relu);
	if (i->field[SASS_F_PACK] == F2FP_OF_8_BITS && i->field[SASS_F_E8])
		return to_8_bits(l, i, relu);
	return refuse(l, " of two types");
}

static const char *const integer_roundings[] = {".rni", ".rmi", ".rpi", ".rzi"};

/* To an integer: narrow results are clamped to their range and have zeroes or their sign above. */
bool lift_f2i(struct lift *l, const struct sass_instr *i)
{
	int64_t from = i->field[SASS_F_FROM], to = i->field[SASS_F_TO];
	char operation[40], sign = i->field[SASS_F_SIGNED] ? 's' : 'u';
	struct value v, half;

	if (!float_types[from])
		return refuse(l, " of a type");
	snprintf(operation, sizeof(operation), "cvt%s%s.%c%u.%s", integer_roundings[i->field[SASS_F_ROUND]],
		 from == SIZE_32 ? flushing(i) : "", sign, 8u << to, float_types[from]);
	v = float_source(l, &i->b, from);
	if (to == SIZE_64) {
		write_64(l, i->d, compute64(l, operation, "%s", v.text));
	} else if (to == SIZE_16) {
		half = temporary(l, TEMPORARY_16);
		emit(l, "%s %s, %s", operation, half.text, v.text);
		write_32(l, i->d, half_to_32(l, half));
	} else if (to == SIZE_32) {
		write_32(l, i->d, compute32(l, operation, "%s", v.text));
	} else {
		v = compute32(l, operation, "%s", v.text);
		write_32(l, i->d, compute32(l, "and.b32", "%s, 0xff", v.text));
	}
	return true;
}

/* To a byte. a's byte would be above it, and c's half above that. */
bool lift_f2ip(struct lift *l, const struct sass_instr *i)
{
	char operation[40];
	struct value v;

	if (!is_text(source_bits(l, &i->a), "0") || !is_text(source_bits(l, &i->c), "0"))
		return refuse(l, " of two numbers");
	if (!i->field[SASS_F_NTZ])
		return refuse(l, " of NaN to another number than 0");
	snprintf(operation, sizeof(operation), "cvt%s.%c8.f32", integer_roundings[i->field[SASS_F_ROUND]],
		 i->field[SASS_F_SIGNED] ? 's' : 'u');
	v = compute32(l, operation, "%s", in_register(l, source_f32(l, &i->b)).text);
	write_32(l, i->d, compute32(l, "and.b32", "%s, 0xff", v.text));
	return true;
}

static struct value integer_source(struct lift *l, const struct sass_instr *i)
{
	int64_t size = i->field[SASS_F_FROM];
	unsigned int shift;

	if (size == SIZE_64)
		return source_64(l, &i->b);
	if (size == SIZE_32)
		return in_register(l, source_bits(l, &i->b));
	shift = (unsigned int)i->field[SASS_F_PART] * (size == SIZE_16 ? 16 : 8);
	return compute32(l, i->field[SASS_F_SIGNED] ? "bfe.s32" : "bfe.u32", "%s, %u, %u",
			 in_register(l, source_bits(l, &i->b)).text, shift, 8u << size);
}

bool lift_i2f(struct lift *l, const struct sass_instr *i)
{
	static const char *const roundings[] = {".rn", ".rm", ".rp", ".rz"};
	int64_t from = i->field[SASS_F_FROM], to = i->field[SASS_F_TO];
	char operation[40];

	if (!float_types[to])
		return refuse(l, " to a type");
	snprintf(operation, sizeof(operation), "cvt%s.%s.%c%u", roundings[i->field[SASS_F_ROUND]], float_types[to],
		 i->field[SASS_F_SIGNED] ? 's' : 'u', from == SIZE_64 ? 64u : 32u);
	write_float(l, i, operation, integer_source(l, i), to);
	return true;
}

bool lift_frnd(struct lift *l, const struct sass_instr *i)
{
	int64_t from = i->field[SASS_F_FROM], to = i->field[SASS_F_TO];
	char operation[40];

	if (!float_types[from] || from != to)
		return refuse(l, " of two types");
	snprintf(operation, sizeof(operation), "cvt%s%s.%s.%s", integer_roundings[i->field[SASS_F_ROUND]],
		 from == SIZE_32 ? flushing(i) : "", float_types[to], float_types[from]);
	write_float(l, i, operation, float_source(l, &i->b, from), to);
	return true;
}
