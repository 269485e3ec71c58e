/* SPDX-License-Identifier: Apache-2.0 */
#include "blas-convert.h"

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

void cpu_blas_widen(unsigned int type, const void *from, int64_t step, int64_t n, unsigned int wide, void *to)
{
	switch (PAIR(type, wide)) {
	case PAIR(VCUDA_BLAS_R_16F, VCUDA_BLAS_R_32F):
		WIDEN(uint16_t, float, 1, from_half);
		break;
	case PAIR(VCUDA_BLAS_R_16BF, VCUDA_BLAS_R_32F):
		WIDEN(uint16_t, float, 1, from_bfloat16);
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

void cpu_blas_narrow(unsigned int wide, const void *from, int64_t n, unsigned int type, void *to, int64_t step)
{
	switch (PAIR(type, wide)) {
	case PAIR(VCUDA_BLAS_R_16F, VCUDA_BLAS_R_32F):
		NARROW(float, uint16_t, 1, to_half);
		break;
	case PAIR(VCUDA_BLAS_R_16BF, VCUDA_BLAS_R_32F):
		NARROW(float, uint16_t, 1, to_bfloat16);
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
