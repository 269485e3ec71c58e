/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Factorisations of small matrices, and solutions with them. Pivots are indices. A program may change the pivots in its
 * memory while they are used, and numbers may be NaN, so pivots are found and kept here.
 */
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "math/blas-call.h"
#include "math/blas-library.h"

#define PANEL 32

static float magnitude_s(float x)
{
	return fabsf(x);
}

static double magnitude_d(double x)
{
	return fabs(x);
}

static float magnitude_c(float complex x)
{
	return fabsf(crealf(x)) + fabsf(cimagf(x));
}

static double magnitude_z(double complex x)
{
	return fabs(creal(x)) + fabs(cimag(x));
}

/*
 * largest: of a column, from a row on.
 * eliminate: a column below the diagonal, within the panel up to column `end`; false: the pivot is 0.
 */
#define PIVOTS(s, T)                                                                                                   \
	static int64_t largest_##s(const void *a, int64_t ld, int64_t n, int64_t j)                                    \
	{                                                                                                              \
		const T *column = (const T *)a + j * ld;                                                               \
		int64_t best = j;                                                                                      \
                                                                                                                       \
		for (int64_t i = j + 1; i < n; i++)                                                                    \
			if (magnitude_##s(column[i]) > magnitude_##s(column[best]))                                    \
				best = i;                                                                              \
		return best;                                                                                           \
	}                                                                                                              \
                                                                                                                       \
	static bool eliminate_##s(void *a, int64_t ld, int64_t n, int64_t j, int64_t end)                              \
	{                                                                                                              \
		T *column = (T *)a + j * ld, pivot = column[j];                                                        \
                                                                                                                       \
		if (pivot == 0)                                                                                        \
			return false;                                                                                  \
		for (int64_t i = j + 1; i < n; i++)                                                                    \
			column[i] /= pivot;                                                                            \
		for (int64_t l = j + 1; l < end; l++) {                                                                \
			T *other = (T *)a + l * ld, by = other[j];                                                     \
                                                                                                                       \
			for (int64_t i = j + 1; i < n; i++)                                                            \
				other[i] -= column[i] * by;                                                            \
		}                                                                                                      \
		return true;                                                                                           \
	}                                                                                                              \
                                                                                                                       \
	static bool is_zero_##s(const void *a, int64_t i)                                                              \
	{                                                                                                              \
		return ((const T *)a)[i] == 0;                                                                         \
	}

PIVOTS(s, float)
PIVOTS(d, double)
PIVOTS(c, float complex)
PIVOTS(z, double complex)

struct pivots {
	int64_t (*largest)(const void *a, int64_t ld, int64_t n, int64_t j);
	bool (*eliminate)(void *a, int64_t ld, int64_t n, int64_t j, int64_t end);
	bool (*is_zero)(const void *a, int64_t i);
};

static const struct pivots *pivots_of(unsigned int type)
{
	static const struct pivots s = {largest_s, eliminate_s, is_zero_s}, d = {largest_d, eliminate_d, is_zero_d},
				   c = {largest_c, eliminate_c, is_zero_c}, z = {largest_z, eliminate_z, is_zero_z};

	return type == VCUDA_BLAS_R_32F ? &s : type == VCUDA_BLAS_R_64F ? &d : type == VCUDA_BLAS_C_32F ? &c : &z;
}

/* A square matrix that is, or becomes, L U. */
struct square {
	unsigned int type, size;
	int64_t n, ld;
	char *a;
	int *pivots; /* the row that took the place of each row, from 0 on; NULL: no pivoting */
};

static char *at(const struct square *m, int64_t i, int64_t j)
{
	return m->a + (j * m->ld + i) * m->size;
}

static struct square square(const struct softgpu_blas_work *w, const struct vcuda_blas_operand *o)
{
	return (struct square){.type = w->routine->read,
			       .size = vcuda_blas_bytes(w->routine->read),
			       .n = o->rows,
			       .ld = o->step,
			       .a = (char *)(uintptr_t)o->address};
}

static void swap_rows(char *b, int64_t ld, unsigned int size, int64_t columns, int64_t i, int64_t j)
{
	char kept[16];

	for (int64_t l = 0; l < columns && i != j; l++, b += ld * size) {
		memcpy(kept, b + i * size, size);
		memcpy(b + i * size, b + j * size, size);
		memcpy(b + j * size, kept, size);
	}
}

static const void *number(unsigned int type, bool negative)
{
	static const float s[2][2] = {{1, 0}, {-1, 0}};
	static const double d[2][2] = {{1, 0}, {-1, 0}};

	return vcuda_blas_real(type) == VCUDA_BLAS_R_32F ? (const void *)s[negative] : d[negative];
}

/* Gives the first pivot that is 0, from 1 on; 0: none is. */
static int factor(const struct square *m)
{
	const struct pivots *p = pivots_of(m->type);
	int singular = 0;

	for (int64_t from = 0; from < m->n; from += PANEL) {
		int64_t end = from + PANEL < m->n ? from + PANEL : m->n, rest = m->n - end;

		for (int64_t j = from; j < end; j++) {
			if (m->pivots) {
				m->pivots[j] = (int)p->largest(m->a, m->ld, m->n, j);
				swap_rows(m->a, m->ld, m->size, m->n, j, m->pivots[j]);
			}
			if (!p->eliminate(m->a, m->ld, m->n, j, end) && !singular)
				singular = (int)j + 1;
		}
		if (!rest)
			break;
		softgpu_trsm(m->type, 0, 0, 0, 1, end - from, rest, number(m->type, false), at(m, from, from), m->ld,
			     at(m, from, end), m->ld);
		softgpu_gemm(m->type, 0, 0, rest, rest, end - from, number(m->type, true), at(m, end, from), m->ld,
			     at(m, from, end), m->ld, number(m->type, false), at(m, end, end), m->ld);
	}
	return singular;
}

/* op(L U) X = B */
static void solve(const struct square *m, int op, char *b, int64_t ldb, int64_t columns)
{
	const void *one = number(m->type, false);

	for (int64_t i = 0; i < m->n && m->pivots && !op; i++)
		swap_rows(b, ldb, m->size, columns, i, m->pivots[i]);
	/* Lower with ones, then upper; or the other way round. */
	for (int step = 0; step < 2; step++) {
		int upper = op ? !step : step;

		softgpu_trsm(m->type, 0, upper, op, !upper, m->n, columns, one, m->a, m->ld, b, ldb);
	}
	for (int64_t i = m->n - 1; i >= 0 && m->pivots && op; i--)
		swap_rows(b, ldb, m->size, columns, i, m->pivots[i]);
}

static void invert(const struct square *m, char *to, int64_t ld)
{
	for (int64_t j = 0; j < m->n; j++) {
		memset(to + j * ld * m->size, 0, (size_t)(m->n * m->size));
		memcpy(to + (j * ld + j) * m->size, number(m->type, false), m->size);
	}
	solve(m, 0, to, ld, m->n);
}

/* Pivots in device memory count from 1. */
static CUresult take_pivots(struct square *m, const struct vcuda_blas_operand *o)
{
	const int *from = (const int *)(uintptr_t)o->address;

	if (!from || !m->n)
		return CUDA_SUCCESS;
	m->pivots = malloc((size_t)m->n * sizeof(int));
	if (!m->pivots)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (int64_t i = 0; i < m->n; i++) {
		int pivot = __atomic_load_n(&from[i], __ATOMIC_RELAXED);

		m->pivots[i] = pivot - 1;
		if (pivot >= 1 && pivot <= m->n)
			continue;
		free(m->pivots);
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	}
	return CUDA_SUCCESS;
}

static void put_info(const struct vcuda_blas_operand *o, int info)
{
	if (o->address)
		*(int *)(uintptr_t)o->address = info;
}

/* A, P, info */
CUresult softgpu_blas_getrf(const struct softgpu_blas_work *w)
{
	struct square m = square(w, &w->o[0]);
	int *to = (int *)(uintptr_t)w->o[1].address;

	if (to && m.n) {
		m.pivots = malloc((size_t)m.n * sizeof(int));
		if (!m.pivots)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	put_info(&w->o[2], factor(&m));
	for (int64_t i = 0; i < m.n && m.pivots; i++)
		to[i] = m.pivots[i] + 1;
	free(m.pivots);
	return CUDA_SUCCESS;
}

/* trans; A, P, B */
CUresult softgpu_blas_getrs(const struct softgpu_blas_work *w)
{
	struct square m = square(w, &w->o[0]);
	CUresult result = take_pivots(&m, &w->o[1]);

	if (result != CUDA_SUCCESS)
		return result;
	solve(&m, (int)w->words[0], (char *)(uintptr_t)w->o[2].address, w->o[2].step, w->o[2].columns);
	free(m.pivots);
	return CUDA_SUCCESS;
}

/* A, P, C, info */
CUresult softgpu_blas_getri(const struct softgpu_blas_work *w)
{
	struct square m = square(w, &w->o[0]);
	CUresult result = take_pivots(&m, &w->o[1]);
	int singular = 0;

	if (result != CUDA_SUCCESS)
		return result;
	for (int64_t i = 0; i < m.n && !singular; i++)
		if (pivots_of(m.type)->is_zero(m.a, i * m.ld + i))
			singular = (int)i + 1;
	if (!singular)
		invert(&m, (char *)(uintptr_t)w->o[2].address, w->o[2].step);
	put_info(&w->o[3], singular);
	free(m.pivots);
	return CUDA_SUCCESS;
}

/* A, its inverse, info; of at most 32 rows */
CUresult softgpu_blas_matinv(const struct softgpu_blas_work *w)
{
	double complex room[32 * 32];
	int pivots[32], singular;
	struct square from = square(w, &w->o[0]), m = from;

	m.a = (char *)room;
	m.ld = 32;
	m.pivots = pivots;
	for (int64_t j = 0; j < m.n; j++)
		memcpy(at(&m, 0, j), at(&from, 0, j), (size_t)(m.n * m.size));
	singular = factor(&m);
	if (!singular)
		invert(&m, (char *)(uintptr_t)w->o[1].address, w->o[1].step);
	put_info(&w->o[2], singular);
	return CUDA_SUCCESS;
}

/* ---- Q R ---- */

/* The size of LAPACK's work array for so many columns: blocks of 32 columns, unless the columns are long. */
static int64_t room_for(int64_t columns, unsigned int size)
{
	return columns * size > 1 << 20 ? columns : 32 * columns + 65 * 64;
}

/* A, tau */
CUresult softgpu_blas_geqrf(const struct softgpu_blas_work *w)
{
	const struct vcuda_blas_operand *a = &w->o[0];
	unsigned int size = vcuda_blas_bytes(w->routine->read);
	int64_t numbers = room_for(a->columns, size);
	void *room;

	if (!a->rows || !a->columns)
		return CUDA_SUCCESS;
	room = malloc((size_t)numbers * size);
	if (!room)
		return CUDA_ERROR_OUT_OF_MEMORY;
	softgpu_geqrf(w->routine->read, a->rows, a->columns, (void *)(uintptr_t)a->address, a->step,
		      (void *)(uintptr_t)w->o[1].address, room, numbers);
	free(room);
	return CUDA_SUCCESS;
}

/* A, C, info: the least squares, in the first rows of C, of a matrix that has no fewer rows than columns */
CUresult softgpu_blas_gels(const struct softgpu_blas_work *w)
{
	const struct vcuda_blas_operand *a = &w->o[0], *c = &w->o[1];
	unsigned int type = w->routine->read, size = vcuda_blas_bytes(type);
	int64_t columns = a->columns > c->columns ? a->columns : c->columns, numbers = room_for(columns, size);
	struct square r = square(w, a);
	int singular = 0;
	char *room;

	if (!a->rows || !a->columns) {
		put_info(&w->o[2], 0);
		return CUDA_SUCCESS;
	}
	room = malloc((size_t)(numbers + a->columns) * size);
	if (!room)
		return CUDA_ERROR_OUT_OF_MEMORY;
	softgpu_geqrf(type, a->rows, a->columns, r.a, a->step, room + numbers * size, room, numbers);
	for (int64_t i = 0; i < a->columns && !singular; i++)
		if (pivots_of(type)->is_zero(r.a, i * r.ld + i))
			singular = (int)i + 1;
	if (!singular && c->columns) {
		void *b = (void *)(uintptr_t)c->address;

		softgpu_ormqr(type, 1, a->rows, c->columns, a->columns, r.a, a->step, room + numbers * size, b, c->step,
			      room, numbers);
		softgpu_trsm(type, 0, 1, 0, 0, a->columns, c->columns, number(type, false), r.a, a->step, b, c->step);
	}
	put_info(&w->o[2], singular);
	free(room);
	return CUDA_SUCCESS;
}
