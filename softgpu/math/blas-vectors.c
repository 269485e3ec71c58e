/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors whose types are arguments. They are converted piece by piece. */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "math/blas-call.h"
#include "math/blas-convert.h"

#define PIECE 256

struct vector {
	char *first;
	int64_t n, step;
	unsigned int type, size, wide;
};

/* One piece of a vector, in the type that it is computed in. */
union piece {
	float s[PIECE];
	double d[PIECE];
	float complex c[PIECE];
	double complex z[PIECE];
};

static struct vector vector(const struct softgpu_blas_work *w, unsigned int operand)
{
	const struct vcuda_blas_operand *o = &w->o[operand];
	struct vector v = {.first = (char *)(uintptr_t)o->address,
			   .n = o->rows,
			   .step = o->step,
			   .type = o->type,
			   .size = vcuda_blas_bytes(o->type)};

	v.wide = v.type == VCUDA_BLAS_R_16F || v.type == VCUDA_BLAS_R_16BF ? VCUDA_BLAS_R_32F : v.type;
	if (v.step < 0)
		v.first += (1 - v.n) * v.step * (int64_t)v.size;
	return v;
}

static int64_t length(const struct vector *v, int64_t at)
{
	return v->n - at < PIECE ? v->n - at : PIECE;
}

static void *place(const struct vector *v, int64_t at)
{
	return v->first + at * v->step * (int64_t)v->size;
}

static void get(const struct vector *v, int64_t at, union piece *p)
{
	softgpu_blas_widen(v->type, place(v, at), v->step, length(v, at), v->wide, p);
}

static void put(const struct vector *v, int64_t at, const union piece *p)
{
	softgpu_blas_narrow(v->wide, p, length(v, at), v->type, place(v, at), v->step);
}

/* A number of any type that goes with the vectors'. */
static double complex scalar(const struct softgpu_blas_work *w, unsigned int operand)
{
	const uint64_t *word = &w->words[w->o[operand].word];
	unsigned int type = w->o[operand].type;
	union piece p;

	switch (type) {
	case VCUDA_BLAS_R_64F:
		return *(const double *)word;
	case VCUDA_BLAS_C_32F:
		return *(const float complex *)word;
	case VCUDA_BLAS_C_64F:
		return *(const double complex *)word;
	default:
		softgpu_blas_widen(type, word, 1, 1, VCUDA_BLAS_R_32F, &p);
		return p.s[0];
	}
}

/* Runs WORK with the member of a piece that has the type. */
#define FOR_TYPE(wide, WORK)                                                                                           \
	switch (wide) {                                                                                                \
	case VCUDA_BLAS_R_32F:                                                                                         \
		WORK(s, float);                                                                                        \
		break;                                                                                                 \
	case VCUDA_BLAS_R_64F:                                                                                         \
		WORK(d, double);                                                                                       \
		break;                                                                                                 \
	case VCUDA_BLAS_C_32F:                                                                                         \
		WORK(c, float complex);                                                                                \
		break;                                                                                                 \
	default:                                                                                                       \
		WORK(z, double complex);                                                                               \
	}

/* alpha, x, y */
CUresult softgpu_blas_axpy_ex(const struct softgpu_blas_work *w)
{
	struct vector x = vector(w, 1), y = vector(w, 2);
	double complex alpha = scalar(w, 0);
	union piece a, b;

	for (int64_t at = 0; at < x.n && !w->skipped; at += PIECE) {
		int64_t n = length(&x, at);

		get(&x, at, &a);
		get(&y, at, &b);
#define ADD(m, T)                                                                                                      \
	for (int64_t i = 0; i < n; i++)                                                                                \
	b.m[i] += (T)alpha * a.m[i]
		FOR_TYPE(x.wide, ADD)
		put(&y, at, &b);
	}
	return CUDA_SUCCESS;
}

/* x, y, result; sums are made in double */
CUresult softgpu_blas_dot_ex(const struct softgpu_blas_work *w)
{
	struct vector x = vector(w, 0), y = vector(w, 1);
	bool conjugate = w->routine == &vcuda_blas_routines[VCUDA_BLAS_DotcEx];
	double complex sum = 0;
	union piece a, b;

	for (int64_t at = 0; at < x.n; at += PIECE) {
		int64_t n = length(&x, at);

		get(&x, at, &a);
		get(&y, at, &b);
#define MULTIPLY(m, T)                                                                                                 \
	for (int64_t i = 0; i < n; i++)                                                                                \
	sum += (conjugate ? conj((double complex)a.m[i]) : (double complex)a.m[i]) * (double complex)b.m[i]
		FOR_TYPE(x.wide, MULTIPLY)
	}
#define GIVE(m, T) a.m[0] = (T)sum
	FOR_TYPE(x.wide, GIVE)
	memset(w->result, 0, VCUDA_BLAS_VALUE_WORDS * sizeof(*w->result));
	softgpu_blas_narrow(x.wide, &a, 1, w->o[2].type, w->result, 1);
	return CUDA_SUCCESS;
}

/* x, result; the squares of doubles are within what a long double can be. */
CUresult softgpu_blas_nrm2_ex(const struct softgpu_blas_work *w)
{
	struct vector x = vector(w, 0);
	unsigned int real = vcuda_blas_real(x.wide);
	long double sum = 0;
	union piece a;

	for (int64_t at = 0; at < x.n; at += PIECE) {
		int64_t n = length(&x, at);

		get(&x, at, &a);
#define SQUARE(m, T)                                                                                                   \
	for (int64_t i = 0; i < n; i++)                                                                                \
	sum += (long double)creal(a.m[i]) * creal(a.m[i]) + (long double)cimag(a.m[i]) * cimag(a.m[i])
		FOR_TYPE(x.wide, SQUARE)
	}
	if (real == VCUDA_BLAS_R_32F)
		a.s[0] = (float)sqrtl(sum);
	else
		a.d[0] = (double)sqrtl(sum);
	memset(w->result, 0, VCUDA_BLAS_VALUE_WORDS * sizeof(*w->result));
	softgpu_blas_narrow(real, &a, 1, w->o[1].type, w->result, 1);
	return CUDA_SUCCESS;
}

/* alpha, x */
CUresult softgpu_blas_scal_ex(const struct softgpu_blas_work *w)
{
	struct vector x = vector(w, 1);
	double complex alpha = scalar(w, 0);
	union piece a;

	for (int64_t at = 0; at < x.n; at += PIECE) {
		int64_t n = length(&x, at);

		get(&x, at, &a);
#define SCALE(m, T)                                                                                                    \
	for (int64_t i = 0; i < n; i++)                                                                                \
	a.m[i] *= (T)alpha
		FOR_TYPE(x.wide, SCALE)
		put(&x, at, &a);
	}
	return CUDA_SUCCESS;
}

/* x, y, c, s */
CUresult softgpu_blas_rot_ex(const struct softgpu_blas_work *w)
{
	struct vector x = vector(w, 0), y = vector(w, 1);
	double complex c = scalar(w, 2), s = scalar(w, 3);
	union piece a, b;

	for (int64_t at = 0; at < x.n; at += PIECE) {
		int64_t n = length(&x, at);

		get(&x, at, &a);
		get(&y, at, &b);
#define TURN(m, T)                                                                                                     \
	for (int64_t i = 0; i < n; i++) {                                                                              \
		T old = a.m[i];                                                                                        \
                                                                                                                       \
		a.m[i] = (T)c * old + (T)s * b.m[i];                                                                   \
		b.m[i] = (T)c * b.m[i] - (T)conj(s) * old;                                                             \
	}
		FOR_TYPE(x.wide, TURN)
		put(&x, at, &a);
		put(&y, at, &b);
	}
	return CUDA_SUCCESS;
}
