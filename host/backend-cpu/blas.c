/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAS: operations of streams, as kernels are. When one may start, the scalars that lie in device memory are read and
 * the operands are looked for in the table of memory; a stray one ends the context, as a kernel's access would.
 * Products of matrices are cut into tiles, which depend on the shape and the device's number of threads only: so do the
 * results.
 */
#include "blas-abi.h"

#include <stdlib.h>
#include <string.h>

#include "blas-call.h"
#include "blas-library.h"
#include "device.h"
#include "log.h"
#include "memory.h"
#include "stream.h"

/* Tiles of a product: not smaller, so that little is copied twice; and a multiple of what the processors like. */
#define LEAST_TILE 128

/* The words of gemm, as blas.api has them. */
enum {
	GEMM_TRANSA,
	GEMM_TRANSB,
	GEMM_M,
	GEMM_N,
	GEMM_K,
	GEMM_A = 7,
	GEMM_LDA,
	GEMM_B,
	GEMM_LDB,
	GEMM_C = 13,
	GEMM_LDC
};

/* What cuBLAS of the same age as the driver says. */
#define VERSION 130100

struct blas {
	struct cpu_op op;
	const struct vcuda_blas_routine *routine;
	void (*function)(void);
	uint32_t number, flags;
	bool is_gemm;
	uint64_t rows, columns; /* of a tile; 0: it is not cut */
	uint64_t *value;        /* of the caller that waits, or NULL */
	uint64_t result[VCUDA_BLAS_VALUE_WORDS];
	uint64_t words[VCUDA_BLAS_MAX_WORDS];
};

static bool fail(const struct blas *b, CUresult error, uint64_t address)
{
	if (cpu_context_fail(b->op.stream->context, error))
		cpu_log("%s: %s access to memory from 0x%llx on", b->routine->name,
			error == CUDA_ERROR_MISALIGNED_ADDRESS ? "misaligned" : "illegal", (unsigned long long)address);
	return false;
}

/* Whether all of it is memory that lies in one piece; several allocations may make it up. */
static bool is_memory(uint64_t address, uint64_t bytes, bool write)
{
	while (bytes) {
		const struct cpu_range *range = cpu_range_find(address, 1);
		uint64_t here;

		if (!range || range->kind == CPU_ARRAY_MEMORY || (write && !range->kernel_writes))
			return false;
		here = range->start + range->size - address;
		if (here >= bytes)
			return true;
		address += here;
		bytes -= here;
	}
	return true;
}

static bool check(const struct blas *b, uint64_t address, uint64_t elements, uint64_t size, bool write)
{
	uint64_t bytes;

	if (!elements)
		return true;
	if (address % (size < 8 ? size : 8))
		return fail(b, CUDA_ERROR_MISALIGNED_ADDRESS, address);
	if (__builtin_mul_overflow(elements, size, &bytes) || !is_memory(address, bytes, write))
		return fail(b, CUDA_ERROR_ILLEGAL_ADDRESS, address);
	return true;
}

static size_t result_bytes(const struct blas *b)
{
	bool wide = b->routine->family->gives_index && b->flags & VCUDA_BLAS_WIDE;

	return wide ? sizeof(int64_t) : b->routine->result;
}

static bool is_zero(const uint64_t *word, unsigned int bytes, bool is_double)
{
	const float *f = (const float *)word;
	const double *d = (const double *)word;

	if (is_double)
		return d[0] == 0 && (bytes == sizeof(double) || d[1] == 0);
	return f[0] == 0 && (bytes == sizeof(float) || f[1] == 0);
}

/* Reads what lies in device memory: the scalars. */
static bool fetch_scalars(struct blas *b)
{
	const struct vcuda_blas_family *f = b->routine->family;

	for (unsigned int i = 0; i < f->scalar_count && b->flags & VCUDA_BLAS_DEVICE; i++) {
		uint64_t *word = &b->words[f->scalars[i]], address = *word;

		if (!check(b, address, 1, b->routine->scalars[i], false))
			return false;
		word[0] = word[1] = 0;
		memcpy(word, (const void *)(uintptr_t)address, b->routine->scalars[i]);
	}
	return true;
}

static bool start(struct cpu_op *op)
{
	struct blas *b = (struct blas *)op;
	const struct vcuda_blas_family *f = b->routine->family;
	struct vcuda_blas_operand operands[VCUDA_BLAS_MAX_OPERANDS];
	unsigned int count = f->operands(b->words, operands);
	bool skips;

	if (!fetch_scalars(b))
		return false;
	skips = f->has_alpha && is_zero(&b->words[f->scalars[0]], b->routine->scalars[0], b->routine->is_double);
	for (unsigned int i = 0; i < count; i++) {
		const struct vcuda_blas_operand *o = &operands[i];

		if ((o->written || !skips) && !check(b, o->address, o->elements, b->routine->element, o->written))
			return false;
	}
	/* What was not looked at is not read either; kernels of small products would. */
	if (skips && b->is_gemm) {
		b->words[GEMM_K] = 0;
		b->words[GEMM_A] = b->words[GEMM_B] = b->words[GEMM_C];
	}
	return f->result < 0 || !(b->flags & VCUDA_BLAS_DEVICE) ||
	       check(b, b->words[f->result], 1, result_bytes(b), true);
}

static void run(struct cpu_op *op, uint64_t unit, uint64_t count)
{
	struct blas *b = (struct blas *)op;
	int8_t result = b->routine->family->result;

	cpu_blas_calls[b->number].call(b->function, b->words, b->result);
	if (result >= 0 && b->flags & VCUDA_BLAS_DEVICE)
		memcpy((void *)(uintptr_t)b->words[result], b->result, result_bytes(b));
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void run_tile(struct cpu_op *op, uint64_t unit, uint64_t count)
{
	struct blas *b = (struct blas *)op;
	uint64_t words[VCUDA_BLAS_MAX_WORDS], size = b->routine->element;
	uint64_t down = (b->words[GEMM_M] + b->rows - 1) / b->rows;
	uint64_t row = unit % down * b->rows, column = unit / down * b->columns;

	if (__atomic_load_n(&op->stream->context->cancel, __ATOMIC_RELAXED)) {
		cpu_op_abandon(op);
		return;
	}
	memcpy(words, b->words, sizeof(words));
	words[GEMM_M] = least(b->rows, words[GEMM_M] - row);
	words[GEMM_N] = least(b->columns, words[GEMM_N] - column);
	words[GEMM_A] += row * size * (words[GEMM_TRANSA] ? words[GEMM_LDA] : 1);
	words[GEMM_B] += column * size * (words[GEMM_TRANSB] ? 1 : words[GEMM_LDB]);
	words[GEMM_C] += (column * words[GEMM_LDC] + row) * size;
	cpu_blas_calls[b->number].call(b->function, words, NULL);
}

/* Halves the longer side until there is a tile for each thread, and a few more: they do not all end at once. */
static void cut(struct blas *b)
{
	uint64_t m = b->words[GEMM_M], n = b->words[GEMM_N], rows = m, columns = n, wanted = cpu_device()->threads;

	while (rows && columns && ((m + rows - 1) / rows) * ((n + columns - 1) / columns) < wanted) {
		uint64_t *side = rows > columns ? &rows : &columns;

		if (*side < 2 * LEAST_TILE)
			break;
		*side = (*side / 2 + 63) / 64 * 64;
	}
	if (rows == m && columns == n)
		return;
	b->rows = rows;
	b->columns = columns;
	b->op.units = ((m + rows - 1) / rows) * ((n + columns - 1) / columns);
	b->op.run = run_tile;
}

static void finish(struct cpu_op *op)
{
	struct blas *b = (struct blas *)op;

	if (b->value)
		memcpy(b->value, b->result, sizeof(b->result));
	free(b);
}

/* CBLAS counts in ints. */
static bool fits(const struct vcuda_blas_family *f, const uint64_t *words)
{
	for (unsigned int i = 0; i < f->size_count; i++) {
		int64_t size = (int64_t)words[f->sizes[i]];

		if (size > INT32_MAX || size < -INT32_MAX)
			return false;
	}
	return true;
}

/*
 * OpenBLAS copies vectors whose elements lie apart to a buffer of its own, in routines of level 2, and those of rank-1
 * updates always; nowhere does it look whether they fit, and the smallest buffer that it is built with has 32 MiB.
 */
#define MOST_COPIED (16u << 20)

static bool copies_too_much(const struct vcuda_blas_routine *routine, const uint64_t *words)
{
	struct vcuda_blas_operand operands[VCUDA_BLAS_MAX_OPERANDS];
	unsigned int count = routine->family->operands(words, operands), vectors = 0;
	bool updates = false;
	uint64_t copied = 0;

	for (unsigned int i = 0; i < count; i++) {
		vectors += operands[i].vector != 0;
		updates |= operands[i].written && !operands[i].vector;
	}
	for (unsigned int i = 0; i < count && vectors < count; i++)
		if (operands[i].apart || updates)
			copied += operands[i].vector; /* each less than 2^31, after fits() */
	return copied > MOST_COPIED / routine->element;
}

static struct blas *make(uint32_t number, uint32_t flags, const uint64_t *words, uint64_t *value)
{
	const struct vcuda_blas_routine *routine = &vcuda_blas_routines[number];
	struct blas *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->op.units = 1;
	b->op.start = start;
	b->op.run = run;
	b->op.finish = finish;
	b->routine = routine;
	b->function = cpu_blas_function(number);
	b->number = number;
	b->flags = flags;
	b->value = value;
	memcpy(b->words, words, routine->family->words * sizeof(*words));
	b->is_gemm = !strcmp(routine->family->name, "gemm");
	if (b->is_gemm)
		cut(b);
	return b;
}

CUresult cpu_blas(CUstream handle, uint32_t number, uint32_t flags, void *words, void *value)
{
	struct CUstream_st *stream;
	struct CUctx_st *c;
	struct blas *b;
	CUresult result = cpu_blas_open();

	if (result != CUDA_SUCCESS)
		return result;
	if (number == VCUDA_BLAS_OPEN) {
		*(uint64_t *)value = VERSION;
		return CUDA_SUCCESS;
	}
	if (!fits(vcuda_blas_routines[number].family, words) || !cpu_blas_function(number))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (copies_too_much(&vcuda_blas_routines[number], words)) {
		cpu_log("%s: its vectors are longer than OpenBLAS can copy; with increments of 1 it may work",
			vcuda_blas_routines[number].name);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	result = cpu_enter(&c);
	if (result != CUDA_SUCCESS)
		return result;
	stream = cpu_stream_find(c, handle);
	if (!stream)
		return cpu_leave(CUDA_ERROR_INVALID_HANDLE);
	b = make(number, flags, words, value);
	if (!b)
		return cpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	cpu_submit(stream, &b->op, value);
	return cpu_leave(value ? cpu_stream_wait(stream) : CUDA_SUCCESS);
}
