/* SPDX-License-Identifier: Apache-2.0 */
/* Products, with and without an epilogue. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas-lt.h"
#include "protocol/cuda-functions.h"

#define WORKSPACE (4 << 20)

/* Scalars, A and B, C and D, and the type of computation. */
struct types {
	char scalar, from, to;
	int compute;
};

static const struct types types[] = {{'S', 'S', 'S', 68}, {'S', 'S', 'S', 77}, {'D', 'D', 'D', 70},
				     {'C', 'C', 'C', 68}, {'Z', 'Z', 'Z', 70}, {'S', 'H', 'H', 68},
				     {'S', 'T', 'T', 68}, {'S', 'H', 'S', 68}, {'S', 'T', 'S', 68},
				     {'H', 'H', 'H', 64}, {'I', 'B', 'I', 72}, {'S', 'B', 'B', 72}};

struct product {
	const struct types *t;
	int ta, tb, epilogue, pointer_mode;
	int64_t m, n, k, batch;
	struct lt_matrix a, b, c, d, aux, bias;
	uint64_t vector; /* of alpha */
	cplx alpha, beta, alphas[512];
	bool in_place;
	const void *alpha_at, *beta_at;
	void *desc;
};

static bool is_integer(const struct types *t)
{
	return t->from == 'B';
}

static bool is_bits(int epilogue)
{
	return epilogue & CUBLASLT_EPILOGUE_RELU || (epilogue & CUBLASLT_EPILOGUE_DRELU) == CUBLASLT_EPILOGUE_DRELU;
}

static bool is_backward(int epilogue)
{
	return (epilogue & CUBLASLT_EPILOGUE_DRELU) == CUBLASLT_EPILOGUE_DRELU ||
	       (epilogue & CUBLASLT_EPILOGUE_DGELU) == CUBLASLT_EPILOGUE_DGELU;
}

/* ---- plain C ---- */

static double gelu(double x)
{
	return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
	double t = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));

	return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

static cplx sum_of(const struct product *p, int64_t which, int64_t i, int64_t j)
{
	cplx sum = 0;

	for (int64_t l = 0; l < p->k; l++)
		sum += lt_op(&p->a, p->ta, which, i, l) * lt_op(&p->b, p->tb, which, l, j);
	return sum;
}

/* The auxiliary matrix of bits is one of bytes here. */
static double mask_bit(const struct product *p, int64_t which, int64_t i, int64_t j)
{
	int64_t bit = j * p->aux.ld * 8 + i;

	return (int)creal(p->aux.now[which * p->aux.stride + bit / 8]) >> bit % 8 & 1;
}

static void set_mask_bit(struct product *p, int64_t which, int64_t i, int64_t j, bool value)
{
	int64_t bit = j * p->aux.ld * 8 + i;
	cplx *byte = &p->aux.now[which * p->aux.stride + bit / 8];
	int old = (int)creal(*byte), with = old | 1 << bit % 8, without = old & ~(1 << bit % 8);

	*byte = (int8_t)(value ? with : without);
}

static cplx finish(struct product *p, int64_t which, int64_t i, int64_t j, cplx v)
{
	int e = p->epilogue;

	if (e & CUBLASLT_EPILOGUE_BIAS)
		v += *lt_at(&p->bias, which, i, 0);
	if (is_backward(e)) {
		v *= is_bits(e) ? mask_bit(p, which, i, j) : gelu_slope(creal(*lt_at(&p->aux, which, i, j)));
		if (e & 16)
			*lt_at(&p->bias, which, i, 0) += v;
		return v;
	}
	if (e & 128 && is_bits(e))
		set_mask_bit(p, which, i, j, !(creal(v) < 0));
	else if (e & 128)
		*lt_at(&p->aux, which, i, j) = v;
	if (p->t->to == 'B')
		v = fmin(fmax(creal(v), -128), 127);
	return e & CUBLASLT_EPILOGUE_RELU ? fmax(creal(v), 0) : e & CUBLASLT_EPILOGUE_GELU ? gelu(creal(v)) : v;
}

static void gradient_of_operands(struct product *p, int64_t which)
{
	for (int64_t i = 0; i < p->bias.rows && p->epilogue >= CUBLASLT_EPILOGUE_BGRADA; i++)
		for (int64_t l = 0; l < p->k; l++)
			*lt_at(&p->bias, which, i, 0) += p->epilogue == CUBLASLT_EPILOGUE_BGRADA
								 ? lt_op(&p->a, p->ta, which, i, l)
								 : lt_op(&p->b, p->tb, which, l, i);
}

static void compute(struct product *p)
{
	for (int64_t which = 0; which < p->batch; which++) {
		bool gradient = p->epilogue & 16 || p->epilogue >= CUBLASLT_EPILOGUE_BGRADA;

		for (int64_t i = 0; i < p->bias.rows && gradient; i++)
			*lt_at(&p->bias, which, i, 0) = 0;
		gradient_of_operands(p, which);
		for (int64_t j = 0; j < p->n; j++)
			for (int64_t i = 0; i < p->m; i++) {
				cplx alpha = p->pointer_mode > 1 ? p->alphas[i] : p->alpha;
				cplx old = p->beta ? p->beta * *lt_at(&p->c, which, i, j) : 0;

				*lt_at(&p->d, which, i, j) =
					finish(p, which, i, j, alpha * sum_of(p, which, i, j) + old);
			}
	}
}

/* ---- a product ---- */

static int64_t size(const struct types *t, int64_t most)
{
	return is_integer(t) ? 4 * (1 + random_below(most / 4)) : 1 + random_below(most);
}

static void set_vector(struct product *p)
{
	float numbers[512];
	CUdeviceptr address;

	for (int64_t i = 0; i < p->m; i++)
		p->alphas[i] = numbers[i] = (float)creal(random_number());
	CHECK(!cuMemAlloc_v2(&address, sizeof(numbers)) && !cuMemcpyHtoD_v2(address, numbers, sizeof(numbers)));
	p->vector = address;
	p->alpha_at = (void *)(uintptr_t)address;
	if (p->pointer_mode == CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO)
		p->beta = 0;
}

static void set_scalars(struct product *p)
{
	const struct element *before = now.e;
	bool device = now.device_scalars;

	now.e = element_of(p->t->scalar);
	p->alpha = p->t->scalar == 'I' ? (double)random_below(3) : random_scalar();
	p->beta = p->t->scalar == 'I' ? (double)random_below(3) : random_scalar();
	if (p->t->to == 'B') { /* so that it stays small */
		p->alpha = 0x1p-9;
		p->beta = p->beta == 1 ? 0.5 : 0;
	}
	/* NVIDIA's kernel for a product with a vector ends at once for 0 and 1, and leaves another D than C as it was. */
	if (lt_may_lack() && !p->in_place && p->alpha == 0 && p->beta == 1)
		p->alpha = 1;
	p->alpha_at = lt_scalar(p->alpha);
	if (p->pointer_mode > 1) {
		set_vector(p);
		now.device_scalars = false;
	}
	p->beta_at = lt_scalar(p->beta);
	now.device_scalars = device;
	now.e = before;
}

static void set_epilogue(struct product *p)
{
	int64_t length = p->epilogue == CUBLASLT_EPILOGUE_BGRADB ? p->n : p->m;

	if (p->epilogue & (CUBLASLT_EPILOGUE_BIAS | 16 | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB)) {
		p->bias = lt_matrix_new(p->t->to == 'B' ? 'S' : p->t->to, false, length, 1, p->batch);
		lt_set_desc(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, (int64_t)p->bias.address);
		lt_set_desc(p->desc, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, p->bias.stride);
	}
	if (p->epilogue & 128) {
		/* Bytes of 8 rows each. */
		p->aux = is_bits(p->epilogue) ? lt_matrix_new('B', false, (p->m + 127) / 128 * 16, p->n, p->batch)
					      : lt_matrix_new(p->t->to, false, p->m, p->n, p->batch);
		lt_set_desc(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, (int64_t)p->aux.address);
		lt_set_desc(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p->aux.ld * (is_bits(p->epilogue) ? 8 : 1));
		lt_set_desc(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE,
			    p->aux.stride * (is_bits(p->epilogue) ? 8 : 1));
	}
	lt_set_desc(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, p->epilogue);
}

static struct product product_new(const struct types *t, int epilogue, bool orders)
{
	int64_t most = epilogue == CUBLASLT_EPILOGUE_DEFAULT && !random_below(5) ? 300 : 40;
	struct product p = {.t = t, .epilogue = epilogue, .ta = (int)random_below(3), .tb = (int)random_below(3)};
	bool rows = orders && random_below(2);

	if (orders && element_of(t->from)->is_complex) /* no conjugate of what is stored otherwise */
		p.ta = p.tb = 0;
	p.m = size(t, most);
	p.n = size(t, most);
	p.k = size(t, most);
	p.batch = random_below(2) ? 1 : 1 + random_below(4);
	p.pointer_mode = now.device_scalars;
	if (t->scalar == 'S' && !is_integer(t) && !rows && !random_below(6))
		p.pointer_mode = CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO + (int)random_below(2);
	if (p.pointer_mode == CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO && p.batch > 1)
		p.batch = 1;
	p.a = lt_matrix_new(t->from, orders && random_below(2), p.ta ? p.k : p.m, p.ta ? p.m : p.k, p.batch);
	p.b = lt_matrix_new(t->from, orders && random_below(2), p.tb ? p.n : p.k, p.tb ? p.k : p.n, p.batch);
	p.d = lt_matrix_new(t->to, rows, p.m, p.n, p.batch);
	p.in_place = random_below(2);
	p.c = p.in_place ? p.d : lt_matrix_new(t->to, rows, p.m, p.n, p.batch);
	CHECK(!lt.MatmulDescCreate(&p.desc, t->compute, element_of(t->scalar)->type));
	lt_set_desc(p.desc, CUBLASLT_MATMUL_DESC_TRANSA, p.ta);
	lt_set_desc(p.desc, CUBLASLT_MATMUL_DESC_TRANSB, p.tb);
	lt_set_desc(p.desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, p.pointer_mode);
	set_scalars(&p);
	set_epilogue(&p);
	return p;
}

/* By the algorithm that the heuristic gives, or by none. 15: there is none such. */
static int call(const struct product *p)
{
	static CUdeviceptr workspace;
	cublasLtMatmulHeuristicResult_t found[4];
	size_t bytes = random_below(2) ? WORKSPACE : 0;
	bool chosen = random_below(3);
	void *preference;
	int given = 0, status = 0;

	CHECK(workspace || !cuMemAlloc_v2(&workspace, WORKSPACE));
	if (chosen) {
		CHECK(!lt.MatmulPreferenceCreate(&preference));
		CHECK(!lt.MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
						       sizeof(bytes)));
		status = lt.MatmulAlgoGetHeuristic(lt_handle, p->desc, p->a.layout, p->b.layout, p->c.layout,
						   p->d.layout, preference, 1 + (int)random_below(4), found, &given);
		CHECK(status || (given >= 1 && !found[0].state));
		/* NVIDIA's wants some for the gradient of a bias where it may have none, and does without. */
		CHECK(status || lt_may_lack() || found[0].workspaceSize <= bytes);
		CHECK(!lt.MatmulPreferenceDestroy(preference));
	}
	if (status)
		return status;
	return lt.Matmul(lt_handle, p->desc, p->alpha_at, p->a.address, p->a.layout, p->b.address, p->b.layout,
			 p->beta_at, p->c.address, p->c.layout, p->d.address, p->d.layout,
			 chosen ? &found[0].algo : NULL, workspace, bytes, lt_stream);
}

/* Bits outside of all rows may have any value. */
static void forget_padding(struct product *p)
{
	cplx *there = lt_read(&p->aux);

	for (int64_t i = 0; i < p->aux.length; i++) {
		int64_t in_one = p->aux.stride ? i % p->aux.stride : i, row = in_one % p->aux.ld * 8,
			column = in_one / p->aux.ld;
		int good = column >= p->n || row >= p->m ? 0 : p->m - row >= 8 ? 255 : (1 << (p->m - row)) - 1;

		p->aux.now[i] = (int8_t)(((int)creal(p->aux.now[i]) & good) | ((int)creal(there[i]) & ~good));
	}
	free(there);
}

/* How large the sums are, and what more the functions of an epilogue may be off by. */
static void check(struct product *p)
{
	bool smooth = p->epilogue & (CUBLASLT_EPILOGUE_GELU | 64);
	/* Sums in half precision (CUBLAS_COMPUTE_16F) are off by half of a last place in each step. */
	double scale = is_integer(p->t) ? 0 : 4 + (double)p->k / (p->t->compute == 64 ? 1 : 4),
	       error = smooth ? blas_is_software() ? 1e-5 : 4e-3 : 0;

	/* Half of a last place may go either way. */
	lt_check(&p->d, scale, p->t->to == 'B' ? 1 : error, "the product");
	if (!p->in_place)
		lt_check(&p->c, 0, 0, "C");
	if (p->bias.layout)
		lt_check(&p->bias, scale + (p->epilogue & 16 ? 4 * (double)p->n : 0), error, "the bias");
	if (p->aux.layout && is_bits(p->epilogue) && lt_may_lack())
		forget_padding(p);
	if (p->aux.layout)
		lt_check(&p->aux, scale, 0, "the auxiliary matrix");
}

static void product_free(struct product *p)
{
	lt_matrix_free(&p->a);
	lt_matrix_free(&p->b);
	lt_matrix_free(&p->d);
	if (!p->in_place)
		lt_matrix_free(&p->c);
	if (p->bias.layout)
		lt_matrix_free(&p->bias);
	if (p->aux.layout)
		lt_matrix_free(&p->aux);
	if (p->vector)
		CHECK(!cuMemFree_v2(p->vector));
	CHECK(!lt.MatmulDescDestroy(p->desc));
}

static void product(const struct types *t, int epilogue, bool orders)
{
	struct product p = product_new(t, epilogue, orders);
	int status;

	CHECK(!cuCtxSynchronize());
	status = lt_status(call(&p));
	if (status && lt_may_lack()) {
		fprintf(stderr, "not there: %c %c %c, epilogue %d, op %d %d, orders %d %d %d, batch %d: %d\n",
			t->scalar, t->from, t->to, epilogue, p.ta, p.tb, p.a.by_rows, p.b.by_rows, p.d.by_rows,
			(int)p.batch, status);
	} else {
		CHECK(!status);
		compute(&p);
		check(&p);
	}
	product_free(&p);
}

static bool is_turn_of(char scalar)
{
	return scalar == now.e->letter || (now.e->letter == 'S' && strchr("HI", scalar));
}

void test_lt_products(void)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (is_turn_of(types[i].scalar))
			product(&types[i], CUBLASLT_EPILOGUE_DEFAULT, random_below(2));
}

void test_lt_epilogues(void)
{
	static const int epilogues[] = {
		CUBLASLT_EPILOGUE_RELU,        CUBLASLT_EPILOGUE_RELU_AUX,      CUBLASLT_EPILOGUE_BIAS,
		CUBLASLT_EPILOGUE_RELU_BIAS,   CUBLASLT_EPILOGUE_RELU_AUX_BIAS, CUBLASLT_EPILOGUE_DRELU,
		CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_GELU,          CUBLASLT_EPILOGUE_GELU_AUX,
		CUBLASLT_EPILOGUE_GELU_BIAS,   CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU,
		CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,        CUBLASLT_EPILOGUE_BGRADB};

	if (now.e->letter != 'S')
		return;
	for (size_t i = 0; i < sizeof(epilogues) / sizeof(epilogues[0]); i++) {
		const struct types *t = &types[random_below(sizeof(types) / sizeof(types[0]))];

		if (t->scalar == 'S' || t->scalar == 'H')
			if (!is_integer(t) || epilogues[i] == CUBLASLT_EPILOGUE_BIAS ||
			    epilogues[i] == CUBLASLT_EPILOGUE_RELU_BIAS)
				product(t, epilogues[i], false);
	}
}
