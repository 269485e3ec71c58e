/* SPDX-License-Identifier: Apache-2.0 */
/* A tile of a product: sums, scalars, epilogue, stores. */
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "math/blas-convert.h"
#include "math/blas-product.h"
#include "device/context.h"
#include "math/matmul-epilogue.h"
#include "math/matmul.h"

#define BLOCK SOFTGPU_PRODUCT_BLOCK

/*
 * A matrix that is read or written an element at a time. The address and steps of an unread matrix are unchecked: no
 * pointer is formed from them.
 */
struct place {
	uint64_t address, row, column; /* bytes from one row, or column, to the next */
	unsigned int type;
};

struct tile {
	struct softgpu_product p; /* first */
	const struct softgpu_matmul *m;
	int64_t row, column; /* begin of the tile */
	struct place c, d;
	struct softgpu_epilogue e;
	char *gradient; /* of the bias, or NULL */
	double sums[BLOCK];
	float largest;
	double complex alpha[BLOCK], beta[BLOCK]; /* numbers of `value`, packed */
};

static struct place place(const struct softgpu_matmul *m, const struct vcuda_matmul_layout *l, uint64_t address,
			  uint64_t which)
{
	uint64_t size = vcuda_blas_bytes(l->type), step = (uint64_t)l->ld * size;
	bool along = (l->order == CUBLASLT_ORDER_ROW) == m->turned;

	return (struct place){.address = address + which * (uint64_t)l->stride * size,
			      .row = along ? size : step,
			      .column = along ? step : size,
			      .type = l->type};
}

static char *element(const struct place *p, int64_t row, int64_t column)
{
	return (char *)(uintptr_t)(p->address + (uint64_t)row * p->row + (uint64_t)column * p->column);
}

/* The matrix as stored by columns, and whether it has to be transposed. */
static struct softgpu_stored stored(const struct vcuda_matmul_layout *l, uint64_t address, uint64_t which)
{
	unsigned int size = vcuda_blas_bytes(l->type);

	return (struct softgpu_stored){(char *)(uintptr_t)(address + which * (uint64_t)l->stride * size), l->ld,
				       l->type, size};
}

static int op_of(const struct softgpu_matmul *m, const struct vcuda_matmul_layout *l, int op)
{
	bool turns = (l->order == CUBLASLT_ORDER_ROW) != m->turned;

	if (op == 2 && vcuda_blas_is_complex(l->type))
		return op;
	return (op != 0) ^ turns;
}

/* ---- stores ---- */

/* Sums of products of integers wrap around, as NVIDIA's do. */
static void store_integers(const struct tile *t, const double *sums, char *d, const char *c, int64_t n)
{
	uint32_t alpha = (uint32_t)t->m->m.alpha[0], beta = (uint32_t)t->m->m.beta[0];

	for (int64_t i = 0; i < n; i++) {
		uint32_t old = t->m->skips_c ? 0 : *(const uint32_t *)(const void *)(c + i * (int64_t)t->c.row);

		*(uint32_t *)(void *)(d + i * (int64_t)t->d.row) = alpha * (uint32_t)(int64_t)sums[i] + beta * old;
	}
}

#define SCALE(T, v, old, n, x, y)                                                                                      \
	do {                                                                                                           \
		T *to = (T *)(void *)(v);                                                                              \
		const T *was = (const T *)(const void *)(old), *alpha = (const T *)(const void *)(x),                  \
			*beta = (const T *)(const void *)(y);                                                          \
                                                                                                                       \
		for (int64_t i = 0; i < (n); i++)                                                                      \
			to[i] = was ? alpha[i] * to[i] + beta[i] * was[i] : alpha[i] * to[i];                          \
	} while (0)

static void scale(const struct tile *t, char *v, const char *c, int64_t n)
{
	double complex room[BLOCK];
	const char *old = NULL;
	unsigned int size = vcuda_blas_bytes(t->c.type);

	if (!t->m->skips_c) {
		old = (const char *)room;
		softgpu_blas_widen(t->c.type, c, (int64_t)t->c.row / size, n, t->m->value, room);
	}
	if (t->m->value == VCUDA_BLAS_R_32F)
		SCALE(float, v, old, n, t->alpha, t->beta);
	else if (t->m->value == VCUDA_BLAS_R_64F)
		SCALE(double, v, old, n, t->alpha, t->beta);
	else if (t->m->value == VCUDA_BLAS_C_32F)
		SCALE(float complex, v, old, n, t->alpha, t->beta);
	else
		SCALE(double complex, v, old, n, t->alpha, t->beta);
}

/* Scales of numbers of 8 bits, and the largest before them. */
static void measure(struct tile *t, float *v, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		t->largest = fmaxf(t->largest, fabsf(v[i]));
		v[i] *= t->m->factor_d;
	}
}

/* A column of the tile: converts `v` to the stored values. */
static void store_column(struct tile *t, int64_t row, int64_t column, char *v, int64_t n)
{
	int64_t down = t->row + row, across = t->column + column;
	char *d = element(&t->d, down, across);
	const char *c = element(&t->c, down, across);
	double complex room[BLOCK];

	if (t->m->value == VCUDA_BLAS_R_32I) {
		store_integers(t, (const double *)(const void *)v, d, c, n);
		return;
	}
	if (t->m->wide != t->m->value) {
		softgpu_blas_narrow(t->m->wide, v, n, t->m->value, room, 1);
		v = (char *)room;
	}
	scale(t, v, c, n);
	if (t->m->m.desc.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
		softgpu_epilogue_apply(&t->e, (float *)(void *)v, down, across, n);
	if (vcuda_matmul_is_quarter(t->m->m.a.type))
		measure(t, (float *)(void *)v, n);
	if (t->gradient)
		for (int64_t i = 0; i < n; i++)
			t->sums[i] += ((const float *)(const void *)v)[i];
	softgpu_blas_narrow(t->m->value, v, n, t->d.type, d, (int64_t)t->d.row / vcuda_blas_bytes(t->d.type));
}

/* A tile has no more rows than a block. */
static void store(const struct softgpu_product *p, int64_t row, int64_t column, char *sums, int64_t m, int64_t n)
{
	struct tile *t = (struct tile *)(uintptr_t)p;

	for (int64_t j = 0; j < n; j++)
		store_column(t, row, column + j, sums + j * m * p->wide_size, m);
}

/* ---- a tile ---- */

/* Numbers that a row takes; the same value if there is one row. */
static void spread(const struct tile *t, const uint64_t *words, bool vector, int64_t stride, uint64_t which,
		   float factor, void *to)
{
	unsigned int type = (unsigned int)t->m->m.desc.scale, size = vcuda_blas_bytes(type);
	const char *from = (const char *)words;

	if (vector)
		from = (const char *)(uintptr_t)words[0] + ((int64_t)which * stride + t->row) * size;
	softgpu_blas_widen(type, from, vector, t->p.m, t->m->value, to);
	if (factor != 1)
		for (int64_t i = 0; i < t->p.m; i++)
			((float *)to)[i] *= factor;
}

static void set_epilogue(struct tile *t, uint64_t which)
{
	const struct vcuda_matmul_desc *d = &t->m->m.desc;
	bool bits = d->epilogue & CUBLASLT_EPILOGUE_RELU ||
		    (d->epilogue & CUBLASLT_EPILOGUE_DRELU) == CUBLASLT_EPILOGUE_DRELU;
	uint64_t bias, aux;

	t->e.kind = d->epilogue;
	t->e.across = t->m->turned;
	t->e.bias_type = vcuda_matmul_bias_type(&t->m->m);
	t->e.aux_type = vcuda_matmul_aux_type(&t->m->m);
	t->e.aux_ld = d->aux_ld;
	bias = d->bias + which * (uint64_t)d->bias_stride * vcuda_blas_bytes(t->e.bias_type);
	aux = d->aux + (bits ? which * (uint64_t)d->aux_stride / 8
			     : which * (uint64_t)d->aux_stride * vcuda_blas_bytes(t->e.aux_type));
	t->e.bias = (const char *)(uintptr_t)bias;
	t->e.aux = (char *)(uintptr_t)aux;
	t->gradient = vcuda_matmul_writes_bias(d->epilogue) && vcuda_matmul_reads_aux(d->epilogue)
			      ? (char *)(uintptr_t)bias
			      : NULL;
}

static void set_tile(struct tile *t, const struct softgpu_matmul *m, uint64_t unit)
{
	const vcuda_matmul *p = &m->m;
	uint64_t which = unit / m->tiles, tile = unit % m->tiles;
	const struct vcuda_matmul_layout *a = m->turned ? &p->b : &p->a, *b = m->turned ? &p->a : &p->b;
	int mode = p->desc.pointer_mode;

	*t = (struct tile){.m = m,
			   .row = (int64_t)(tile % m->down) * m->tile_rows,
			   .column = (int64_t)(tile / m->down) * m->tile_columns,
			   .c = place(m, &p->c, p->at_c, which),
			   .d = place(m, &p->d, p->at_d, which)};
	t->p = (struct softgpu_product){.op_a = op_of(m, a, m->turned ? p->desc.trans_b : p->desc.trans_a),
					.op_b = op_of(m, b, m->turned ? p->desc.trans_a : p->desc.trans_b),
					.m = m->rows - t->row < m->tile_rows ? m->rows - t->row : m->tile_rows,
					.n = m->columns - t->column < m->tile_columns ? m->columns - t->column
										      : m->tile_columns,
					.k = m->skips_ab ? 0 : m->k,
					.a = stored(a, m->turned ? p->at_b : p->at_a, which),
					.b = stored(b, m->turned ? p->at_a : p->at_b, which),
					.wide = m->wide,
					.wide_size = vcuda_blas_bytes(m->wide),
					.store = store};
	t->p.a.p = softgpu_stored_at_op(&t->p.a, t->p.op_a, t->row, 0);
	t->p.b.p = softgpu_stored_at_op(&t->p.b, t->p.op_b, 0, t->column);
	if (m->value != VCUDA_BLAS_R_32I) {
		spread(t, p->alpha, m->by_vectors, p->desc.alpha_stride, which, m->factor_ab, t->alpha);
		spread(t, p->beta, mode == CUBLASLT_POINTER_MODE_DEVICE_VECTOR, p->desc.alpha_stride, which,
		       m->factor_c, t->beta);
	}
	set_epilogue(t, which);
}

/* ---- gradients of a bias that are sums of A or B ---- */

/* `n` sums over k of the rows of op(A), or of the columns of op(B), from `first` on. */
static void sum_operand(const struct tile *t, const struct softgpu_stored *s, bool along, int64_t first, int64_t n)
{
	float numbers[BLOCK];
	double sums[BLOCK] = {0};

	for (int64_t l = 0; l < t->m->k; l++) {
		const char *from = s->p + (along ? l * s->ld : l) * (int64_t)s->size;

		softgpu_blas_widen(s->type, from, along ? 1 : s->ld, n, VCUDA_BLAS_R_32F, numbers);
		for (int64_t i = 0; i < n; i++)
			sums[i] += numbers[i];
	}
	for (int64_t i = 0; i < n; i++)
		numbers[i] = (float)sums[i];
	softgpu_blas_narrow(VCUDA_BLAS_R_32F, numbers, n, t->e.bias_type,
			    (char *)(uintptr_t)t->e.bias + first * vcuda_blas_bytes(t->e.bias_type), 1);
}

static void sum_operands(const struct tile *t)
{
	uint32_t kind = t->m->m.desc.epilogue;

	if (kind == CUBLASLT_EPILOGUE_BGRADA && !t->column)
		sum_operand(t, &t->p.a, !t->p.op_a, t->row, t->p.m);
	if (kind == CUBLASLT_EPILOGUE_BGRADB && !t->row)
		sum_operand(t, &t->p.b, t->p.op_b, t->column, t->p.n);
}

/* ---- units ---- */

/* Floats that are not negative are ordered as their bits are. */
static void raise(uint64_t address, float largest)
{
	uint32_t bits, *p = (uint32_t *)(uintptr_t)address, now = __atomic_load_n(p, __ATOMIC_RELAXED);

	memcpy(&bits, &largest, sizeof(bits));
	while (now < bits && !__atomic_compare_exchange_n(p, &now, bits, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void finish_tile(struct tile *t)
{
	float numbers[BLOCK];

	sum_operands(t);
	if (t->m->m.desc.largest_d)
		raise(t->m->m.desc.largest_d, t->largest);
	if (!t->gradient)
		return;
	for (int64_t i = 0; i < t->p.m; i++)
		numbers[i] = (float)t->sums[i];
	softgpu_blas_narrow(VCUDA_BLAS_R_32F, numbers, t->p.m, t->e.bias_type,
			    t->gradient + t->row * vcuda_blas_bytes(t->e.bias_type), 1);
}

void softgpu_matmul_run(struct softgpu_op *op, uint64_t unit, uint64_t count)
{
	struct softgpu_matmul *m = (struct softgpu_matmul *)op;
	struct tile *t = malloc(sizeof(*t));
	char *room = NULL;

	for (; count-- && t; unit++) {
		if (__atomic_load_n(&op->stream->context->cancel, __ATOMIC_RELAXED)) {
			softgpu_op_abandon(op);
			break;
		}
		set_tile(t, m, unit);
		if (!room)
			room = malloc(softgpu_product_room(&t->p));
		if (!room)
			break;
		softgpu_product_multiply(&t->p, room);
		finish_tile(t);
	}
	if (!t || !room) {
		softgpu_lock();
		softgpu_context_fail(op->stream->context, CUDA_ERROR_OUT_OF_MEMORY);
		softgpu_unlock();
	}
	free(room);
	free(t);
}
