/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic in the rounding modes that LLVM's operations do not have. */
#include <math.h>
#include <string.h>
#include <xmmintrin.h>

#include "runtime/ptx-run.h"

#define EACH(out_type, expression)                                                                                     \
	for (uint32_t n = 0; n < lanes; n++)                                                                           \
		((out_type *)out)[n] = (expression);                                                                   \
	break

/* Operands are loaded and results stored between two of these: the arithmetic stays inside the changed mode. */
#define BARRIER() __asm__ volatile("" ::: "memory")

#define ROUND_IN(type, fused, root)                                                                                    \
	{                                                                                                              \
		const type *x = a, *y = b, *z = c;                                                                     \
		switch (operation & 255) {                                                                             \
		case ROUND_ADD:                                                                                        \
			EACH(type, x[n] + y[n]);                                                                       \
		case ROUND_SUB:                                                                                        \
			EACH(type, x[n] - y[n]);                                                                       \
		case ROUND_MUL:                                                                                        \
			EACH(type, x[n] * y[n]);                                                                       \
		case ROUND_DIV:                                                                                        \
			EACH(type, x[n] / y[n]);                                                                       \
		case ROUND_FMA:                                                                                        \
			EACH(type, fused(x[n], y[n], z[n]));                                                           \
		case ROUND_SQRT:                                                                                       \
			EACH(type, root(x[n]));                                                                        \
		case ROUND_FROM_S64:                                                                                   \
			EACH(type, (type)((const int64_t *)a)[n]);                                                     \
		case ROUND_FROM_U64:                                                                                   \
			EACH(type, (type)((const uint64_t *)a)[n]);                                                    \
		case ROUND_NARROW:                                                                                     \
			EACH(float, (float)x[n]);                                                                      \
		}                                                                                                      \
	}

/*
 * Changing the mode takes as long as 40 additions. For one lane it is quicker to round to nearest and to look at what
 * that left: `error` has the sign of the exact result minus `near`.
 */
static uint64_t step(uint64_t near, bool negative, double error, unsigned int mode)
{
	bool up = mode == PTX_MOD_RP || (mode == PTX_MOD_RZ && negative);

	if (mode == PTX_MOD_RN || !(up ? error > 0 : error < 0))
		return near;
	return up == negative ? near - 1 : near + 1;
}

/* Far enough from where numbers end and where they lose bits: there the errors are exact. */
static bool is_ordinary(double x)
{
	return fabs(x) > 0x1p-900 && fabs(x) < 0x1p900;
}

/* The part of a sum of two numbers that rounding removed. */
static double sum_error(double x, double y, double sum)
{
	return fabs(x) < fabs(y) ? x - (sum - y) : y - (sum - x);
}

/* The double that is nearest to the result, and its error. False: the mode has to be changed. */
static bool nearest(unsigned int operation, double x, double y, double *near, double *error)
{
	switch (operation) {
	case ROUND_SUB:
		y = -y;
		/* fall through */
	case ROUND_ADD:
		*near = x + y;
		*error = sum_error(x, y, *near);
		break;
	case ROUND_MUL:
		*near = x * y;
		*error = fma(x, y, -*near);
		break;
	case ROUND_DIV:
		*near = x / y;
		*error = copysign(1, y) * fma(-*near, y, x);
		break;
	default:
		return false;
	}
	return is_ordinary(x) && is_ordinary(y) && is_ordinary(*near);
}

static bool round_one(unsigned int operation, unsigned int mode, const double *x, const double *y, double *out)
{
	double near, error;
	uint64_t bits;

	if (!nearest(operation, *x, *y, &near, &error))
		return false;
	memcpy(&bits, &near, sizeof(bits));
	bits = step(bits, near < 0, error, mode);
	memcpy(out, &bits, sizeof(bits));
	return true;
}

/* Not fesetround(): that changes the mode of a unit too that nothing here uses. */
void ptx_rt_round(uint32_t operation, uint32_t lanes, const void *a, const void *b, const void *c, void *out)
{
	unsigned int mode = operation >> 8 & 255, type = operation >> 16, before;

	if (lanes == 1 && type == PTX_F64 && round_one(operation & 255, mode, a, b, out))
		return;
	before = _mm_getcsr();
	_mm_setcsr((before & ~(unsigned int)_MM_ROUND_MASK) | (mode == PTX_MOD_RZ   ? _MM_ROUND_TOWARD_ZERO
							       : mode == PTX_MOD_RM ? _MM_ROUND_DOWN
							       : mode == PTX_MOD_RP ? _MM_ROUND_UP
										    : _MM_ROUND_NEAREST));
	BARRIER();
	if (type == PTX_F64)
		ROUND_IN(double, fma, sqrt)
	else
		ROUND_IN(float, fmaf, sqrtf)
	BARRIER();
	_mm_setcsr(before);
}
