/* SPDX-License-Identifier: Apache-2.0 */
/* Computes Givens rotations, also in the guest when the numbers are in its memory. Thread-safe. */
#ifndef VCUDA_BLAS_ROTATIONS_H
#define VCUDA_BLAS_ROTATIONS_H

/* `type`: the vcuda_blas_type of S, D, C or Z; c has its real type. a becomes r; b becomes z for real types. */
void vcuda_blas_rotg(int type, void *a, void *b, void *c, void *s);

/* Real types only; param: five numbers. */
void vcuda_blas_rotmg(int type, void *d1, void *d2, void *x1, const void *y1, void *param);

#endif
