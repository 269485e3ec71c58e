/* SPDX-License-Identifier: Apache-2.0 */
#include "math/blas-convert.h"

#include <math.h>
#include <string.h>

static inline float float_of(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static inline uint32_t bits_of(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

static inline float from_half(uint16_t h)
{
	uint32_t size = h & 0x7fff, sign = (uint32_t)(h & 0x8000) << 16;
	uint32_t normal = (size << 13) + (size >= 0x7c00 ? 0x70000000 : 0x38000000);

	return float_of(sign | (size < 0x400 ? bits_of((float)size * 0x1p-24f) : normal));
}

static inline uint16_t to_half(float f)
{
	uint32_t bits = bits_of(f), size = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;

	if (size > 0x7f800000)
		return 0x7fff;
	if (size >= 0x477ff000)
		return (uint16_t)(sign | 0x7c00);
	if (size < 0x38800000) /* the last place of 0.5 is that of the smallest halves */
		return (uint16_t)(sign | (bits_of(float_of(size) + 0.5f) - 0x3f000000));
	return (uint16_t)(sign | (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
}

static inline float from_bfloat16(uint16_t b)
{
	return float_of((uint32_t)b << 16);
}

static inline uint16_t to_bfloat16(float f)
{
	uint32_t bits = bits_of(f);

	return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/*
 * A float from 8 bits, `digits` of them the fraction; the exponent of 1 is `bias`. E5M2 has infinities as halves have,
 * E4M3 none.
 */
static inline float from_quarter(uint8_t q, unsigned int digits, unsigned int bias)
{
	uint32_t size = q & 0x7f, sign = (uint32_t)(q & 0x80) << 24;
	uint32_t normal = (size << (23 - digits)) + ((127 - bias) << 23);

	if (size == 0x7f || (digits == 2 && size > 0x7c))
		return NAN;
	if (digits == 2 && size == 0x7c)
		normal = 0x7f800000;
	return float_of(sign |
			(size >> digits ? normal : bits_of((float)size * float_of((128 - bias - digits) << 23))));
}

/* A number that is too large becomes the largest, as in NVIDIA's conversions. */
static inline uint8_t to_quarter(float f, unsigned int digits, unsigned int bias)
{
	uint32_t bits = bits_of(f), size = bits & 0x7fffffff, sign = bits >> 24 & 0x80;
	uint32_t least = (128 - bias) << 23, largest = digits == 3 ? 0x7e : 0x7b, quarter;

	if (size > 0x7f800000)
		return 0x7f;
	if (size < least) { /* the last place of this number is that of the smallest ones */
		float place = float_of((128 - bias - digits + 23) << 23);

		quarter = bits_of(float_of(size) + place) - bits_of(place);
	} else {
		size -= (127 - bias) << 23;
		quarter = (size + ((1u << (22 - digits)) - 1) + (size >> (23 - digits) & 1)) >> (23 - digits);
	}
	return (uint8_t)(sign | (quarter > largest ? largest : quarter));
}

#define from_e4m3(q) from_quarter(q, 3, 7)
#define from_e5m2(q) from_quarter(q, 2, 15)
#define to_e4m3(f) to_quarter(f, 3, 7)
#define to_e5m2(f) to_quarter(f, 2, 15)

/* The nearest integer; a NaN gives 0. */
static inline int8_t to_byte(float f)
{
	return (int8_t)(f >= 127 ? 127 : f <= -128 ? -128 : f == f ? rintf(f) : 0);
}

static inline int32_t to_integer(float f)
{
	return f >= 0x1p31f ? INT32_MAX : f <= -0x1p31f ? INT32_MIN : f == f ? (int32_t)rintf(f) : 0;
}

/* `parts`: 2 of complex numbers. */
#define WIDEN(T, W, parts, convert)                                                                                    \
	do {                                                                                                           \
		const T *f = from;                                                                                     \
		W *t = to;                                                                                             \
                                                                                                                       \
		for (int64_t i = 0; i < n; i++)                                                                        \
			for (int part = 0; part < (parts); part++)                                                     \
				t[i * (parts) + part] = (W)convert(f[i * step * (parts) + part]);                      \
	} while (0)

#define PAIR(type, wide) ((type) << 8 | (wide))

void softgpu_blas_widen(unsigned int type, const void *from, int64_t step, int64_t n, unsigned int wide, void *to)
{
	switch (PAIR(type, wide)) {
	case PAIR(VCUDA_BLAS_R_16F, VCUDA_BLAS_R_32F):
		WIDEN(uint16_t, float, 1, from_half);
		break;
	case PAIR(VCUDA_BLAS_R_16BF, VCUDA_BLAS_R_32F):
		WIDEN(uint16_t, float, 1, from_bfloat16);
		break;
	case PAIR(VCUDA_BLAS_R_8F_E4M3, VCUDA_BLAS_R_32F):
		WIDEN(uint8_t, float, 1, from_e4m3);
		break;
	case PAIR(VCUDA_BLAS_R_8F_E5M2, VCUDA_BLAS_R_32F):
		WIDEN(uint8_t, float, 1, from_e5m2);
		break;
	case PAIR(VCUDA_BLAS_R_8I, VCUDA_BLAS_R_32F):
		WIDEN(int8_t, float, 1, );
		break;
	case PAIR(VCUDA_BLAS_R_32I, VCUDA_BLAS_R_32F):
		WIDEN(int32_t, float, 1, );
		break;
	case PAIR(VCUDA_BLAS_R_32F, VCUDA_BLAS_R_32F):
		WIDEN(float, float, 1, );
		break;
	case PAIR(VCUDA_BLAS_R_32F, VCUDA_BLAS_R_64F):
		WIDEN(float, double, 1, );
		break;
	case PAIR(VCUDA_BLAS_R_64F, VCUDA_BLAS_R_64F):
		WIDEN(double, double, 1, );
		break;
	case PAIR(VCUDA_BLAS_R_8I, VCUDA_BLAS_R_64F):
		WIDEN(int8_t, double, 1, );
		break;
	case PAIR(VCUDA_BLAS_C_8I, VCUDA_BLAS_C_64F):
		WIDEN(int8_t, double, 2, );
		break;
	case PAIR(VCUDA_BLAS_C_32F, VCUDA_BLAS_C_32F):
		WIDEN(float, float, 2, );
		break;
	case PAIR(VCUDA_BLAS_C_32F, VCUDA_BLAS_C_64F):
		WIDEN(float, double, 2, );
		break;
	case PAIR(VCUDA_BLAS_C_64F, VCUDA_BLAS_C_64F):
		WIDEN(double, double, 2, );
		break;
	default:
		memset(to, 0, (size_t)n * vcuda_blas_bytes(wide));
	}
}

#define NARROW(W, T, parts, convert)                                                                                   \
	do {                                                                                                           \
		const W *f = from;                                                                                     \
		T *t = to;                                                                                             \
                                                                                                                       \
		for (int64_t i = 0; i < n; i++)                                                                        \
			for (int part = 0; part < (parts); part++)                                                     \
				t[i * step * (parts) + part] = (T)convert(f[i * (parts) + part]);                      \
	} while (0)

void softgpu_blas_narrow(unsigned int wide, const void *from, int64_t n, unsigned int type, void *to, int64_t step)
{
	switch (PAIR(type, wide)) {
	case PAIR(VCUDA_BLAS_R_16F, VCUDA_BLAS_R_32F):
		NARROW(float, uint16_t, 1, to_half);
		break;
	case PAIR(VCUDA_BLAS_R_16BF, VCUDA_BLAS_R_32F):
		NARROW(float, uint16_t, 1, to_bfloat16);
		break;
	case PAIR(VCUDA_BLAS_R_8F_E4M3, VCUDA_BLAS_R_32F):
		NARROW(float, uint8_t, 1, to_e4m3);
		break;
	case PAIR(VCUDA_BLAS_R_8F_E5M2, VCUDA_BLAS_R_32F):
		NARROW(float, uint8_t, 1, to_e5m2);
		break;
	case PAIR(VCUDA_BLAS_R_8I, VCUDA_BLAS_R_32F):
		NARROW(float, int8_t, 1, to_byte);
		break;
	case PAIR(VCUDA_BLAS_R_32I, VCUDA_BLAS_R_32F):
		NARROW(float, int32_t, 1, to_integer);
		break;
	case PAIR(VCUDA_BLAS_R_32F, VCUDA_BLAS_R_32F):
		NARROW(float, float, 1, );
		break;
	case PAIR(VCUDA_BLAS_R_32F, VCUDA_BLAS_R_64F):
		NARROW(double, float, 1, );
		break;
	case PAIR(VCUDA_BLAS_R_64F, VCUDA_BLAS_R_64F):
		NARROW(double, double, 1, );
		break;
	case PAIR(VCUDA_BLAS_C_32F, VCUDA_BLAS_C_32F):
		NARROW(float, float, 2, );
		break;
	case PAIR(VCUDA_BLAS_C_32F, VCUDA_BLAS_C_64F):
		NARROW(double, float, 2, );
		break;
	case PAIR(VCUDA_BLAS_C_64F, VCUDA_BLAS_C_64F):
		NARROW(double, double, 2, );
		break;
	default:
		break;
	}
}

bool softgpu_blas_is_zero(unsigned int type, const void *scalar)
{
	const float *f = scalar;
	const double *d = scalar;

	switch (type) {
	case VCUDA_BLAS_R_32F:
		return f[0] == 0;
	case VCUDA_BLAS_C_32F:
		return f[0] == 0 && f[1] == 0;
	case VCUDA_BLAS_R_64F:
		return d[0] == 0;
	case VCUDA_BLAS_C_64F:
		return d[0] == 0 && d[1] == 0;
	case VCUDA_BLAS_R_16F:
		return !(*(const uint16_t *)scalar & 0x7fff);
	default:
		return !*(const uint32_t *)scalar;
	}
}
