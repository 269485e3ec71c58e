/* SPDX-License-Identifier: Apache-2.0 */
/* Floating point numbers of 32 and 64 bits. */
#include <stdio.h>

#include "sass/lift/lifting.h"

const char *rounding(int64_t field)
{
	static const char *const names[] = {".rn", ".rm", ".rp", ".rz"};

	return names[field & 3];
}

/* FMZ makes 0 times anything 0. It also takes denormals as 0, and without infinities in reach it is the same as FTZ. */
static const char *flushing(const struct sass_instr *i)
{
	return i->field[SASS_F_FTZ] || i->field[SASS_F_FMZ] ? ".ftz" : "";
}

static void operation_of(const struct sass_instr *i, const char *name, char *to, size_t room)
{
	snprintf(to, room, "%s%s%s%s.f32", name, rounding(i->field[SASS_F_ROUND]), flushing(i),
		 i->field[SASS_F_SAT] ? ".sat" : "");
}

bool lift_fadd(struct lift *l, const struct sass_instr *i)
{
	struct value a = source_f32(l, &i->a), b = source_f32(l, &i->b);
	char operation[40];

	operation_of(i, "add", operation, sizeof(operation));
	write_32(l, i->d, compute32(l, operation, "%s, %s", a.text, b.text));
	return true;
}

/* The product by 2 to the power of `scale`, rounded once: in f64 it is exact. */
static bool multiply_scaled(struct lift *l, const struct sass_instr *i, int64_t scale)
{
	const char *ftz = i->field[SASS_F_FTZ] ? ".ftz" : "";
	struct value a = source_f32(l, &i->a), b = source_f32(l, &i->b), product;
	char operation[40];

	if (i->field[SASS_F_FMZ])
		return refuse(l, ".FMZ with a scale");
	snprintf(operation, sizeof(operation), "cvt%s.f64.f32", ftz);
	a = compute64(l, operation, "%s", a.text);
	b = compute64(l, operation, "%s", b.text);
	product = compute64(l, "mul.rn.f64", "%s, %s", a.text, b.text);
	product = compute64(l, "mul.rn.f64", "%s, 0d%016llx", product.text, (unsigned long long)(1023 + scale) << 52);
	snprintf(operation, sizeof(operation), "cvt%s%s%s.f32.f64", rounding(i->field[SASS_F_ROUND]), ftz,
		 i->field[SASS_F_SAT] ? ".sat" : "");
	write_32(l, i->d, compute32(l, operation, "%s", product.text));
	return true;
}

/* The scale is 2 to the power of the field less 4. */
bool lift_fmul(struct lift *l, const struct sass_instr *i)
{
	struct value a, b;
	char operation[40];

	if (!i->field[SASS_F_SCALE])
		return refuse(l, " with scale 0");
	if (i->field[SASS_F_SCALE] != 4)
		return multiply_scaled(l, i, i->field[SASS_F_SCALE] - 4);
	a = source_f32(l, &i->a);
	b = source_f32(l, &i->b);
	operation_of(i, "mul", operation, sizeof(operation));
	write_32(l, i->d, compute32(l, operation, "%s, %s", a.text, b.text));
	return true;
}

bool lift_ffma(struct lift *l, const struct sass_instr *i)
{
	struct value a = source_f32(l, &i->a), b = source_f32(l, &i->b), c = source_f32(l, &i->c);
	char operation[40];

	operation_of(i, "fma", operation, sizeof(operation));
	write_32(l, i->d, compute32(l, operation, "%s, %s, %s", a.text, b.text, c.text));
	return true;
}

static struct value chosen(struct lift *l, const struct sass_instr *i, struct value a, struct value b)
{
	return compute32(l, "selp.b32", "%s, %s, %s", a.text, b.text,
			 predicate(l, (unsigned int)i->field[SASS_F_PC], i->field[SASS_F_PC_NOT]).text);
}

/* XORSIGN takes absolute values, as PTX does, but has the signs from before. An immediate has no sign to take. */
bool keep_signs(struct lift *l, const struct sass_instr *i, struct sass_operand *a, struct sass_operand *b,
		uint32_t signs)
{
	bool positive = b->kind == SASS_IMMEDIATE && !(b->number & signs);

	if (!i->field[SASS_F_XORSIGN])
		return true;
	if (!a->absolute || a->negate || b->negate || !(b->absolute || positive))
		return refuse(l, ".XORSIGN of numbers with their signs");
	a->absolute = b->absolute = false;
	return true;
}

bool lift_fmnmx(struct lift *l, const struct sass_instr *i)
{
	struct sass_operand first = i->a, second = i->b;
	struct value a, b, least, most;
	char operation[40];
	const char *modifiers[] = {"", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"};
	const char *how = modifiers[i->field[SASS_F_NAN] | i->field[SASS_F_XORSIGN] << 1];

	if (!keep_signs(l, i, &first, &second, 0x80000000))
		return false;
	a = source_f32(l, &first);
	b = source_f32(l, &second);
	snprintf(operation, sizeof(operation), "min%s%s.f32", i->field[SASS_F_FTZ] ? ".ftz" : "", how);
	least = compute32(l, operation, "%s, %s", a.text, b.text);
	snprintf(operation, sizeof(operation), "max%s%s.f32", i->field[SASS_F_FTZ] ? ".ftz" : "", how);
	most = compute32(l, operation, "%s, %s", a.text, b.text);
	write_32(l, i->d, chosen(l, i, least, most));
	return true;
}

bool lift_fsel(struct lift *l, const struct sass_instr *i)
{
	struct value a = source_f32(l, &i->a), b = source_f32(l, &i->b);

	if (i->field[SASS_F_FTZ]) {
		a = compute32(l, "add.rn.ftz.f32", "%s, 0f80000000", a.text);
		b = compute32(l, "add.rn.ftz.f32", "%s, 0f80000000", b.text);
	}
	write_32(l, i->d, chosen(l, i, a, b));
	return true;
}

const char *float_comparison(int64_t how)
{
	static const char *const names[] = {NULL,  "lt",  "eq",  "le",  "gt",  "ne",  "ge",  "num",
					    "nan", "ltu", "equ", "leu", "gtu", "neu", "geu", NULL};

	return names[how & 15];
}

static struct value compare(struct lift *l, int64_t how, const char *type, struct value a, struct value b)
{
	char operation[32];

	if (!float_comparison(how))
		return value_of(how ? "%%pt" : "%%pf");
	snprintf(operation, sizeof(operation), "setp.%s.%s", float_comparison(how), type);
	return compute_predicate(l, operation, "%s, %s", a.text, b.text);
}

bool lift_fset(struct lift *l, const struct sass_instr *i)
{
	struct value a = source_f32(l, &i->a), b = source_f32(l, &i->b), is;

	is = compare(l, i->field[SASS_F_COMPARE], i->field[SASS_F_FTZ] ? "ftz.f32" : "f32", a, b);
	is = combine(l, (unsigned int)i->field[SASS_F_BOOL], is,
		     predicate(l, (unsigned int)i->field[SASS_F_PC], i->field[SASS_F_PC_NOT]));
	write_32(l, i->d, compute32(l, "selp.b32", "0x3f800000, 0, %s", is.text));
	return true;
}

bool lift_fsetp(struct lift *l, const struct sass_instr *i)
{
	struct value a = source_f32(l, &i->a), b = source_f32(l, &i->b);

	write_comparison(l, i, compare(l, i->field[SASS_F_COMPARE], i->field[SASS_F_FTZ] ? "ftz.f32" : "f32", a, b));
	return true;
}

/* Asks whether a quotient needs the slow path, which is right for all operands. */
bool lift_fchk(struct lift *l, const struct sass_instr *i)
{
	write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0], value_of("%%pt"));
	return true;
}

enum mufu {
	MUFU_COS,
	MUFU_SIN,
	MUFU_EX2,
	MUFU_LG2,
	MUFU_RCP,
	MUFU_RSQ,
	MUFU_RCP64H,
	MUFU_RSQ64H,
	MUFU_SQRT,
	MUFU_TANH,
	MUFU_COUNT
};

/* The upper half of an approximation for an f64 whose lower half is 0. */
static void approximate_upper(struct lift *l, const struct sass_instr *i, const char *operation)
{
	struct value whole = pack(l, value_of("0"), source_f32(l, &i->b)), low, high;

	unpack(l, compute64(l, operation, "%s", whole.text), &low, &high);
	write_32(l, i->d, high);
}

/* A half of a register. Before sm_90 the bit of bf16 means f16. */
static bool approximate_half(struct lift *l, const struct sass_instr *i)
{
	const char *type = i->field[SASS_F_BF16] && l->cubin->architecture >= 90 ? "bf16" : "f16";
	int64_t function = i->field[SASS_F_FUNCTION];
	struct value v, in = temporary(l, TEMPORARY_16), out = temporary(l, TEMPORARY_16),
			rest = temporary(l, TEMPORARY_16);

	if (function != MUFU_EX2 && function != MUFU_TANH)
		return refuse(l, " of function %u of halves", (unsigned int)function);
	v = in_register(l, source_bits(l, &i->b));
	if (i->b.half == 1)
		v = compute32(l, "shr.u32", "%s, 16", v.text);
	if (i->b.absolute)
		v = compute32(l, "and.b32", "%s, 0x7fff", v.text);
	if (i->b.negate)
		v = compute32(l, "xor.b32", "%s, 0x8000", v.text);
	emit(l, "mov.b32 {%s, %s}, %s", in.text, rest.text, v.text);
	emit(l, "%s.approx.%s%s %s, %s", function == MUFU_EX2 ? "ex2" : "tanh",
	     function == MUFU_EX2 && type[0] == 'b' ? "ftz." : "", type, out.text, in.text);
	write_32(l, i->d, compute32(l, "cvt.u32.u16", "%s", out.text));
	return true;
}

bool lift_mufu(struct lift *l, const struct sass_instr *i)
{
	static const char *const names[] = {"cos.approx.ftz.f32",
					    "sin.approx.ftz.f32",
					    "ex2.approx.ftz.f32",
					    "lg2.approx.ftz.f32",
					    "rcp.approx.ftz.f32",
					    "rsqrt.approx.ftz.f32",
					    NULL,
					    NULL,
					    "sqrt.approx.ftz.f32",
					    "tanh.approx.f32"};
	int64_t function = i->field[SASS_F_FUNCTION];
	struct value v;

	if (i->field[SASS_F_F16] || i->field[SASS_F_BF16])
		return approximate_half(l, i);
	if (function >= MUFU_COUNT)
		return refuse(l, " of function %u", (unsigned int)function);
	if (function == MUFU_RCP64H || function == MUFU_RSQ64H) {
		approximate_upper(l, i, function == MUFU_RCP64H ? "rcp.approx.ftz.f64" : "rsqrt.approx.ftz.f64");
		return true;
	}
	v = in_register(l, source_f32(l, &i->b));
	if (function == MUFU_COS || function == MUFU_SIN) /* the code has multiplied by 1 / 2 pi */
		v = compute32(l, "mul.rn.f32", "%s, 0f40C90FDB", v.text);
	write_32(l, i->d, compute32(l, names[function], "%s", v.text));
	return true;
}

/* ---- 64 bits ---- */

static bool double_operation(struct lift *l, const struct sass_instr *i, const char *name, unsigned int sources)
{
	const struct sass_operand *o[] = {&i->a, &i->b, &i->c};
	struct value v[3] = {0};
	char operation[24];

	for (unsigned int n = 0; n < sources; n++)
		v[n] = source_f64(l, o[n]);
	snprintf(operation, sizeof(operation), "%s%s.f64", name, rounding(i->field[SASS_F_ROUND]));
	write_64(l, i->d,
		 compute64(l, operation, "%s, %s%s%s", v[0].text, v[1].text, sources == 3 ? ", " : "", v[2].text));
	return true;
}

bool lift_dadd(struct lift *l, const struct sass_instr *i)
{
	return double_operation(l, i, "add", 2);
}

bool lift_dmul(struct lift *l, const struct sass_instr *i)
{
	return double_operation(l, i, "mul", 2);
}

bool lift_dfma(struct lift *l, const struct sass_instr *i)
{
	return double_operation(l, i, "fma", 3);
}

enum { DSETP_MIN = 0, DSETP_MAX = 15 };

/*
 * DSETP.MIN and .MAX: the first predicate says whether a is the result, the second one whether both are NaNs, so that
 * the code makes b a quiet one.
 */
static void least_or_most(struct lift *l, const struct sass_instr *i, struct value a, struct value b)
{
	bool most = i->field[SASS_F_COMPARE] == DSETP_MAX;
	struct value a_nan = compute_predicate(l, "setp.nan.f64", "%s, %s", a.text, a.text),
		     b_nan = compute_predicate(l, "setp.nan.f64", "%s, %s", b.text, b.text),
		     is = compute_predicate(l, most ? "setp.gt.f64" : "setp.lt.f64", "%s, %s", a.text, b.text),
		     same = compute_predicate(l, "setp.eq.f64", "%s, %s", a.text, b.text), bits, sign;

	/* of zeroes the sign decides */
	bits = compute64(l, "mov.b64", "%s", a.text);
	sign = compute_predicate(l, most ? "setp.ge.s64" : "setp.lt.s64", "%s, 0", bits.text);
	is = combine(l, 1, combine(l, 1, is, b_nan), combine(l, 0, same, sign));
	write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0], is);
	write_predicate(l, 1, (unsigned int)i->field[SASS_F_P1], combine(l, 0, a_nan, b_nan));
}

bool lift_dsetp(struct lift *l, const struct sass_instr *i)
{
	struct value a = in_register_64(l, source_f64(l, &i->a)), b = source_f64(l, &i->b);
	int64_t how = i->field[SASS_F_COMPARE];

	if (how != DSETP_MIN && how != DSETP_MAX)
		write_comparison(l, i, compare(l, how, "f64", a, b));
	else if (i->field[SASS_F_PC] == SASS_PT && !i->field[SASS_F_PC_NOT] && !i->field[SASS_F_BOOL])
		least_or_most(l, i, a, in_register_64(l, b));
	else
		return refuse(l, " of the least with a predicate");
	return true;
}
