/* SPDX-License-Identifier: Apache-2.0 */
#include "blas-abi.h"

/* Sizes beyond this are refused: sums of a few of them fit. */
#define MOST (1ll << 40)

unsigned int vcuda_blas_bytes(unsigned int type)
{
	switch (type) {
	case VCUDA_BLAS_R_8I:
	case VCUDA_BLAS_R_8F_E4M3:
	case VCUDA_BLAS_R_8F_E5M2:
		return 1;
	case VCUDA_BLAS_R_16F:
	case VCUDA_BLAS_R_16BF:
	case VCUDA_BLAS_C_8I:
		return 2;
	case VCUDA_BLAS_R_32F:
	case VCUDA_BLAS_R_32I:
		return 4;
	case VCUDA_BLAS_R_64F:
	case VCUDA_BLAS_R_64I:
	case VCUDA_BLAS_C_32F:
		return 8;
	case VCUDA_BLAS_C_64F:
		return 16;
	default:
		return 0;
	}
}

bool vcuda_blas_is_complex(unsigned int type)
{
	return type == VCUDA_BLAS_C_32F || type == VCUDA_BLAS_C_64F || type == VCUDA_BLAS_C_8I;
}

uint8_t vcuda_blas_real(unsigned int type)
{
	return type == VCUDA_BLAS_C_32F   ? VCUDA_BLAS_R_32F
	       : type == VCUDA_BLAS_C_64F ? VCUDA_BLAS_R_64F
					  : (uint8_t)type;
}

/* cublasComputeType_t's numbers. */
enum {
	COMPUTE_16F = 64,
	COMPUTE_16F_PEDANTIC = 65,
	COMPUTE_32F = 68,
	COMPUTE_32F_PEDANTIC = 69,
	COMPUTE_64F = 70,
	COMPUTE_64F_PEDANTIC = 71,
	COMPUTE_32I = 72,
	COMPUTE_32I_PEDANTIC = 73,
	COMPUTE_32F_FAST_16F = 74,
	COMPUTE_32F_FAST_16BF = 75,
	COMPUTE_32F_FAST_TF32 = 77,
	COMPUTE_32F_EMULATED_16BFX9 = 78,
	COMPUTE_64F_EMULATED_FIXEDPOINT = 79
};

uint8_t vcuda_blas_scale(uint64_t compute, uint64_t result)
{
	bool is_complex = result < VCUDA_BLAS_NO_TYPE && vcuda_blas_is_complex((unsigned int)result);

	switch (compute) {
	case COMPUTE_16F:
	case COMPUTE_16F_PEDANTIC:
		return VCUDA_BLAS_R_16F;
	case COMPUTE_32F:
	case COMPUTE_32F_PEDANTIC:
	case COMPUTE_32F_FAST_16F:
	case COMPUTE_32F_FAST_16BF:
	case COMPUTE_32F_FAST_TF32:
	case COMPUTE_32F_EMULATED_16BFX9:
		return is_complex ? VCUDA_BLAS_C_32F : VCUDA_BLAS_R_32F;
	case COMPUTE_64F:
	case COMPUTE_64F_PEDANTIC:
	case COMPUTE_64F_EMULATED_FIXEDPOINT:
		return is_complex ? VCUDA_BLAS_C_64F : VCUDA_BLAS_R_64F;
	case COMPUTE_32I:
	case COMPUTE_32I_PEDANTIC:
		return VCUDA_BLAS_R_32I;
	default:
		return VCUDA_BLAS_NO_TYPE;
	}
}

int vcuda_blas_compute(int type)
{
	switch (type) {
	case VCUDA_BLAS_R_16F:
		return COMPUTE_16F;
	case VCUDA_BLAS_R_32F:
	case VCUDA_BLAS_C_32F:
		return COMPUTE_32F;
	case VCUDA_BLAS_R_64F:
	case VCUDA_BLAS_C_64F:
		return COMPUTE_64F;
	case VCUDA_BLAS_R_32I:
		return COMPUTE_32I;
	default:
		return type;
	}
}

/* Scalars, A and B, C: the products that cuBLAS's documentation lists. */
static const uint8_t products[][3] = {{VCUDA_BLAS_R_16F, VCUDA_BLAS_R_16F, VCUDA_BLAS_R_16F},
				      {VCUDA_BLAS_R_32I, VCUDA_BLAS_R_8I, VCUDA_BLAS_R_32I},
				      {VCUDA_BLAS_R_32F, VCUDA_BLAS_R_16BF, VCUDA_BLAS_R_16BF},
				      {VCUDA_BLAS_R_32F, VCUDA_BLAS_R_16F, VCUDA_BLAS_R_16F},
				      {VCUDA_BLAS_R_32F, VCUDA_BLAS_R_8I, VCUDA_BLAS_R_32F},
				      {VCUDA_BLAS_R_32F, VCUDA_BLAS_R_16BF, VCUDA_BLAS_R_32F},
				      {VCUDA_BLAS_R_32F, VCUDA_BLAS_R_16F, VCUDA_BLAS_R_32F},
				      {VCUDA_BLAS_R_32F, VCUDA_BLAS_R_32F, VCUDA_BLAS_R_32F},
				      {VCUDA_BLAS_C_32F, VCUDA_BLAS_C_8I, VCUDA_BLAS_C_32F},
				      {VCUDA_BLAS_C_32F, VCUDA_BLAS_C_32F, VCUDA_BLAS_C_32F},
				      {VCUDA_BLAS_R_64F, VCUDA_BLAS_R_64F, VCUDA_BLAS_R_64F},
				      {VCUDA_BLAS_C_64F, VCUDA_BLAS_C_64F, VCUDA_BLAS_C_64F}};

/* The operands are alpha A B beta C. */
bool vcuda_blas_goes_gemm(const struct vcuda_blas_operand *o, unsigned int count, const uint64_t *w, unsigned int words)
{
	(void)count;
	(void)w;
	(void)words;
	for (unsigned int i = 0; i < sizeof(products) / sizeof(products[0]); i++)
		if (o[0].type == products[i][0] && o[1].type == products[i][1] && o[2].type == products[i][1] &&
		    o[4].type == products[i][2])
			return true;
	return false;
}

/* The operands are alpha A beta C; cuBLAS's documentation has A of complex integers or floats, and C of floats. */
bool vcuda_blas_goes_rank_k(const struct vcuda_blas_operand *o, unsigned int count, const uint64_t *w,
			    unsigned int words)
{
	(void)count;
	(void)w;
	(void)words;
	return (o[1].type == VCUDA_BLAS_C_8I || o[1].type == VCUDA_BLAS_C_32F) && o[3].type == VCUDA_BLAS_C_32F;
}

/* The type of computation for vectors of a type: floats for half precision. */
static uint8_t computed_in(uint8_t type)
{
	return type == VCUDA_BLAS_R_16F || type == VCUDA_BLAS_R_16BF ? VCUDA_BLAS_R_32F : type;
}

/*
 * All vectors have one floating-point type, and the last word is the type of computation. A scalar alpha has that type.
 * Scalars of a rotation have the vectors' type or the type of its real parts. A result has the vectors' type, and a
 * norm the type of its real parts.
 */
static bool types_of_vectors(const struct vcuda_blas_operand *o, unsigned int count, uint64_t last, bool norm)
{
	unsigned int first = o[0].kind == VCUDA_BLAS_SCALAR;
	uint8_t type = o[first].type, in = computed_in(type);

	if (in != VCUDA_BLAS_R_32F && in != VCUDA_BLAS_R_64F && in != VCUDA_BLAS_C_32F && in != VCUDA_BLAS_C_64F)
		return false;
	for (unsigned int i = first; i < count; i++) {
		bool is_real = o[i].type == vcuda_blas_real(type);

		if (o[i].kind == VCUDA_BLAS_RESULT && norm
			    ? !is_real
			    : o[i].type != type && !(o[i].kind == VCUDA_BLAS_SCALAR && is_real))
			return false;
	}
	return (!first || o[0].type == in) && last == (norm ? vcuda_blas_real(in) : in);
}

bool vcuda_blas_goes_vectors(const struct vcuda_blas_operand *o, unsigned int count, const uint64_t *w,
			     unsigned int words)
{
	return types_of_vectors(o, count, w[words - 1], false);
}

bool vcuda_blas_goes_norm(const struct vcuda_blas_operand *o, unsigned int count, const uint64_t *w, unsigned int words)
{
	return types_of_vectors(o, count, w[words - 1], true);
}

/* cuBLAS supports only matrices that are not transposed, with at least as many rows as columns. */
bool vcuda_blas_goes_least_squares(const struct vcuda_blas_operand *o, unsigned int count, const uint64_t *w,
				   unsigned int words)
{
	(void)count;
	(void)words;
	return !w[0] && o[0].rows >= o[0].columns;
}

int vcuda_blas_check(const struct vcuda_blas_routine *routine, const uint64_t *words)
{
	const struct vcuda_blas_family *f = routine->family;
	struct vcuda_blas_operand operands[VCUDA_BLAS_MAX_OPERANDS];
	unsigned int count;

	for (unsigned int i = 0; i < f->size_count; i++) {
		int64_t size = (int64_t)words[f->sizes[i]];

		if (size > MOST || size < -MOST)
			return VCUDA_BLAS_INVALID;
	}
	if (f->no_trans && vcuda_blas_is_complex(routine->read) && words[f->trans] == f->no_trans)
		return VCUDA_BLAS_INVALID;
	if (f->check(words))
		return VCUDA_BLAS_INVALID;
	if (!f->goes)
		return VCUDA_BLAS_GOOD;
	count = f->operands(routine, words, operands);
	return f->goes(operands, count, words, f->words) ? VCUDA_BLAS_GOOD : VCUDA_BLAS_NOT_SUPPORTED;
}

/* (n - 1) * step + last elements. */
static uint64_t extent(uint64_t n, uint64_t step, uint64_t last)
{
	uint64_t elements;

	if (__builtin_mul_overflow(n - 1, step, &elements) || __builtin_add_overflow(elements, last, &elements))
		return UINT64_MAX;
	return elements;
}

static uint64_t size_of(int64_t n)
{
	return (uint64_t)(n < 0 ? -n : n);
}

/* `w`: the words from the address on; `at`: that of the type and the stride, if there are such. */
static void place(struct vcuda_blas_operand *o, const uint64_t *w, unsigned int at, uint8_t type, int flags,
		  int64_t batch)
{
	o->kind = VCUDA_BLAS_MEMORY;
	o->unless = VCUDA_BLAS_ALWAYS;
	o->address = w[0];
	o->type = type;
	o->written = flags & VCUDA_BLAS_OUT;
	o->pointers = flags & VCUDA_BLAS_POINTERS;
	o->optional = flags & VCUDA_BLAS_OPTIONAL;
	if (flags & VCUDA_BLAS_TYPED)
		o->type = w[at] < VCUDA_BLAS_NO_TYPE ? (uint8_t)w[at] : VCUDA_BLAS_NO_TYPE;
	at += (flags & VCUDA_BLAS_TYPED) != 0;
	o->stride = flags & VCUDA_BLAS_STRIDED ? (int64_t)w[at] : flags & VCUDA_BLAS_EACH ? o->rows : 0;
	o->total = o->elements;
	if (batch > 1 && o->elements && o->stride)
		o->total = extent((uint64_t)batch, size_of(o->stride), o->elements);
}

void vcuda_blas_vector(struct vcuda_blas_operand *o, const uint64_t *w, uint8_t type, int flags, int64_t batch,
		       int64_t n)
{
	int64_t step = (int64_t)w[1];

	*o = (struct vcuda_blas_operand){.rows = n > 0 ? n : 0,
					 .columns = 1,
					 .step = step,
					 .vector = true,
					 .elements = n > 0 ? extent((uint64_t)n, size_of(step), 1) : 0};
	place(o, w, 2, type, flags, batch);
}

void vcuda_blas_matrix(struct vcuda_blas_operand *o, const uint64_t *w, uint8_t type, int flags, int64_t batch,
		       int64_t rows, int64_t columns)
{
	bool empty = rows <= 0 || columns <= 0;

	*o = (struct vcuda_blas_operand){.rows = rows,
					 .columns = columns,
					 .step = (int64_t)w[1],
					 .elements = empty ? 0 : extent((uint64_t)columns, w[1], (uint64_t)rows)};
	place(o, w, 2, type, flags, batch);
}

void vcuda_blas_packed(struct vcuda_blas_operand *o, const uint64_t *w, uint8_t type, int flags, int64_t batch,
		       int64_t order)
{
	uint64_t n = order > 0 ? (uint64_t)order : 0, elements;

	if (__builtin_mul_overflow(n, n + 1, &elements))
		elements = UINT64_MAX;
	*o = (struct vcuda_blas_operand){
		.rows = order, .columns = order, .elements = elements == UINT64_MAX ? elements : elements / 2};
	place(o, w, 1, type, flags, batch);
}

void vcuda_blas_elements(struct vcuda_blas_operand *o, const uint64_t *w, uint8_t type, int flags, int64_t batch,
			 int64_t n)
{
	*o = (struct vcuda_blas_operand){.rows = n, .columns = 1, .elements = n > 0 ? (uint64_t)n : 0};
	place(o, w, 1, type, flags, batch);
}
