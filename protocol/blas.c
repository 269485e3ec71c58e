/* SPDX-License-Identifier: Apache-2.0 */
#include "blas-abi.h"

/* Sizes beyond this are refused: sums of a few of them fit. */
#define MOST (1ll << 40)

bool vcuda_blas_check(const struct vcuda_blas_routine *routine, const uint64_t *words)
{
	const struct vcuda_blas_family *f = routine->family;

	for (unsigned int i = 0; i < f->size_count; i++) {
		int64_t size = (int64_t)words[f->sizes[i]];

		if (size > MOST || size < -MOST)
			return false;
	}
	if (f->no_trans && routine->is_complex && words[f->trans] == f->no_trans)
		return false;
	return f->check(words);
}

/* (n - 1) * step + last elements. */
static uint64_t extent(uint64_t n, uint64_t step, uint64_t last)
{
	uint64_t elements;

	if (__builtin_mul_overflow(n - 1, step, &elements) || __builtin_add_overflow(elements, last, &elements))
		return UINT64_MAX;
	return elements;
}

struct vcuda_blas_operand vcuda_blas_vector(uint64_t address, int64_t n, int64_t increment, bool written)
{
	uint64_t step = (uint64_t)(increment < 0 ? -increment : increment);

	return (struct vcuda_blas_operand){.address = address,
					   .elements = n > 0 ? extent((uint64_t)n, step, 1) : 0,
					   .written = written,
					   .vector = n > 0 ? (uint64_t)n : 0,
					   .apart = increment != 1};
}

struct vcuda_blas_operand vcuda_blas_matrix(uint64_t address, int64_t rows, int64_t columns, int64_t leading,
					    bool written)
{
	bool empty = rows <= 0 || columns <= 0;

	return (struct vcuda_blas_operand){
		.address = address,
		.elements = empty ? 0 : extent((uint64_t)columns, (uint64_t)leading, (uint64_t)rows),
		.written = written};
}

struct vcuda_blas_operand vcuda_blas_packed(uint64_t address, int64_t order, bool written)
{
	uint64_t n = order > 0 ? (uint64_t)order : 0, elements;

	if (__builtin_mul_overflow(n, n + 1, &elements))
		elements = UINT64_MAX;
	return (struct vcuda_blas_operand){
		.address = address, .elements = elements == UINT64_MAX ? elements : elements / 2, .written = written};
}
