/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of any type, to those that OpenBLAS computes with (S D C Z) and back. */
#ifndef VCUDA_CPU_BLAS_CONVERT_H
#define VCUDA_CPU_BLAS_CONVERT_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/blas-abi.h"

/*
 * `n` numbers, `step` elements from one to the next, as numbers of `wide` that follow one another. A pair that makes no
 * sense, as complex ones to real ones, is not asked for.
 */
void softgpu_blas_widen(unsigned int type, const void *from, int64_t step, int64_t n, unsigned int wide, void *to);

/* The other way round; to the nearest, ties to even. */
void softgpu_blas_narrow(unsigned int wide, const void *from, int64_t n, unsigned int type, void *to, int64_t step);

/* Whether a scalar of such a type is 0: of both signs, and both parts of a complex one. */
bool softgpu_blas_is_zero(unsigned int type, const void *scalar);

#endif
