/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of cublas.h, of all shapes of functions. */
#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/check.h"

enum { INVALID_VALUE = 7 };

/* As in vector_types.h, and not C's complex numbers: that they are passed alike is what is tested. */
typedef struct {
	float x, y;
} __attribute__((aligned(8))) c_t;
typedef struct {
	double x, y;
} __attribute__((aligned(16))) z_t;

int cublasInit(void);
int cublasShutdown(void);
int cublasGetError(void);
int cublasGetVersion(int *version);
int cublasAlloc(int n, int size, void **memory);
int cublasFree(void *memory);
int cublasSetKernelStream(void *stream);
int cublasSetVector(int n, int size, const void *x, int incx, void *y, int incy);
int cublasGetVector(int n, int size, const void *x, int incx, void *y, int incy);
float cublasSdot(int n, const float *x, int incx, const float *y, int incy);
double cublasDnrm2(int n, const double *x, int incx);
float cublasScasum(int n, const c_t *x, int incx);
c_t cublasCdotu(int n, const c_t *x, int incx, const c_t *y, int incy);
z_t cublasZdotc(int n, const z_t *x, int incx, const z_t *y, int incy);
int cublasIdamax(int n, const double *x, int incx);
void cublasSaxpy(int n, float alpha, const float *x, int incx, float *y, int incy);
void cublasCsscal(int n, float alpha, c_t *x, int incx);
void cublasZscal(int n, z_t alpha, z_t *x, int incx);
void cublasZrot(int n, z_t *x, int incx, z_t *y, int incy, double c, z_t s);
void cublasSrotg(float *a, float *b, float *c, float *s);
void cublasCrotg(c_t *a, c_t b, float *c, c_t *s);
void cublasDrotm(int n, double *x, int incx, double *y, int incy, const double *param);
void cublasSgemm(char ta, char tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
		 float beta, float *c, int ldc);
void cublasZgemm(char ta, char tb, int m, int n, int k, z_t alpha, const z_t *a, int lda, const z_t *b, int ldb,
		 z_t beta, z_t *c, int ldc);
void cublasCher2k(char uplo, char trans, int n, int k, c_t alpha, const c_t *a, int lda, const c_t *b, int ldb,
		  float beta, c_t *c, int ldc);
void cublasStrmm(char side, char uplo, char trans, char diag, int m, int n, float alpha, const float *a, int lda,
		 float *b, int ldb);
void cublasZtrsv(char uplo, char trans, char diag, int n, const z_t *a, int lda, z_t *x, int incx);

static void *device(const void *from, int n, int size)
{
	void *memory;

	CHECK(!cublasAlloc(n, size, &memory) && memory && !cublasSetVector(n, size, from, 1, memory, 1));
	return memory;
}

static void *host(void *to, const void *memory, int n, int size)
{
	CHECK(!cublasGetVector(n, size, memory, 1, to, 1));
	return to;
}

static void vectors(void)
{
	static const float s[4] = {1, 2, 3, 4};
	static const double d[4] = {1, -8, 2, 4}, param[5] = {-1, 2, 1, 0, 1};
	static const c_t c[2] = {{1, 2}, {3, -4}};
	static const z_t z[2] = {{1, 2}, {3, -4}};
	float *ds = device(s, 4, 4), s_out[4];
	double *dd = device(d, 4, 8), *de = device(d, 4, 8), d_out[4];
	c_t *dc = device(c, 2, sizeof(c_t)), c_out[2], u;
	z_t *dz = device(z, 2, sizeof(z_t)), *dw = device(z, 2, sizeof(z_t)), z_out[2], v;

	CHECK(cublasSdot(4, ds, 1, ds, 1) == 30);
	CHECK(fabs(cublasDnrm2(4, dd, 1) - sqrt(85)) < 1e-14 && cublasIdamax(4, dd, 1) == 2);
	CHECK(cublasScasum(2, dc, 1) == 10);
	u = cublasCdotu(2, dc, 1, dc, 1);
	v = cublasZdotc(2, dz, 1, dz, 1);
	CHECK(u.x == -10 && u.y == -20 && v.x == 30 && v.y == 0);
	cublasSaxpy(4, 2, ds, 1, ds, 1);
	CHECK(((float *)host(s_out, ds, 4, 4))[3] == 12);
	cublasCsscal(2, 3, dc, 1);
	CHECK(((c_t *)host(c_out, dc, 2, sizeof(c_t)))[1].y == -12);
	cublasZscal(2, (z_t){0, 1}, dz, 1);
	host(z_out, dz, 2, sizeof(z_t));
	CHECK(z_out[1].x == 4 && z_out[1].y == 3);
	/* (x, y) = (i y, i x) where s is i */
	cublasZrot(2, dz, 1, dw, 1, 0, (z_t){0, 1});
	host(z_out, dz, 2, sizeof(z_t));
	CHECK(z_out[0].x == -2 && z_out[0].y == 1);
	host(z_out, dw, 2, sizeof(z_t));
	CHECK(z_out[0].x == -1 && z_out[0].y == -2);
	/* (x, y) = (2 x, x + y) */
	cublasDrotm(4, dd, 1, de, 1, param);
	CHECK(((double *)host(d_out, dd, 4, 8))[1] == -16 && ((double *)host(d_out, de, 4, 8))[1] == -16);
	CHECK(!cublasGetError());
	CHECK(!cublasFree(ds) && !cublasFree(dd) && !cublasFree(de) && !cublasFree(dc) && !cublasFree(dz) &&
	      !cublasFree(dw));
}

static void rotations(void)
{
	float a = 3, b = 4, c, s, real;
	c_t ca = {3, 0}, cs;

	cublasSrotg(&a, &b, &c, &s);
	CHECK(fabsf(a - 5) < 1e-6f && fabsf(c - .6f) < 1e-6f && fabsf(s - .8f) < 1e-6f);
	cublasCrotg(&ca, (c_t){0, 4}, &real, &cs);
	CHECK(fabsf(ca.x - 5) < 1e-6f && fabsf(real - .6f) < 1e-6f && fabsf(cs.x) < 1e-6f && fabsf(cs.y + .8f) < 1e-6f);
}

static void matrices(void)
{
	static const float s[4] = {1, 2, 3, 4}, none[4];
	static const c_t c[4] = {{1, 1}, {2, 0}, {0, 3}, {4, 0}}, c_none[4];
	static const z_t z[4] = {{1, 1}, {2, 0}, {0, 3}, {4, 0}}, z_none[4];
	float *ds = device(s, 4, 4), *dn = device(none, 4, 4), out[4];
	c_t *dc = device(c, 4, sizeof(c_t)), *dcn = device(c_none, 4, sizeof(c_t)), c_out[4];
	z_t *dz = device(z, 4, sizeof(z_t)), *dzn = device(z_none, 4, sizeof(z_t)), z_out[4];

	/* A' A = (5 11; 11 25) */
	cublasSgemm('t', 'N', 2, 2, 2, 1, ds, 2, ds, 2, 0, dn, 2);
	host(out, dn, 4, 4);
	CHECK(out[0] == 5 && out[1] == 11 && out[3] == 25);
	/* The part above A's diagonal, times ones: (1 3; 0 4) */
	cublasStrmm('L', 'U', 'N', 'N', 2, 2, 2, ds, 2, dn, 2);
	host(out, dn, 4, 4);
	CHECK(out[0] == 2 * (5 + 33) && out[1] == 2 * 44);
	/* i A' conjugate, A: column 0 of A' A is (2 + 4, ...) */
	cublasZgemm('C', 'N', 2, 2, 2, (z_t){0, 1}, dz, 2, dz, 2, (z_t){0, 0}, dzn, 2);
	host(z_out, dzn, 4, sizeof(z_t));
	CHECK(z_out[0].x == 0 && z_out[0].y == 6 && z_out[3].y == 25);
	cublasCher2k('L', 'N', 2, 2, (c_t){1, 0}, dc, 2, dc, 2, 0, dcn, 2);
	host(c_out, dcn, 4, sizeof(c_t));
	CHECK(c_out[0].x == 2 * 11 && c_out[0].y == 0);
	cublasZtrsv('L', 'N', 'U', 2, dz, 2, dzn, 1);
	CHECK(!cublasGetError());
	/* The state is the last function's, until it is asked for. */
	cublasSgemm('x', 'N', 2, 2, 2, 1, ds, 2, ds, 2, 0, dn, 2);
	CHECK(cublasGetError() == INVALID_VALUE && !cublasGetError());
	cublasSgemm('N', 'N', -2, 2, 2, 1, ds, 2, ds, 2, 0, dn, 2);
	cublasSgemm('N', 'N', 2, 2, 2, 1, ds, 2, ds, 2, 0, dn, 2);
	CHECK(!cublasGetError());
	CHECK(!cublasFree(ds) && !cublasFree(dn) && !cublasFree(dc) && !cublasFree(dcn) && !cublasFree(dz) &&
	      !cublasFree(dzn));
}

int main(void)
{
	void *memory;
	int version;

	CHECK(!cublasInit());
	CHECK(!cublasGetVersion(&version) && version >= 110000);
	CHECK(cublasAlloc(0, 4, &memory) == INVALID_VALUE);
	CHECK(!cublasSetKernelStream(NULL));
	vectors();
	rotations();
	matrices();
	CHECK(!cublasShutdown());
	CHECK(!cublasShutdown());
	/* The library also initialises itself. */
	CHECK(!cublasAlloc(4, 4, &memory) && !cublasFree(memory) && !cublasShutdown());
	printf("blas-v1: passed\n");
	return 0;
}
