/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic in the rounding modes that LLVM's operations do not have. */
#include <fenv.h>
#include <math.h>

#include "ptx-lower.h"

#define EACH(out_type, expression)                                                                                     \
	for (uint32_t n = 0; n < lanes; n++)                                                                           \
		((out_type *)out)[n] = (expression);                                                                   \
	break

/* volatile keeps the compiler from moving the arithmetic out of the changed mode */
#define ROUND_IN(type, fused, root)                                                                                    \
	{                                                                                                              \
		const volatile type *x = a, *y = b, *z = c;                                                            \
		switch (operation & 255) {                                                                             \
		case ROUND_ADD:                                                                                        \
			EACH(volatile type, x[n] + y[n]);                                                              \
		case ROUND_SUB:                                                                                        \
			EACH(volatile type, x[n] - y[n]);                                                              \
		case ROUND_MUL:                                                                                        \
			EACH(volatile type, x[n] * y[n]);                                                              \
		case ROUND_DIV:                                                                                        \
			EACH(volatile type, x[n] / y[n]);                                                              \
		case ROUND_FMA:                                                                                        \
			EACH(volatile type, fused(x[n], y[n], z[n]));                                                  \
		case ROUND_SQRT:                                                                                       \
			EACH(volatile type, root(x[n]));                                                               \
		case ROUND_FROM_S64:                                                                                   \
			EACH(volatile type, (type)((const volatile int64_t *)a)[n]);                                   \
		case ROUND_FROM_U64:                                                                                   \
			EACH(volatile type, (type)((const volatile uint64_t *)a)[n]);                                  \
		case ROUND_NARROW:                                                                                     \
			EACH(volatile float, (float)x[n]);                                                             \
		}                                                                                                      \
	}

void ptx_rt_round(uint32_t operation, uint32_t lanes, const void *a, const void *b, const void *c, void *out)
{
	unsigned mode = operation >> 8 & 255, type = operation >> 16;
	int before = fegetround();

	fesetround(mode == PTX_MOD_RZ   ? FE_TOWARDZERO
		   : mode == PTX_MOD_RM ? FE_DOWNWARD
		   : mode == PTX_MOD_RP ? FE_UPWARD
					: FE_TONEAREST);
	if (type == PTX_F64)
		ROUND_IN(double, fma, sqrt)
	else
		ROUND_IN(float, fmaf, sqrtf)
	fesetround(before);
}
