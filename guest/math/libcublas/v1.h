/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of cublas.h: one handle for the process, options as letters, scalars by value, errors to be asked for.
 */
#ifndef CUBLAS_V1_H
#define CUBLAS_V1_H

#include "handle.h"

/* As cuComplex and cuDoubleComplex are passed. */
struct blas_complex {
	float re, im;
} __attribute__((aligned(8)));

struct blas_double_complex {
	double re, im;
} __attribute__((aligned(16)));

/* The handle, which is made on first use; NULL: that failed. */
void *blas_v1(void);

/* Keeps the status of the last function, for cublasGetError(). */
void blas_v1_status(int status);

/* An option's number by its letter; -1: there is no such. */
int blas_v1_trans(char letter);
int blas_v1_fill(char letter);
int blas_v1_side(char letter);
int blas_v1_diag(char letter);

#endif
