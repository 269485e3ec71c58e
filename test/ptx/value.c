/* SPDX-License-Identifier: Apache-2.0 */
#include "value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum pool { INTEGER, FLOAT, SHIFT, BYTE, NONZERO, LANE, UNIT };

static const struct value_type types[] = {
	{"pred", 1, 1, 0, 0, INTEGER},
	{"b8", 8, 16, 0, 0, INTEGER},
	{"b16", 16, 16, 0, 0, INTEGER},
	{"b32", 32, 32, 0, 0, INTEGER},
	{"b64", 64, 64, 0, 0, INTEGER},
	{"n16", 16, 16, 0, 0, NONZERO},
	{"n32", 32, 32, 0, 0, NONZERO},
	{"n64", 64, 64, 0, 0, NONZERO},
	{"shift", 32, 32, 0, 0, SHIFT},
	{"byte", 32, 32, 0, 0, BYTE},
	{"lane", 32, 32, 0, 0, LANE},
	{"f16", 16, 16, 16, 10, FLOAT},
	{"bf16", 16, 16, 16, 7, FLOAT},
	{"f16x2", 32, 32, 16, 10, FLOAT},
	{"bf16x2", 32, 32, 16, 7, FLOAT},
	{"f32", 32, 32, 32, 23, FLOAT},
	{"f64", 64, 64, 64, 52, FLOAT},
	{"unit", 32, 32, 32, 23, UNIT},
};

const struct value_type *value_type(const char *name)
{
	for (unsigned n = 0; n < sizeof(types) / sizeof(types[0]); n++)
		if (!strcmp(types[n].name, name))
			return &types[n];
	return NULL;
}

uint64_t value_mix(uint64_t seed)
{
	seed += 0x9e3779b97f4a7c15;
	seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9;
	seed = (seed ^ seed >> 27) * 0x94d049bb133111eb;
	return seed ^ seed >> 31;
}

static uint64_t mask(unsigned bits)
{
	return bits < 64 ? (1ull << bits) - 1 : UINT64_MAX;
}

/* Ends of ranges and their neighbours, and random numbers of random length. */
static uint64_t integer(unsigned bits, uint64_t r)
{
	uint64_t top = 1ull << (bits - 1);
	const uint64_t special[] = {0,
				    1,
				    2,
				    3,
				    7,
				    8,
				    31,
				    32,
				    0x7f,
				    0x80,
				    0xff,
				    0x100,
				    0x7fff,
				    0x8000,
				    0xffff,
				    0x10000,
				    0x7fffffff,
				    0x80000000,
				    0xffffffff,
				    0x100000000,
				    top - 1,
				    top,
				    top + 1,
				    UINT64_MAX,
				    UINT64_MAX - 1,
				    UINT64_MAX - 6,
				    0x5555555555555555,
				    0xaaaaaaaaaaaaaaaa,
				    0x0123456789abcdef,
				    0xfedcba9876543210};
	uint64_t random = value_mix(r);

	if (r % 5 < 2)
		return special[random % (sizeof(special) / sizeof(special[0]))] & mask(bits);
	if (r % 5 == 2)
		random >>= r / 5 % bits;
	return random & mask(bits);
}

/* Zeros, subnormals, one and its neighbours, what integers end at, infinities, NaNs; and random numbers around one. */
static uint64_t one_float(unsigned bits, unsigned mantissa, uint64_t r)
{
	unsigned exponent_bits = bits - 1 - mantissa;
	uint64_t most = mask(exponent_bits), bias = most >> 1, random = value_mix(r), exponent, fraction;
	const uint64_t sign = random >> 63 << (bits - 1);
	const uint64_t exponents[] = {0,         0,         1,         bias,      bias,      bias,      bias - 1,
				      bias + 1,  bias + 2,  bias + 7,  bias + 8,  bias + 15, bias + 16, bias + 31,
				      bias + 32, bias + 63, bias + 64, most - 1,  most,      most,      bias + mantissa,
				      bias / 2,  bias - 14, bias - 24, bias + mantissa + 1};
	const uint64_t fractions[] = {
		0, 0, 0, 1, mask(mantissa), mask(mantissa) - 1, 1ull << (mantissa - 1), 3ull << (mantissa - 2)};

	exponent = exponents[random % (sizeof(exponents) / sizeof(exponents[0]))];
	fraction = fractions[random >> 32 & 7];
	if (r % 8 >= 3)
		fraction = random >> 8 & mask(mantissa);
	if (r % 8 >= 5)
		exponent = bias - 8 + (random >> 58 & 15);
	if (r % 8 == 4)
		exponent = (random >> 40) % (most + 1);
	if (exponent > most)
		exponent = most - 1;
	return sign | exponent << mantissa | fraction;
}

static uint64_t of_type(const struct value_type *type, uint64_t r)
{
	static const uint8_t shifts[] = {0, 1, 4, 7, 8, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 255};
	uint64_t value = 0;

	switch ((enum pool)type->pool) {
	case INTEGER:
		return integer(type->bits < 8 ? 8 : type->bits, r) & mask(type->bits);
	case NONZERO:
		value = integer(type->bits, r);
		return value ? value : 3;
	case SHIFT:
		return r % 4 ? shifts[value_mix(r) % sizeof(shifts)] : integer(32, r);
	case BYTE:
		return r % 4 ? value_mix(r) & 255 : integer(32, r);
	case LANE:
		return value_mix(r) & 31;
	case UNIT:
		return (127 - value_mix(r) % 12) << 23 | (value_mix(r + 1) & 0x807fffff);
	case FLOAT:
		break;
	}
	for (unsigned shift = 0; shift < type->bits; shift += type->part_bits)
		value |= one_float(type->part_bits, type->mantissa, value_mix(r + shift)) << shift;
	return value;
}

uint64_t value_input(const struct value_type *type, unsigned position, unsigned n)
{
	uint64_t r = value_mix(value_mix(n) + position), value;

	/* equal and nearly equal operands are rare by chance */
	if (position && r % 9 == 0) {
		value = value_input(type, 0, n);
		return r % 27 ? value : (value + 1) & mask(type->bits);
	}
	return of_type(type, r / 9);
}

static bool is_nan(const struct value_type *type, uint64_t part)
{
	uint64_t infinity = mask(type->part_bits - 1 - type->mantissa) << type->mantissa;

	return (part & mask(type->part_bits - 1)) > infinity;
}

uint64_t value_canonical(const struct value_type *type, uint64_t value)
{
	uint64_t result = 0, part;

	if (!type->part_bits)
		return value & mask(type->bits);
	for (unsigned shift = 0; shift < type->bits; shift += type->part_bits) {
		part = value >> shift & mask(type->part_bits);
		if (is_nan(type, part))
			part = mask(type->part_bits - 1);
		result |= part << shift;
	}
	return result;
}

static double number(const struct value_type *type, uint64_t part)
{
	unsigned exponent_bits = type->part_bits - 1 - type->mantissa;
	uint64_t exponent = part >> type->mantissa & mask(exponent_bits), fraction = part & mask(type->mantissa);
	int bias = (int)mask(exponent_bits - 1);
	double value;

	if (exponent == mask(exponent_bits))
		value = fraction ? NAN : INFINITY;
	else if (exponent)
		value = ldexp((double)(fraction | 1ull << type->mantissa), (int)exponent - bias - (int)type->mantissa);
	else
		value = ldexp((double)fraction, 1 - bias - (int)type->mantissa);
	return part >> (type->part_bits - 1) & 1 ? -value : value;
}

static bool near(const struct value_bound *bound, double a, double b)
{
	double allowed = fmax(bound->absolute, bound->relative * fmax(fabs(a), fabs(b)));

	if (isnan(a) || isnan(b))
		return isnan(a) && isnan(b);
	if (isinf(a) || isinf(b))
		return a == b;
	return fabs(a - b) <= allowed;
}

bool value_same(const struct value_type *type, const struct value_bound *bound, uint64_t a, uint64_t b)
{
	if (value_canonical(type, a) == value_canonical(type, b))
		return true;
	if (!type->part_bits || (!bound->relative && !bound->absolute))
		return false;
	for (unsigned shift = 0; shift < type->bits; shift += type->part_bits)
		if (!near(bound, number(type, a >> shift & mask(type->part_bits)),
			  number(type, b >> shift & mask(type->part_bits))))
			return false;
	return true;
}

const char *value_print(const struct value_type *type, uint64_t value, char *text, unsigned size)
{
	int used = snprintf(text, size, "0x%0*llx", (int)(type->bits + 3) / 4, (unsigned long long)value);

	for (unsigned shift = 0; shift < type->bits && type->part_bits; shift += type->part_bits)
		used += snprintf(text + used, size - (unsigned)used, "%s%.9g", shift ? ", " : " (",
				 number(type, value >> shift & mask(type->part_bits)));
	if (type->part_bits)
		snprintf(text + used, size - (unsigned)used, ")");
	return text;
}
