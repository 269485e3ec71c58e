/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLASLt: a matrix that is scaled, transposed, added to another, and stored in another order or type. */
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/blas-abi.h"
#include "math/blas-convert.h"
#include "math/blas-product.h"
#include "common/log.h"
#include "protocol/matmul-abi.h"
#include "device/memory.h"
#include "device/stream.h"

#define TILE SOFTGPU_PRODUCT_BLOCK

/* A matrix, as op() has it. */
struct source {
	const struct vcuda_matmul_layout *l;
	uint64_t address;
	int op;
	uint64_t scale[2];
};

struct transform {
	struct softgpu_op op;
	vcuda_transform t;
	unsigned int value; /* the type that is computed in */
	uint64_t down, tiles;
};

/* ---- memory; with the lock held ---- */

static bool fail(const struct transform *f, CUresult error, uint64_t address)
{
	if (softgpu_context_fail(f->op.stream->context, error))
		vcuda_log("cublasLtMatrixTransform: %s access to memory from 0x%llx on",
			  error == CUDA_ERROR_MISALIGNED_ADDRESS ? "misaligned" : "illegal",
			  (unsigned long long)address);
	return false;
}

static bool find(const struct transform *f, uint64_t address, uint64_t elements, uint64_t size, bool write)
{
	uint64_t bytes;

	if (address % (size < 8 ? size : 8))
		return fail(f, CUDA_ERROR_MISALIGNED_ADDRESS, address);
	if (__builtin_mul_overflow(elements, size, &bytes) || !softgpu_is_memory(address, bytes, write))
		return fail(f, CUDA_ERROR_ILLEGAL_ADDRESS, address);
	return true;
}

static bool find_matrix(const struct transform *f, const struct vcuda_matmul_layout *l, uint64_t address, bool write)
{
	uint64_t runs = l->order == CUBLASLT_ORDER_COL ? l->columns : l->rows;
	uint64_t length = l->order == CUBLASLT_ORDER_COL ? l->rows : l->columns;
	uint64_t elements, all;

	/* Each is less than 2^40, and a batch's count than 2^31. */
	if (__builtin_mul_overflow(runs - 1, (uint64_t)l->ld, &elements) ||
	    __builtin_mul_overflow((uint64_t)l->batch - 1, (uint64_t)l->stride, &all) ||
	    __builtin_add_overflow(elements, length, &elements) || __builtin_add_overflow(elements, all, &elements))
		elements = UINT64_MAX;
	return find(f, address, elements, vcuda_blas_bytes(l->type), write);
}

static bool fetch(const struct transform *f, uint64_t *words)
{
	unsigned int size = vcuda_blas_bytes((unsigned int)f->t.desc.scale);
	uint64_t address = words[0];

	if (f->t.desc.pointer_mode == CUBLASLT_POINTER_MODE_HOST)
		return true;
	if (!find(f, address, 1, size, false))
		return false;
	words[0] = words[1] = 0;
	memcpy(words, (const void *)(uintptr_t)address, size);
	return true;
}

static bool start(struct softgpu_op *op)
{
	struct transform *f = (struct transform *)op;

	return fetch(f, f->t.alpha) && (!f->t.at_b || fetch(f, f->t.beta)) &&
	       find_matrix(f, &f->t.a, f->t.at_a, false) && (!f->t.at_b || find_matrix(f, &f->t.b, f->t.at_b, false)) &&
	       find_matrix(f, &f->t.c, f->t.at_c, true);
}

/* ---- a tile ---- */

/* The address of an element of op(A), and the number of elements from one row to the next. */
static char *locate(const struct vcuda_matmul_layout *l, uint64_t address, int op, uint64_t which, int64_t row,
		    int64_t column, int64_t *step)
{
	bool down = (l->order == CUBLASLT_ORDER_COL) != (op != 0); /* rows follow one another */
	int64_t element = (int64_t)which * l->stride + (down ? column * l->ld + row : row * l->ld + column);

	*step = down ? 1 : l->ld;
	return (char *)(uintptr_t)(address + (uint64_t)element * vcuda_blas_bytes(l->type));
}

#define ADD(T, sum, numbers, n, factor)                                                                                \
	do {                                                                                                           \
		T *to = (T *)(void *)(sum);                                                                            \
		const T *each = (const T *)(const void *)(numbers), by = *(const T *)(const void *)(factor);           \
                                                                                                                       \
		for (int64_t i = 0; i < (n); i++)                                                                      \
			to[i] += by * each[i];                                                                         \
	} while (0)

static void add(const struct transform *f, const struct source *s, uint64_t which, int64_t row, int64_t column,
		int64_t n, double complex *sum)
{
	double complex numbers[TILE], factor = 0;
	int64_t step;
	const char *from = locate(s->l, s->address, s->op, which, row, column, &step);

	softgpu_blas_widen(s->l->type, from, step, n, f->value, numbers);
	softgpu_blas_widen((unsigned int)f->t.desc.scale, s->scale, 0, 1, f->value, &factor);
	for (int64_t i = 0; i < n && s->op == 2; i++) {
		if (f->value == VCUDA_BLAS_C_32F)
			((float complex *)numbers)[i] = conjf(((float complex *)numbers)[i]);
		else if (f->value == VCUDA_BLAS_C_64F)
			numbers[i] = conj(numbers[i]);
	}
	if (f->value == VCUDA_BLAS_R_32F)
		ADD(float, sum, numbers, n, &factor);
	else if (f->value == VCUDA_BLAS_R_64F)
		ADD(double, sum, numbers, n, &factor);
	else if (f->value == VCUDA_BLAS_C_32F)
		ADD(float complex, sum, numbers, n, &factor);
	else
		ADD(double complex, sum, numbers, n, &factor);
}

/* Towards zero, as NVIDIA's kernels have it here and nowhere else. */
static void truncate_all(float *v, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		v[i] = truncf(v[i]);
}

static void run_tile(const struct transform *f, uint64_t which, int64_t row, int64_t column)
{
	const vcuda_transform *t = &f->t;
	struct source a = {&t->a, t->at_a, t->desc.trans_a, {t->alpha[0], t->alpha[1]}};
	struct source b = {&t->b, t->at_b, t->desc.trans_b, {t->beta[0], t->beta[1]}};
	int64_t rows = (int64_t)t->c.rows - row, columns = (int64_t)t->c.columns - column, step;
	double complex sum[TILE];

	rows = rows < TILE ? rows : TILE;
	columns = columns < TILE ? columns : TILE;
	for (int64_t j = column; j < column + columns; j++) {
		char *to = locate(&t->c, t->at_c, 0, which, row, j, &step);

		memset(sum, 0, sizeof(sum));
		add(f, &a, which, row, j, rows, sum);
		if (t->at_b)
			add(f, &b, which, row, j, rows, sum);
		if (t->c.type == VCUDA_BLAS_R_8I || t->c.type == VCUDA_BLAS_R_32I)
			truncate_all((float *)(void *)sum, rows);
		softgpu_blas_narrow(f->value, sum, rows, t->c.type, to, step);
	}
}

static void run(struct softgpu_op *op, uint64_t unit, uint64_t count)
{
	struct transform *f = (struct transform *)op;

	for (; count--; unit++) {
		uint64_t tile = unit % f->tiles;

		if (__atomic_load_n(&op->stream->context->cancel, __ATOMIC_RELAXED)) {
			softgpu_op_abandon(op);
			return;
		}
		run_tile(f, unit / f->tiles, (int64_t)(tile % f->down * TILE), (int64_t)(tile / f->down * TILE));
	}
}

static void finish(struct softgpu_op *op)
{
	free(op);
}

/* ---- the operation ---- */

static bool is_scale(int32_t type)
{
	return type == VCUDA_BLAS_R_16F || type == VCUDA_BLAS_R_32F || type == VCUDA_BLAS_R_64F ||
	       type == VCUDA_BLAS_C_32F || type == VCUDA_BLAS_C_64F;
}

static bool goes(uint32_t type, unsigned int value)
{
	switch (value) {
	case VCUDA_BLAS_R_32F:
		return type == VCUDA_BLAS_R_8I || type == VCUDA_BLAS_R_32I || softgpu_product_wide(type) == value;
	case VCUDA_BLAS_R_64F:
		return type == VCUDA_BLAS_R_64F || type == VCUDA_BLAS_R_32F;
	case VCUDA_BLAS_C_32F:
		return type == VCUDA_BLAS_C_32F;
	case VCUDA_BLAS_C_64F:
		return type == VCUDA_BLAS_C_64F || type == VCUDA_BLAS_C_32F;
	default:
		return false;
	}
}

static bool is_possible(const struct vcuda_matmul_layout *l, unsigned int value)
{
	return l->order <= CUBLASLT_ORDER_ROW && l->batch_mode == CUBLASLT_BATCH_MODE_STRIDED && !l->plane &&
	       goes(l->type, value);
}

CUresult softgpu_transform(CUstream handle, void *transform)
{
	const vcuda_transform *t = transform;
	unsigned int value = softgpu_product_wide((unsigned int)t->desc.scale);
	struct transform *f;

	if (!is_scale((int32_t)t->desc.scale) || !is_possible(&t->a, value) ||
	    (t->at_b && !is_possible(&t->b, value)) || !is_possible(&t->c, value))
		return CUDA_ERROR_NOT_SUPPORTED;
	f = calloc(1, sizeof(*f));
	if (!f)
		return CUDA_ERROR_OUT_OF_MEMORY;
	f->t = *t;
	f->value = value;
	f->down = (t->c.rows + TILE - 1) / TILE;
	f->tiles = f->down * ((t->c.columns + TILE - 1) / TILE);
	f->op.units = f->tiles * (uint64_t)t->c.batch;
	f->op.chunk = 1;
	f->op.start = start;
	f->op.run = run;
	f->op.finish = finish;
	return softgpu_stream_submit(handle, &f->op);
}
