/* SPDX-License-Identifier: Apache-2.0 */
/* Products and vectors whose types are arguments. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas-matrix.h"
#include "protocol/cuda-functions.h"

#define MOST 70
#define MOST_LONG 300 /* more than one block */

/* Scalars, A and B, C, and types of computation: cublasComputeType_t's. */
struct types {
	char scalar, from, to;
	int compute[3];
};

static const struct types products[] = {
	{'H', 'H', 'H', {64, 65, 64}}, {'I', 'B', 'I', {72, 73, 72}}, {'S', 'T', 'T', {68, 69, 68}},
	{'S', 'H', 'H', {68, 69, 68}}, {'S', 'B', 'S', {68, 69, 68}}, {'S', 'T', 'S', {68, 69, 68}},
	{'S', 'H', 'S', {68, 69, 68}}, {'S', 'S', 'S', {68, 69, 77}}, {'C', 'E', 'C', {68, 69, 68}},
	{'C', 'C', 'C', {68, 69, 77}}, {'D', 'D', 'D', {70, 71, 70}}, {'Z', 'Z', 'Z', {70, 71, 70}},
};

enum form { EX, EX_STRIDED, EX_POINTERS, TYPED, OF_HALVES, OF_HALVES_STRIDED, OF_HALVES_POINTERS, FORMS };

struct product {
	const struct types *t;
	int ta, tb;
	int64_t m, n, k, stride_a, stride_b, stride_c;
	struct matrix a, b, c;
	cplx alpha, beta;
	const void *alpha_at, *beta_at;
};

static cplx sum_of(const struct product *p, int64_t i, int64_t j)
{
	cplx sum = 0;

	for (int64_t l = 0; l < p->k; l++)
		sum += matrix_op(&p->a, p->ta, i, l) * matrix_op(&p->b, p->tb, l, j);
	return sum;
}

/* Integers' sizes and leading dimensions are multiples of 4: so NVIDIA's library wants it. */
static struct matrix general(int64_t m, int64_t n)
{
	struct matrix a = matrix_new(DENSE, GENERAL, m, n, 0, 0);

	if (a.ld % 4 == 0)
		return a;
	operand_free(&a.o);
	a.ld = (a.ld + 3) / 4 * 4;
	a.o = operand_new(a.ld * n + 4);
	return a;
}

static struct product product_new(const struct types *t, int64_t most)
{
	struct product p = {.t = t, .ta = (int)random_below(3), .tb = (int)random_below(3)};

	/* NVIDIA's kernels for more rows of integers are none that a software GPU can take. */
	p.m = random_below(strchr("BE", t->from) ? 8 : most / 4) * 4;
	p.n = random_below(most / 4) * 4;
	p.k = random_below(most / 4) * 4;
	now.e = element_of(t->from);
	p.a = general(p.ta ? p.k : p.m, p.ta ? p.m : p.k);
	p.b = general(p.tb ? p.n : p.k, p.tb ? p.k : p.n);
	now.e = element_of(t->to);
	p.c = general(p.m, p.n);
	now.e = element_of(t->scalar);
	p.alpha = t->scalar == 'I' ? (double)random_below(3) : random_scalar();
	p.beta = t->scalar == 'I' ? (double)random_below(3) : random_scalar();
	p.alpha_at = scalar(p.alpha);
	p.beta_at = scalar(p.beta);
	for (int64_t j = 0; j < p.n; j++)
		for (int64_t i = 0; i < p.m; i++)
			p.c.o.now[j * p.c.ld + i] = p.alpha * sum_of(&p, i, j) + p.beta * matrix_get(&p.c, i, j);
	return p;
}

static int call(const struct product *p, enum form form)
{
	int type_a = p->a.o.e->type, type_c = p->c.o.e->type, compute = p->t->compute[random_below(3)];
	uint64_t a = p->a.o.address, b = p->b.o.address, c = p->c.o.address;
	void *h = blas_handle;

	/* A batch of one: blas-batches.c has more of them. */
	if (form == EX_POINTERS || form == OF_HALVES_POINTERS) {
		a = address_array(&a, 1);
		b = address_array(&b, 1);
		c = address_array(&c, 1);
	}
	switch (form) {
	case EX:
		return ((int (*)(void *, int, int, int64_t, int64_t, int64_t, const void *, uint64_t, int, int64_t,
				 uint64_t, int, int64_t, const void *, uint64_t, int, int64_t, int,
				 int))blas_function("=GemmEx"))(h, p->ta, p->tb, p->m, p->n, p->k, p->alpha_at, a,
								type_a, p->a.ld, b, type_a, p->b.ld, p->beta_at, c,
								type_c, p->c.ld, compute, -1);
	case EX_STRIDED:
		return ((int (*)(void *, int, int, int64_t, int64_t, int64_t, const void *, uint64_t, int, int64_t,
				 int64_t, uint64_t, int, int64_t, int64_t, const void *, uint64_t, int, int64_t,
				 int64_t, int64_t, int, int))blas_function("=GemmStridedBatchedEx"))(
			h, p->ta, p->tb, p->m, p->n, p->k, p->alpha_at, a, type_a, p->a.ld, 0, b, type_a, p->b.ld, 0,
			p->beta_at, c, type_c, p->c.ld, 0, 1, compute, -1);
	case EX_POINTERS:
		return ((int (*)(void *, int, int, int64_t, int64_t, int64_t, const void *, uint64_t, int, int64_t,
				 uint64_t, int, int64_t, const void *, uint64_t, int, int64_t, int64_t, int,
				 int))blas_function("=GemmBatchedEx"))(h, p->ta, p->tb, p->m, p->n, p->k, p->alpha_at,
								       a, type_a, p->a.ld, b, type_a, p->b.ld,
								       p->beta_at, c, type_c, p->c.ld, 1, compute, -1);
	case TYPED:
		return ((int (*)(void *, int, int, int64_t, int64_t, int64_t, const void *, uint64_t, int, int64_t,
				 uint64_t, int, int64_t, const void *, uint64_t, int,
				 int64_t))blas_function("=*gemmEx"))(h, p->ta, p->tb, p->m, p->n, p->k, p->alpha_at, a,
								     type_a, p->a.ld, b, type_a, p->b.ld, p->beta_at, c,
								     type_c, p->c.ld);
	case OF_HALVES_STRIDED:
		return ((int (*)(void *, int, int, int64_t, int64_t, int64_t, const void *, uint64_t, int64_t, int64_t,
				 uint64_t, int64_t, int64_t, const void *, uint64_t, int64_t, int64_t,
				 int64_t))blas_function("=HgemmStridedBatched"))(h, p->ta, p->tb, p->m, p->n, p->k,
										 p->alpha_at, a, p->a.ld, 0, b, p->b.ld,
										 0, p->beta_at, c, p->c.ld, 0, 1);
	case OF_HALVES_POINTERS:
		return ((int (*)(void *, int, int, int64_t, int64_t, int64_t, const void *, uint64_t, int64_t, uint64_t,
				 int64_t, const void *, uint64_t, int64_t, int64_t))blas_function("=HgemmBatched"))(
			h, p->ta, p->tb, p->m, p->n, p->k, p->alpha_at, a, p->a.ld, b, p->b.ld, p->beta_at, c, p->c.ld,
			1);
	default:
		return ((int (*)(void *, int, int, int64_t, int64_t, int64_t, const void *, uint64_t, int64_t, uint64_t,
				 int64_t, const void *, uint64_t, int64_t))blas_function("=Hgemm"))(
			h, p->ta, p->tb, p->m, p->n, p->k, p->alpha_at, a, p->a.ld, b, p->b.ld, p->beta_at, c, p->c.ld);
	}
}

/*
 * How close is close. Sums of integers are large. Those that are kept in halves are rounded with each of their terms:
 * an H100's library was off by 0.0716 after 296 of them, which is what adding them one after the other in halves gives.
 */
static double scale_of(const struct product *p)
{
	const struct types *t = p->t;

	if (t->from == 'B' || t->from == 'E')
		return 1e4;
	return t->scalar == 'H' && p->k > MOST ? (double)p->k : 60;
}

static void product(const struct types *t, enum form form, int64_t most)
{
	const struct element *before = now.e;
	struct product p = product_new(t, most);
	int status = call(&p, form);

	/* A GPU's library has not all of them in batches: it says so, or through us the stream does. */
	if (form >= EX_STRIDED && !blas_is_software() &&
	    (status == 15 || (!status && cuCtxSynchronize() == CUDA_ERROR_NOT_SUPPORTED))) {
		fprintf(stderr, "not there: form %d of %c to %c\n", form, t->from, t->to);
	} else {
		CHECK(!status);
		operand_check(&p.c.o, scale_of(&p), "gemmEx");
	}
	operand_free(&p.a.o);
	operand_free(&p.b.o);
	operand_free(&p.c.o);
	now.e = before;
}

/* C = alpha A A' + beta C, of complex integers of 8 bits or floats. */
static void rank_k(bool hermitian, char from, int64_t most)
{
	int (*f)(void *, int, int, int64_t, int64_t, const void *, uint64_t, int, int64_t, const void *, uint64_t, int,
		 int64_t) = blas_function(hermitian ? "=CherkEx" : "=CsyrkEx");
	/* sizes as NVIDIA's library wants them of integers */
	int64_t n = random_below(most / 4) * 4, k = random_below(most / 4) * 4;
	int other = hermitian ? 2 : 1, op = random_below(2) ? other : 0, status;
	const struct element *before = now.e;
	struct matrix a, c;
	cplx alpha, beta;

	now.e = element_of(from);
	a = general(op ? k : n, op ? n : k);
	now.e = before;
	c = matrix_new(DENSE, hermitian ? HERMITIAN : SYMMETRIC, n, n, 0, 0);
	alpha = hermitian ? creal(random_scalar()) : random_scalar();
	beta = hermitian ? creal(random_scalar()) : random_scalar();
	for (int64_t i = 0; i < n && hermitian; i++)
		c.o.now[i * c.ld + i] = creal(c.o.now[i * c.ld + i]);
	operand_write(&c.o);
	for (int64_t j = 0; j < n; j++)
		for (int64_t i = 0; i < n; i++) {
			int64_t index = matrix_index(&c, i, j);
			cplx sum = 0;

			for (int64_t l = 0; l < k && index >= 0; l++)
				sum += matrix_op(&a, op, i, l) * matrix_op(&a, other - op, l, j);
			if (index >= 0)
				c.o.now[index] = alpha * sum + (beta == 0 ? 0 : beta * matrix_get(&c, i, j));
		}
	status = f(blas_handle, c.uplo, op, n, k, hermitian ? real_scalar(creal(alpha)) : scalar(alpha), a.o.address,
		   a.o.e->type, a.ld, hermitian ? real_scalar(creal(beta)) : scalar(beta), c.o.address, c.o.e->type,
		   c.ld);
	/* NVIDIA's library has no kernel for some leading dimensions of integers, and says so. */
	if (from == 'E' && status == 15 && blas_may_lack()) {
		fprintf(stderr, "not there: rank %d of %d with ld %d\n", (int)k, (int)n, (int)a.ld);
	} else {
		CHECK(!status);
		operand_check(&c.o, from == 'E' ? 1e4 : 60, "syrkEx, herkEx");
	}
	operand_free(&a.o);
	operand_free(&c.o);
}

/* Undocumented combinations are refused; NVIDIA's library has no forms by three products for these. */
static void rank_k_refused(void)
{
	static const char *const names[] = {"=CsyrkEx", "=CherkEx", "=Csyrk3mEx", "=Cherk3mEx"};
	const void *one = scalar(1);
	void *h = blas_handle;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int (*f)(void *, int, int, int64_t, int64_t, const void *, uint64_t, int, int64_t, const void *,
			 uint64_t, int, int64_t) = blas_function(names[i]);

		CHECK(f(h, 0, 0, 4, 4, one, 512, element_of('Z')->type, 4, one, 512, element_of('Z')->type, 4) == 15);
		CHECK(i > 1 ||
		      f(h, 0, 0, -4, 4, one, 512, element_of('C')->type, 4, one, 512, element_of('C')->type, 4) == 7);
	}
}

/* ---- vectors ---- */

/* Types: of the vectors, of scalars, of results, of norms, and of the computation. */
struct vectors {
	char type, scalar, result, norm, in;
};

static const struct vectors vectors[] = {{'H', 'S', 'H', 'H', 'S'}, {'T', 'S', 'T', 'T', 'S'},
					 {'S', 'S', 'S', 'S', 'S'}, {'D', 'D', 'D', 'D', 'D'},
					 {'C', 'C', 'C', 'S', 'C'}, {'Z', 'Z', 'Z', 'D', 'Z'}};

struct pair {
	int64_t n, incx, incy;
	struct operand x, y;
	int type, scalar, in;
};

static struct pair pair_new(const struct vectors *v)
{
	struct pair p = {.n = random_below(700), .incx = random_below(2) ? 1 : -2, .incy = 1 + random_below(3)};

	now.e = element_of(v->type);
	p.x = vector_new(p.n, p.incx);
	p.y = vector_new(p.n, p.incy);
	p.type = now.e->type;
	p.in = element_of(v->in)->type;
	now.e = element_of(v->scalar);
	p.scalar = now.e->type;
	return p;
}

#define X(p, i) (p).x.now[at(i, (p).n, (p).incx)]
#define Y(p, i) (p).y.now[at(i, (p).n, (p).incy)]

static void pair_end(struct pair *p, const char *what)
{
	operand_check(&p->x, 4, what);
	operand_check(&p->y, 4, what);
	operand_free(&p->x);
	operand_free(&p->y);
}

static void axpy_and_scal(const struct vectors *v)
{
	int (*axpy)(void *, int64_t, const void *, int, uint64_t, int, int64_t, uint64_t, int, int64_t, int) =
		blas_function("=AxpyEx");
	int (*scal)(void *, int64_t, const void *, int, uint64_t, int, int64_t, int) = blas_function("=ScalEx");
	struct pair p = pair_new(v);
	cplx alpha = random_scalar(), by = random_number();

	for (int64_t i = 0; i < p.n; i++)
		Y(p, i) = by * (Y(p, i) + alpha * X(p, i));
	CHECK(!axpy(blas_handle, p.n, scalar(alpha), p.scalar, p.x.address, p.type, p.incx, p.y.address, p.type, p.incy,
		    p.in));
	CHECK(!scal(blas_handle, p.n, scalar(by), p.scalar, p.y.address, p.type, p.incy, p.in));
	pair_end(&p, "axpyEx, scalEx");
}

static void rotate(const struct vectors *v)
{
	int (*f)(void *, int64_t, uint64_t, int, int64_t, uint64_t, int, int64_t, const void *, const void *, int,
		 int) = blas_function("=RotEx");
	struct pair p = pair_new(v);
	cplx c, s;

	now.e = element_of(v->type);
	c = creal(random_number());
	s = random_number();
	for (int64_t i = 0; i < p.n; i++) {
		cplx x = X(p, i), y = Y(p, i);

		X(p, i) = c * x + s * y;
		Y(p, i) = c * y - conj(s) * x;
	}
	CHECK(!f(blas_handle, p.n, p.x.address, p.type, p.incx, p.y.address, p.type, p.incy, scalar(c), scalar(s),
		 p.type, p.in));
	pair_end(&p, "rotEx");
}

static void reduce(const struct vectors *v)
{
	int (*dot)(void *, int64_t, uint64_t, int, int64_t, uint64_t, int, int64_t, void *, int, int);
	int (*norm)(void *, int64_t, uint64_t, int, int64_t, void *, int, int) = blas_function("=Nrm2Ex");
	struct pair p = pair_new(v);
	bool conjugate = random_below(2);
	cplx sum = 0, squares = 0, size = 0;
	const struct element *real = element_of(v->norm);
	int in = element_of(v->in)->is_complex ? real->type : p.in;

	for (int64_t i = 0; i < p.n; i++) {
		sum += (conjugate ? conj(X(p, i)) : X(p, i)) * Y(p, i);
		squares += Y(p, i) * conj(Y(p, i));
		size += cabs(X(p, i) * Y(p, i));
	}
	dot = blas_function(conjugate ? "=DotcEx" : "=DotEx");
	now.e = element_of(v->result);
	CHECK(!dot(blas_handle, p.n, p.x.address, p.type, p.incx, p.y.address, p.type, p.incy, result_room(),
		   now.e->type, p.in));
	CHECK(number_is_close(now.e, result_value(false), sum, creal(size)));
	now.e = real;
	CHECK(!norm(blas_handle, p.n, p.y.address, p.type, p.incy, result_room(), real->type, in));
	CHECK(number_is_close(real, result_value(false), csqrt(squares), 2));
	pair_end(&p, "dotEx, nrm2Ex");
}

static bool is_turn_of(char scalar)
{
	return scalar == now.e->letter || (now.e->letter == 'S' && strchr("HTI", scalar));
}

void test_types(void)
{
	for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
		const struct types *t = &products[i];
		int64_t most = random_below(4) ? MOST : MOST_LONG;

		if (!is_turn_of(t->scalar))
			continue;
		product(t, (enum form)random_below(TYPED), most);
		if (t->scalar == 'S' || t->scalar == 'C')
			product(t, TYPED, most);
		if (t->scalar == 'H')
			product(t, OF_HALVES + (int)random_below(3), most);
	}
	if (now.e->letter == 'C') {
		for (int i = 0; i < 4; i++)
			rank_k(i % 2, i / 2 ? 'E' : 'C', random_below(4) ? MOST : MOST_LONG);
		if (blas_is_software())
			rank_k_refused();
	}
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		const struct element *before = now.e;

		if (!is_turn_of(vectors[i].type))
			continue;
		axpy_and_scal(&vectors[i]);
		rotate(&vectors[i]);
		reduce(&vectors[i]);
		now.e = before;
	}
}
