/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAS: operations of streams, as kernels are. When one may start, the scalars that lie in device memory are read and
 * the operands are looked for in the table of memory; a stray one ends the context, as a kernel's access would. Where
 * the operands of a batch are told by arrays of addresses, each is looked for when its turn comes.
 * A batch's computations are units of work, and products of matrices are cut into tiles, which depend on the shape and
 * the device's number of threads only: so do the results.
 */
#include "protocol/blas-abi.h"

#include <stdlib.h>
#include <string.h>

#include "math/blas-call.h"
#include "math/blas-convert.h"
#include "math/blas-library.h"
#include "math/blas-padded.h"
#include "device/device.h"
#include "common/log.h"
#include "device/memory.h"
#include "device/stream.h"

/* Tiles of a product: not smaller, so that little is copied twice; and a multiple of what the processors like. */
#define LEAST_TILE 128

/* The version that cuBLAS of the driver's age reports. */
#define VERSION 130100

struct blas {
	struct softgpu_op op;
	const struct vcuda_blas_routine *routine;
	const struct vcuda_blas_family *each; /* of one of the batch */
	void (*function)(void);
	uint32_t number, flags;
	unsigned int count;                  /* of operands */
	uint64_t rows, columns, down, tiles; /* of a product: one tile; tiles in a column, and all tiles */
	uint64_t *value;                     /* of the caller that waits, or NULL */
	uint64_t result[VCUDA_BLAS_VALUE_WORDS];
	uint64_t words[VCUDA_BLAS_MAX_WORDS];
	struct vcuda_blas_operand o[VCUDA_BLAS_MAX_OPERANDS];
};

/* ---- memory; with the lock held ---- */

static bool fail(const struct blas *b, CUresult error, uint64_t address)
{
	if (softgpu_context_fail(b->op.stream->context, error))
		vcuda_log("%s: %s access to memory from 0x%llx on", b->routine->name,
			  error == CUDA_ERROR_MISALIGNED_ADDRESS ? "misaligned" : "illegal",
			  (unsigned long long)address);
	return false;
}

static bool check(const struct blas *b, uint64_t address, uint64_t elements, uint64_t size, bool write)
{
	uint64_t bytes;

	if (!elements)
		return true;
	if (address % (size < 8 ? size : 8))
		return fail(b, CUDA_ERROR_MISALIGNED_ADDRESS, address);
	if (__builtin_mul_overflow(elements, size, &bytes) || !softgpu_is_memory(address, bytes, write))
		return fail(b, CUDA_ERROR_ILLEGAL_ADDRESS, address);
	return true;
}

static size_t result_bytes(const struct blas *b, const struct vcuda_blas_operand *result)
{
	bool wide = b->routine->family->gives_index && b->flags & VCUDA_BLAS_WIDE;

	return wide ? sizeof(int64_t) : vcuda_blas_bytes(result->type);
}

/* Reads a scalar from device memory. */
static bool fetch(struct blas *b, const struct vcuda_blas_operand *o)
{
	uint64_t *words = &b->words[o->word], address = words[0];
	size_t bytes = o->elements * vcuda_blas_bytes(o->type);

	if (!check(b, address, o->elements, vcuda_blas_bytes(o->type), false))
		return false;
	memset(words, 0, bytes > 2 * sizeof(*words) ? bytes : 2 * sizeof(*words));
	memcpy(words, (const void *)(uintptr_t)address, bytes);
	return true;
}

/* Whether an operand is neither read nor written: the scalar that it goes with is 0. */
static bool is_skipped(const struct blas *b, const struct vcuda_blas_operand *o)
{
	return o->unless != VCUDA_BLAS_ALWAYS && softgpu_blas_is_zero(b->o[o->unless].type, &b->words[b->o[o->unless].word]);
}

static bool find_memory(const struct blas *b, const struct vcuda_blas_operand *o)
{
	int64_t batch = b->routine->family->batch < 0 ? 1 : (int64_t)b->words[b->routine->family->batch];

	if (is_skipped(b, o) || (o->optional && !o->address))
		return true;
	if (o->pointers)
		return check(b, o->address, (uint64_t)batch, sizeof(uint64_t), false);
	return check(b, o->address, o->total, vcuda_blas_bytes(o->type), o->written);
}

static bool start(struct softgpu_op *op)
{
	struct blas *b = (struct blas *)op;

	for (unsigned int i = 0; i < b->count; i++)
		if (b->o[i].kind == VCUDA_BLAS_SCALAR && b->flags & VCUDA_BLAS_DEVICE && !fetch(b, &b->o[i]))
			return false;
	for (unsigned int i = 0; i < b->count; i++) {
		const struct vcuda_blas_operand *o = &b->o[i];

		if (o->kind == VCUDA_BLAS_MEMORY && !find_memory(b, o))
			return false;
		if (o->kind == VCUDA_BLAS_RESULT && b->flags & VCUDA_BLAS_DEVICE &&
		    !check(b, b->words[o->word], 1, result_bytes(b, o), true))
			return false;
	}
	return true;
}

/* ---- a computation ---- */

/* The words of one of the batch; the addresses among them are not. */
static void copy_words(const struct blas *b, const uint64_t *from, uint64_t *to)
{
	const struct vcuda_blas_family *f = b->routine->family;

	for (unsigned int i = 0; i < b->each->words; i++)
		to[i] = from[f->base ? f->base_words[i] : i];
}

/* The address of an operand of the batch's member `which`. False: the address is invalid, and the context has ended. */
static bool locate(const struct blas *b, const struct vcuda_blas_operand *o, uint64_t which, uint64_t *address)
{
	bool good;

	if (!o->pointers) {
		*address = o->address ? o->address + which * (uint64_t)o->stride * vcuda_blas_bytes(o->type) : 0;
		return true;
	}
	*address = 0;
	if (is_skipped(b, o))
		return true;
	/* Read once: the program may change it meanwhile. */
	*address = __atomic_load_n((const uint64_t *)(uintptr_t)o->address + which, __ATOMIC_RELAXED);
	softgpu_lock();
	good = check(b, *address, o->elements, vcuda_blas_bytes(o->type), o->written);
	softgpu_unlock();
	return good;
}

static bool prepare(struct blas *b, struct softgpu_blas_work *w, uint64_t unit)
{
	uint64_t tile = unit % b->tiles;

	w->routine = b->routine;
	w->skipped = 0;
	w->result = b->result;
	copy_words(b, b->words, w->words);
	b->each->operands(b->routine, w->words, w->o);
	for (unsigned int i = 0; i < b->count; i++) {
		if (b->o[i].kind != VCUDA_BLAS_MEMORY)
			continue;
		if (!locate(b, &b->o[i], unit / b->tiles, &w->o[i].address))
			return false;
		w->words[w->o[i].word] = w->o[i].address;
		w->skipped |= (uint32_t)is_skipped(b, &b->o[i]) << i;
	}
	w->row = b->down ? tile % b->down * b->rows : 0;
	w->column = b->down ? tile / b->down * b->columns : 0;
	w->rows = b->rows;
	w->columns = b->columns;
	return true;
}

static CUresult compute(struct blas *b, struct softgpu_blas_work *w)
{
	const struct softgpu_blas_call *call = &softgpu_blas_calls[b->number];
	CUresult result;

	if (call->own)
		result = call->own(w);
	else
		result = softgpu_blas_call_padded(call, b->function, w, b->count);
	for (unsigned int i = 0; i < b->count; i++)
		if (b->o[i].kind == VCUDA_BLAS_RESULT && b->flags & VCUDA_BLAS_DEVICE)
			memcpy((void *)(uintptr_t)w->words[w->o[i].word], b->result, result_bytes(b, &b->o[i]));
	return result;
}

static void run(struct softgpu_op *op, uint64_t unit, uint64_t count)
{
	struct blas *b = (struct blas *)op;
	struct softgpu_blas_work w;
	CUresult result;

	for (; count--; unit++) {
		if (__atomic_load_n(&op->stream->context->cancel, __ATOMIC_RELAXED) || !prepare(b, &w, unit)) {
			softgpu_op_abandon(op);
			return;
		}
		result = compute(b, &w);
		if (result == CUDA_SUCCESS)
			continue;
		softgpu_lock();
		if (softgpu_context_fail(op->stream->context, result))
			vcuda_log("%s: failed with %d", b->routine->name, result);
		softgpu_unlock();
	}
}

static void finish(struct softgpu_op *op)
{
	struct blas *b = (struct blas *)op;

	if (b->value)
		memcpy(b->value, b->result, sizeof(b->result));
	free(b);
}

/* ---- the operation ---- */

static bool is_product(const struct blas *b)
{
	return softgpu_blas_calls[b->number].own == softgpu_blas_gemm;
}

/*
 * Halves the longer side of a product until there is a tile for each thread, and a few more: they do not all end at
 * once. The result of a product is its last operand.
 */
static void cut(struct blas *b, uint64_t batch)
{
	uint64_t m = (uint64_t)b->o[b->count - 1].rows, n = (uint64_t)b->o[b->count - 1].columns;
	uint64_t wanted = softgpu_device()->threads, across;

	b->rows = m;
	b->columns = n;
	b->down = across = b->tiles = 1;
	while (b->rows && b->columns && batch * b->tiles < wanted) {
		uint64_t *side = b->rows > b->columns ? &b->rows : &b->columns;

		if (*side < 2 * LEAST_TILE)
			break;
		*side = (*side / 2 + 63) / 64 * 64;
		b->down = (m + b->rows - 1) / b->rows;
		across = (n + b->columns - 1) / b->columns;
		b->tiles = b->down * across;
	}
}

/* CBLAS counts in ints. */
static bool fits(const struct blas *b)
{
	uint64_t words[VCUDA_BLAS_MAX_WORDS];

	copy_words(b, b->words, words);
	for (unsigned int i = 0; i < b->each->size_count; i++) {
		int64_t size = (int64_t)words[b->each->sizes[i]];

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

/* LAPACK makes these of such routines; their vectors are rows and columns. */
static bool is_orthogonal(const struct blas *b)
{
	return softgpu_blas_calls[b->number].own == softgpu_blas_geqrf || softgpu_blas_calls[b->number].own == softgpu_blas_gels;
}

static bool copies_too_much(const struct blas *b)
{
	bool updates = false, has_matrix = false;
	uint64_t copied = 0;

	for (unsigned int i = 0; i < b->count; i++) {
		has_matrix |= b->o[i].kind == VCUDA_BLAS_MEMORY && !b->o[i].vector;
		updates |= b->o[i].kind == VCUDA_BLAS_MEMORY && !b->o[i].vector && b->o[i].written;
	}
	for (unsigned int i = 0; i < b->count && has_matrix; i++) {
		const struct vcuda_blas_operand *o = &b->o[i];

		/* Each is less than 2^35, after fits(). */
		if (o->vector && (o->step != 1 || updates))
			copied += (uint64_t)o->rows * vcuda_blas_bytes(o->type);
		else if (is_orthogonal(b) && o->kind == VCUDA_BLAS_MEMORY)
			copied += (uint64_t)(o->rows + o->columns) * vcuda_blas_bytes(o->type);
	}
	return copied > MOST_COPIED;
}

static CUresult is_possible(const struct blas *b)
{
	if (!fits(b) || (!b->function && !softgpu_blas_calls[b->number].own))
		return CUDA_ERROR_NOT_SUPPORTED;
	if ((softgpu_blas_calls[b->number].own && !is_orthogonal(b)) || !copies_too_much(b))
		return CUDA_SUCCESS;
	vcuda_log("%s: its vectors are longer than OpenBLAS can copy; with increments of 1 it may work",
		  b->routine->name);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Claimed several at a time where there are many. */
static uint64_t chunk(uint64_t units)
{
	uint64_t each = units / (4 * (uint64_t)softgpu_device()->threads);

	return each < 1 ? 1 : each > 64 ? 64 : each;
}

static struct blas *make(uint32_t number, uint32_t flags, const uint64_t *words, uint64_t *value)
{
	const struct vcuda_blas_family *f = vcuda_blas_routines[number].family;
	uint64_t batch = f->batch < 0 ? 1 : words[f->batch];
	struct blas *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->routine = &vcuda_blas_routines[number];
	b->each = f->base ? f->base : f;
	b->function = softgpu_blas_calls[number].own ? NULL : softgpu_blas_function(number);
	b->number = number;
	b->flags = flags;
	b->value = value;
	memcpy(b->words, words, f->words * sizeof(*words));
	b->count = f->operands(b->routine, b->words, b->o);
	b->tiles = 1;
	if (is_product(b))
		cut(b, batch);
	/* cut() leaves a large batch whole; a small batch has few tiles. */
	b->op.units = batch * b->tiles;
	b->op.chunk = chunk(b->op.units);
	b->op.bytes = sizeof(*b);
	b->op.start = start;
	b->op.run = run;
	b->op.finish = finish;
	return b;
}

static CUresult submit(CUstream handle, struct blas *b)
{
	struct CUstream_st *stream;
	struct CUctx_st *c;
	bool waits = b->value;
	CUresult result = softgpu_enter_with(&c, sizeof(*b));

	if (result != CUDA_SUCCESS) {
		free(b);
		return result;
	}
	stream = softgpu_stream_find(c, handle);
	if (!stream || !b->op.units) {
		free(b);
		return softgpu_leave(stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
	}
	softgpu_submit(stream, &b->op, waits);
	return softgpu_leave(waits ? softgpu_stream_wait(stream) : CUDA_SUCCESS);
}

CUresult softgpu_blas(CUstream handle, uint32_t number, uint32_t flags, void *words, void *value)
{
	struct blas *b;
	CUresult result = softgpu_blas_open();

	if (result != CUDA_SUCCESS)
		return result;
	if (number == VCUDA_BLAS_OPEN) {
		*(uint64_t *)value = VERSION;
		return CUDA_SUCCESS;
	}
	b = make(number, flags, words, value);
	if (!b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = is_possible(b);
	if (result == CUDA_SUCCESS)
		return submit(handle, b);
	free(b);
	return result;
}
