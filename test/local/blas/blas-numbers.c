/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of all types. */
#include <math.h>
#include <string.h>

#include "blas.h"
#include "test/seed.h"

/* The first four are those that all routines are for. */
const struct element elements[ELEMENTS] = {
	{'S', 4, false, false, 0},  {'D', 8, false, true, 1},   {'C', 8, true, false, 4},  {'Z', 16, true, true, 5},
	{'H', 2, false, false, 2},  {'T', 2, false, false, 14}, {'B', 1, false, false, 3}, {'E', 2, true, false, 7},
	{'I', 4, false, false, 10}, {'Q', 1, false, false, 28}, {'R', 1, false, false, 29}};

static bool is_integer(const struct element *e)
{
	return e->letter == 'B' || e->letter == 'E' || e->letter == 'I';
}

static uint64_t random_bits(void)
{
	static uint64_t state;

	if (!state)
		state = test_seed_state(test_seed());
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

int64_t random_below(int64_t n)
{
	return (int64_t)(random_bits() % (uint64_t)n);
}

static double unit(void)
{
	return (double)(random_below(1 << 12) - (1 << 11)) / (1 << 11);
}

cplx random_number(void)
{
	double re = unit(), im = unit();

	if (is_integer(now.e)) {
		re = floor(re * 100);
		im = floor(im * 100);
	}
	return now.e->is_complex ? CMPLX(re, im) : re;
}

cplx random_scalar(void)
{
	int64_t which = random_below(4);

	return which == 0 ? 0 : which == 1 ? 1 : random_number();
}

const struct element *element_of(char letter)
{
	const struct element *e = elements;

	while (e->letter != letter)
		e++;
	return e;
}

/* The nearest number with the digits of a half or bfloat16: test numbers have few digits, and are not very small. */
static double round_to(double value, int digits)
{
	int exponent;

	if (!isfinite(value) || value == 0)
		return value;
	frexp(value, &exponent);
	return ldexp(nearbyint(ldexp(value, digits - exponent)), exponent - digits);
}

static uint16_t to_short(const struct element *e, double value)
{
	float f = (float)round_to(value, e->letter == 'H' ? 11 : 8);
	uint32_t bits;

	memcpy(&bits, &f, 4);
	if (e->letter == 'T')
		return (uint16_t)(bits >> 16);
	if (!isfinite(f))
		return (uint16_t)(isnan(f) ? 0x7e00 : (bits >> 16 & 0x8000) | 0x7c00);
	/* Small ones have fewer digits. */
	if (fabsf(f) < 0x1p-14f)
		return (uint16_t)((bits >> 16 & 0x8000) | (uint16_t)nearbyintf(fabsf(f) * 0x1p24f));
	return (uint16_t)((bits >> 16 & 0x8000) | ((bits & 0x7fffffff) - 0x38000000) >> 13);
}

static double from_short(const struct element *e, uint16_t value)
{
	uint32_t bits = (uint32_t)value << 16;
	float f;

	memcpy(&f, &bits, 4);
	if (e->letter == 'T')
		return f;
	if ((value & 0x7c00) == 0x7c00)
		return value & 0x3ff ? NAN : value & 0x8000 ? -INFINITY : INFINITY;
	f = value & 0x7c00 ? ldexpf(1024 + (value & 0x3ff), ((value & 0x7c00) >> 10) - 25) : ldexpf(value & 0x3ff, -24);
	return value & 0x8000 ? -f : f;
}

static bool is_quarter(const struct element *e)
{
	return e->letter == 'Q' || e->letter == 'R';
}

static double from_quarter(const struct element *e, unsigned int code)
{
	int digits = e->letter == 'Q' ? 3 : 2, bias = e->letter == 'Q' ? 7 : 15;
	int fraction = (int)code & ((1 << digits) - 1), exponent = (int)(code & 0x7f) >> digits;
	double size = exponent ? ldexp(fraction + (1 << digits), exponent - bias - digits)
			       : ldexp(fraction, 1 - bias - digits);

	if ((code & 0x7f) == 0x7f || (e->letter == 'R' && (code & 0x7f) > 0x7c))
		return NAN;
	if (e->letter == 'R' && (code & 0x7f) == 0x7c)
		size = INFINITY;
	return code & 0x80 ? -size : size;
}

/* The nearest of all codes; of two, the even one. */
static uint8_t to_quarter(const struct element *e, double value)
{
	unsigned int best = 0;

	for (unsigned int code = 0; code < 256; code++) {
		double off = fabs(from_quarter(e, code) - value), least = fabs(from_quarter(e, best) - value);

		if (off < least || (off == least && !(code & 1) && best & 1))
			best = code;
	}
	return (uint8_t)best;
}

void number_store(const struct element *e, void *base, int64_t i, cplx value)
{
	float s[2] = {(float)creal(value), (float)cimag(value)};
	double d[2] = {creal(value), cimag(value)};
	/* For integer types a NaN is stored as 0. */
	int8_t bytes[2] = {(int8_t)(isnan(d[0]) ? 0 : d[0]), (int8_t)(isnan(d[1]) ? 0 : d[1])};
	int32_t integer = (int32_t)(isnan(d[0]) ? 0 : d[0]);
	uint16_t half = e->letter == 'H' || e->letter == 'T' ? to_short(e, d[0]) : 0;
	uint8_t quarter = is_quarter(e) ? to_quarter(e, d[0]) : 0;
	const void *from = is_quarter(e)                          ? (const void *)&quarter
			   : e->letter == 'B' || e->letter == 'E' ? (const void *)bytes
			   : e->letter == 'I'                     ? (const void *)&integer
			   : e->letter == 'H' || e->letter == 'T' ? (const void *)&half
			   : e->is_double                         ? (const void *)d
								  : s;

	memcpy((char *)base + i * e->size, from, e->size);
}

cplx number_load(const struct element *e, const void *base, int64_t i)
{
	const char *p = (const char *)base + i * e->size;
	float s[2] = {0};
	double d[2] = {0};
	uint16_t half;
	int32_t integer;

	if (is_quarter(e))
		return from_quarter(e, (uint8_t)*p);
	memcpy(&half, p, e->size < 2 ? e->size : 2);
	if (e->letter == 'H' || e->letter == 'T')
		return from_short(e, half);
	if (e->letter == 'B' || e->letter == 'E')
		return CMPLX((int8_t)p[0], e->letter == 'E' ? (int8_t)p[1] : 0);
	memcpy(&integer, p, e->size < 4 ? e->size : 4);
	if (e->letter == 'I')
		return integer;
	memcpy(e->is_double ? (void *)d : s, p, e->size);
	return e->is_double ? CMPLX(d[0], d[1]) : CMPLX(s[0], s[1]);
}

static double precision(const struct element *e)
{
	if (is_quarter(e))
		return e->letter == 'Q' ? 0.07 : 0.14;
	return is_integer(e) ? 0 : e->letter == 'H' ? 1e-3 : e->letter == 'T' ? 8e-3 : e->is_double ? 1e-13 : 2e-6;
}

bool number_is_close(const struct element *e, cplx a, cplx b, double scale)
{
	return cabs(a - b) <= (scale + cabs(b)) * precision(e);
}
