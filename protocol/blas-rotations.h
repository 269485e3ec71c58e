/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of Givens rotations: a few numbers, which a guest computes by itself where they are in its memory. */
#ifndef VCUDA_BLAS_ROTATIONS_H
#define VCUDA_BLAS_ROTATIONS_H

/* `type`: one of S D C Z, as vcuda_blas_type has them; c: of its real type. a becomes r; b, of real ones, z. */
void vcuda_blas_rotg(int type, void *a, void *b, void *c, void *s);

/* Real types only; param: five numbers. */
void vcuda_blas_rotmg(int type, void *d1, void *d2, void *x1, const void *y1, void *param);

#endif
