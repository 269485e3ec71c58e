/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of the types of matrix products, small ones so that sums are exact, and their places in registers. A type is
 * a character: h f16, y bf16, t tf32, f f32, d f64, s s8, u u8, S s4, U u4, 1 b1, i s32, 4 e4m3, 5 e5m2, 2 e2m1, 3
 * e2m3, 6 e3m2.
 */
#ifndef TEST_PTX_MATRIX_H
#define TEST_PTX_MATRIX_H

#include "softgpu/test/harness.h"
#include "test/seed.h"

#define LANES 32

static unsigned seed;

static unsigned bits_of_class(char t)
{
	return strchr("hy", t)        ? 16
	       : strchr("su45236", t) ? 8
	       : strchr("SU", t)      ? 4
	       : t == '1'             ? 1
	       : t == 'd'             ? 64
				      : 32;
}

static int next(int low, int high)
{
	seed = seed * 1103515245 + 12345;
	return low + (int)((seed >> 12) % (unsigned)(high - low + 1));
}

static int small(char t)
{
	return t == '1' ? next(0, 1) : strchr("uU", t) ? next(0, 15) : t == 's' ? next(-128, 127) : next(-8, 7);
}

/* A number of 4 or 6 bits. */
static double narrow_value(char t, unsigned code)
{
	unsigned bits = t == '2' ? 4 : 6, m = t == '2' ? 1 : t == '3' ? 3 : 2, size = code & ((1u << (bits - 1)) - 1);
	int exponent = (int)(size >> m), bias = t == '6' ? 3 : 1;
	double v =
		ldexp((size & ((1u << m) - 1)) | (exponent ? 1u << m : 0), (exponent ? exponent : 1) - bias - (int)m);

	return code >> (bits - 1) ? -v : v;
}

static double any_value(char t)
{
	return strchr("236", t) ? narrow_value(t, (unsigned)next(0, t == '2' ? 15 : 63)) : small(t);
}

/* In a byte: e2m1 in the middle, with what is not looked at around it; above the others, too. */
static uint64_t narrow_code(char t, double v)
{
	unsigned code = 0;

	while (narrow_value(t, code) != v)
		code++;
	return t == '2' ? code << 2 | 0xc3 : code | 0xc0;
}

/* A small number as the bits of a type. */
static uint64_t encode(char t, double v)
{
	float f = (float)v;
	uint32_t w = bits32(f);
	_Float16 h = (_Float16)v;
	uint16_t half;
	uint64_t wide;

	memcpy(&half, &h, 2);
	memcpy(&wide, &v, 8);
	switch (t) {
	case 'h':
		return half;
	case 'y':
		return w >> 16;
	case '5':
		return half >> 8;
	case '4': /* the exponent's bias is 7 */
		return (w >> 24 & 0x80) | (v != 0 ? ((w >> 20 & 0x7ff) - ((127 - 7) << 3)) & 0x7f : 0);
	case '2':
	case '3':
	case '6':
		return narrow_code(t, v);
	case 't': /* low bits, which tf32 ignores */
		return w | 0x1fff;
	case 'f':
		return w;
	case 'd':
		return wide;
	default:
		return (uint64_t)(int64_t)v & (bits_of_class(t) == 32 ? UINT32_MAX : (1u << bits_of_class(t)) - 1);
	}
}

static void put(uint32_t *words, char t, unsigned reg_base, unsigned lane, unsigned i, double value)
{
	unsigned bits = bits_of_class(t), each = bits >= 32 ? 1 : 32 / bits;
	uint64_t code = encode(t, value);

	if (bits == 64)
		memcpy(&words[((reg_base + i) * LANES + lane) * 2], &code, 8);
	else
		words[((reg_base + i / each) * LANES + lane) * 2] |= (uint32_t)code << i % each * bits;
}

static unsigned registers(unsigned rows, unsigned columns, char t)
{
	return rows * columns * bits_of_class(t) / 32 / (t == 'd' ? 64 : 32);
}

static char *registers_text(char *at, const char *name, unsigned first, unsigned count)
{
	at += sprintf(at, "{");
	for (unsigned n = 0; n < count; n++)
		at += sprintf(at, "%s%s%u", n ? "," : "", name, first + n);
	return at + sprintf(at, "}");
}

#endif
