/* SPDX-License-Identifier: Apache-2.0 */
/*
 * d = a * b + c. Products are exact in the type that they are summed in, sums are rounded one after the other in the
 * order of k; PTX leaves both open.
 */
#include <math.h>
#include <string.h>
#include <xmmintrin.h>

#include "runtime/ptx-matrix.h"

#define LANES 32
#define MOST_K 256
#define MOST_CELLS 512 /* of a, b or c where they are numbers, not bits */

const uint8_t ptx_element_bits[PTX_EL_COUNT] = {
	[PTX_EL_F16] = 16, [PTX_EL_BF16] = 16, [PTX_EL_TF32] = 32, [PTX_EL_F32] = 32, [PTX_EL_F64] = 64,
	[PTX_EL_S8] = 8,   [PTX_EL_U8] = 8,    [PTX_EL_S4] = 4,	   [PTX_EL_U4] = 4,   [PTX_EL_B1] = 1,
	[PTX_EL_S32] = 32, [PTX_EL_E4M3] = 8,  [PTX_EL_E5M2] = 8,
	/* in a byte each */
	[PTX_EL_E2M1] = 8, [PTX_EL_E2M3] = 8,  [PTX_EL_E3M2] = 8,
};

#define INLINE static inline __attribute__((always_inline))

INLINE float as_float(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, 4);
	return f;
}

INLINE uint32_t float_bits(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, 4);
	return bits;
}

/* Without branches, for the compiler to make vectors of. */
INLINE float from_half(uint32_t h)
{
	uint32_t top = (h & 0x7c00) == 0x7c00 ? 0x7f800000 | (h & 0x3ff) << 13 : 0;
	uint32_t size = float_bits(as_float((h & 0x7fff) << 13) * 0x1p112f);

	return as_float((top ? top : size) | (h & 0x8000) << 16);
}

INLINE float from_e5m2(uint32_t b)
{
	return from_half(b << 8);
}

INLINE float from_e4m3(uint32_t b)
{
	uint32_t size = (b & 0x7f) == 0x7f ? 0x7fffffff : float_bits(as_float((b & 0x7f) << 20) * 0x1p120f);

	return as_float(size | (b & 0x80) << 24);
}

/* A number of 4 or 6 bits with its sign at `sign`. */
INLINE float from_small(uint32_t code, unsigned sign, unsigned mantissa, float scale)
{
	float size = as_float((code & ((1u << sign) - 1)) << (23 - mantissa)) * scale;

	return as_float(float_bits(size) | (code >> sign & 1) << 31);
}

uint16_t ptx_half_from_float(float f)
{
	_Float16 h = (_Float16)f;
	uint16_t bits;

	memcpy(&bits, &h, 2);
	return f != f ? 0x7fff : bits;
}

INLINE float number(unsigned element, uint32_t word, unsigned e)
{
	switch (element) {
	case PTX_EL_F16:
		return from_half(word >> 16 * e & 0xffff);
	case PTX_EL_BF16:
		return as_float(e ? word & 0xffff0000 : word << 16);
	case PTX_EL_TF32:
		return as_float(word & 0xffffe000);
	case PTX_EL_E4M3:
		return from_e4m3(word >> 8 * e & 0xff);
	case PTX_EL_E5M2:
		return from_e5m2(word >> 8 * e & 0xff);
	case PTX_EL_E2M1:
		/* in the middle of its byte */
		return from_small(word >> (8 * e + 2), 3, 1, 0x1p126f);
	case PTX_EL_E2M3:
		return from_small(word >> 8 * e, 5, 3, 0x1p126f);
	case PTX_EL_E3M2:
		return from_small(word >> 8 * e, 5, 2, 0x1p124f);
	default:
		return as_float(word);
	}
}

INLINE int32_t integer(unsigned element, uint32_t word, unsigned e)
{
	switch (element) {
	case PTX_EL_S8:
		return (int8_t)(word >> 8 * e);
	case PTX_EL_U8:
		return (uint8_t)(word >> 8 * e);
	case PTX_EL_S4:
		return (int32_t)(word << (28 - 4 * e)) >> 28;
	case PTX_EL_U4:
		return word >> 4 * e & 15;
	default:
		return (int32_t)word;
	}
}

/* The row and the column where register r of A (of B, with `rows` its columns) begins; `step`: columns of a register. */
INLINE void place(unsigned rows, unsigned columns, unsigned step, unsigned r, unsigned *row, unsigned *column)
{
	unsigned blocks = columns / step;

	if (rows == 8) {
		*row = 0;
		*column = r * step;
	} else {
		*row = r / (2 * blocks) * 16 + (r & 1) * 8;
		*column = (r >> 1) % blocks * step;
	}
}

/* B has no halves of 16: its registers count k first, then columns by 8. */
INLINE void place_b(unsigned k, unsigned step, unsigned r, unsigned *column, unsigned *row)
{
	*column = r / (k / step) * 8;
	*row = r % (k / step) * step;
}

/* Element i of C that lane l holds. */
INLINE void place_c(unsigned m, unsigned lane, unsigned i, unsigned *row, unsigned *column)
{
	unsigned tile = m == 8 ? i / 2 : i / 4;

	*row = lane / 4 + (m == 8 ? 0 : (i & 2) * 4) + (m == 32 ? tile * 16 : 0);
	*column = (lane & 3) * 2 + (i & 1) + (m == 32 ? 0 : tile * 8);
}

/* a as rows of k, b as rows of n */
#define SCATTER(name, type, convert)                                                                                   \
	INLINE void name(const struct ptx_mma *o, unsigned element, bool is_b, unsigned each, const uint32_t *in,      \
			 type *out)                                                                                    \
	{                                                                                                              \
		unsigned rows = is_b ? o->n : o->m, count = rows * o->k / each / LANES, row, column;                   \
		for (unsigned r = 0; r < count; r++) {                                                                 \
			type cells[LANES * 8];                                                                         \
			if (is_b)                                                                                      \
				place_b(o->k, 4 * each, r, &row, &column);                                             \
			else                                                                                           \
				place(rows, o->k, 4 * each, r, &row, &column);                                         \
			for (unsigned e = 0; e < each; e++)                                                            \
				for (unsigned l = 0; l < LANES; l++)                                                   \
					cells[l * each + e] = convert(element, in[r * LANES + l], e);                  \
			for (unsigned g = 0; g < 8; g++)                                                               \
				for (unsigned c = 0; c < 4 * each; c++)                                                \
					out[is_b ? (column + c) * o->n + row + g : (row + g) * o->k + column + c] =    \
						cells[g * 4 * each + c];                                               \
		}                                                                                                      \
	}

SCATTER(scatter_numbers, float, number)
SCATTER(scatter_integers, int32_t, integer)

/* `rows`: the row of b that each element of a sparse a is multiplied with; NULL: the number of its column. */
#define MULTIPLY(name, type)                                                                                           \
	INLINE void name(unsigned m, unsigned n, unsigned k, const type *a, const type *b, const uint8_t *rows,        \
			 type *c)                                                                                      \
	{                                                                                                              \
		for (unsigned i = 0; i < m; i++)                                                                       \
			for (unsigned s = 0; s < k; s++)                                                               \
				for (unsigned j = 0; j < n; j++)                                                       \
					c[i * n + j] += a[i * k + s] * b[(rows ? rows[i * k + s] : s) * n + j];        \
	}

MULTIPLY(multiply_floats, float)
MULTIPLY(multiply_ints, int32_t)

INLINE void load_c(const struct ptx_mma *o, const uint32_t *in, uint32_t *out)
{
	unsigned row, column;

	for (unsigned i = 0; i < (unsigned)o->m * o->n / LANES; i++)
		for (unsigned l = 0; l < LANES; l++) {
			place_c(o->m, l, i, &row, &column);
			out[row * o->n + column] =
				o->c == PTX_EL_F16 ? float_bits(from_half(in[i / 2 * LANES + l] >> 16 * (i & 1) & 0xffff))
						   : in[i * LANES + l];
		}
}

static uint32_t finite_half(uint32_t half, uint32_t flags)
{
	if (!(flags & PTX_MMA_SATURATE) || (half & 0x7c00) != 0x7c00)
		return half;
	return half & 0x3ff ? 0 : (half & 0x8000) | 0x7bff;
}

static uint32_t finite_float(float f, uint32_t flags)
{
	uint32_t bits = float_bits(f);

	if (f != f)
		bits = 0x7fffffff;
	if (!(flags & PTX_MMA_SATURATE) || (bits & 0x7f800000) != 0x7f800000)
		return bits;
	return bits & 0x7fffff ? 0 : (bits & 0x80000000) | 0x7f7fffff;
}

static void store_floats(const struct ptx_mma *o, uint32_t flags, const float *in, uint32_t *out)
{
	unsigned row, column;

	for (unsigned i = 0; i < (unsigned)o->m * o->n / LANES; i++)
		for (unsigned l = 0; l < LANES; l++) {
			uint32_t *word = &out[(o->d == PTX_EL_F16 ? i / 2 : i) * LANES + l];
			float value;

			place_c(o->m, l, i, &row, &column);
			value = in[row * o->n + column];
			if (o->d != PTX_EL_F16)
				*word = finite_float(value, flags);
			else if (i & 1)
				*word |= finite_half(ptx_half_from_float(value), flags) << 16;
			else
				*word = finite_half(ptx_half_from_float(value), flags);
		}
}

/* The number of elements in a register, and the type, are constants where this is inlined. */
#define BY_TYPE(X)                                                                                                     \
	X(PTX_EL_F16, 2)                                                                                               \
	X(PTX_EL_BF16, 2)                                                                                              \
	X(PTX_EL_TF32, 1)                                                                                              \
	X(PTX_EL_E4M3, 4)                                                                                              \
	X(PTX_EL_E5M2, 4)                                                                                              \
	X(PTX_EL_E2M1, 4)                                                                                              \
	X(PTX_EL_E2M3, 4)                                                                                              \
	X(PTX_EL_E3M2, 4)
#define BY_INT_TYPE(X)                                                                                                 \
	X(PTX_EL_S8, 4)                                                                                                \
	X(PTX_EL_U8, 4)                                                                                                \
	X(PTX_EL_S4, 8)                                                                                                \
	X(PTX_EL_U4, 8)

INLINE void place_numbers(const struct ptx_mma *o, unsigned type, bool second, const uint32_t *r, float *to)
{
	switch (type) {
#define X(known, each)                                                                                                 \
	case known:                                                                                                    \
		scatter_numbers(o, known, second, each, r, to);                                                   \
		break;
		BY_TYPE(X)
#undef X
	}
}

INLINE void place_integers(const struct ptx_mma *o, unsigned type, bool second, const uint32_t *r, int32_t *to)
{
	switch (type) {
#define X(known, each)                                                                                                 \
	case known:                                                                                                    \
		scatter_integers(o, known, second, each, r, to);                                                   \
		break;
		BY_INT_TYPE(X)
#undef X
	}
}

INLINE void floats(const struct ptx_mma *o, uint32_t flags, const uint32_t *ra, const uint32_t *rb, const uint32_t *rc,
		   uint32_t *rd)
{
	float a[MOST_CELLS], b[MOST_CELLS], c[MOST_CELLS];
	uint8_t rows[PTX_SPARSE_MOST];
	struct ptx_mma held = flags & PTX_MMA_SPARSE ? ptx_sparse_held(o, flags, ra, rows) : *o;

	place_numbers(&held, o->a, false, ra, a);
	place_numbers(o, o->b, true, rb, b);
	load_c(o, rc, (uint32_t *)c);
	if (flags & PTX_MMA_SPARSE)
		multiply_floats(16, 8, held.k, a, b, rows, c);
	else if (o->n == 8)
		multiply_floats(o->m, 8, o->k, a, b, NULL, c);
	else if (o->n == 16)
		multiply_floats(o->m, 16, o->k, a, b, NULL, c);
	else
		multiply_floats(o->m, o->n, o->k, a, b, NULL, c);
	store_floats(o, flags, c, rd);
}

INLINE void integers(const struct ptx_mma *o, uint32_t flags, const uint32_t *ra, const uint32_t *rb,
		     const uint32_t *rc, uint32_t *rd)
{
	int32_t a[2 * MOST_CELLS], b[2 * MOST_CELLS], dot[MOST_CELLS] = {0};
	uint8_t rows[PTX_SPARSE_MOST];
	struct ptx_mma held = flags & PTX_MMA_SPARSE ? ptx_sparse_held(o, flags, ra, rows) : *o;
	unsigned row, column;

	place_integers(&held, o->a, false, ra, a);
	place_integers(o, o->b, true, rb, b);
	if (flags & PTX_MMA_SPARSE)
		multiply_ints(16, 8, held.k, a, b, rows, dot);
	else if (o->n == 8)
		multiply_ints(o->m, 8, o->k, a, b, NULL, dot);
	else
		multiply_ints(o->m, o->n, o->k, a, b, NULL, dot);
	for (unsigned i = 0; i < (unsigned)o->m * o->n / LANES; i++)
		for (unsigned l = 0; l < LANES; l++) {
			int64_t sum;

			place_c(o->m, l, i, &row, &column);
			sum = (int64_t)dot[row * o->n + column] + (int32_t)rc[i * LANES + l];
			if (flags & PTX_MMA_SATURATE)
				sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
			rd[i * LANES + l] = (uint32_t)sum;
		}
}

static void bits(const struct ptx_mma *o, uint32_t flags, const uint32_t *ra, const uint32_t *rb, const uint32_t *rc,
		 uint32_t *rd)
{
	uint32_t a[16][MOST_K / 32], b[8][MOST_K / 32];
	unsigned row, column, words = o->k / 32;

	for (unsigned l = 0; l < LANES; l++) {
		for (unsigned r = 0; r < (unsigned)o->m * o->k / 32 / LANES; r++) {
			place(o->m, o->k, 128, r, &row, &column);
			a[row + l / 4][column / 32 + (l & 3)] = ra[r * LANES + l];
		}
		for (unsigned r = 0; r < (unsigned)o->n * o->k / 32 / LANES; r++)
			b[l / 4][r * 4 + (l & 3)] = rb[r * LANES + l];
	}
	for (unsigned i = 0; i < (unsigned)o->m * o->n / LANES; i++)
		for (unsigned l = 0; l < LANES; l++) {
			uint32_t sum = rc[i * LANES + l];

			place_c(o->m, l, i, &row, &column);
			for (unsigned w = 0; w < words; w++)
				sum += (uint32_t)__builtin_popcount(flags & PTX_MMA_XOR ? a[row][w] ^ b[column][w]
											: a[row][w] & b[column][w]);
			rd[i * LANES + l] = sum;
		}
}

INLINE void doubles(const struct ptx_mma *o, const double *ra, const double *rb, const double *rc, double *rd)
{
	double a[MOST_CELLS], b[MOST_CELLS];
	unsigned row, column;

	for (unsigned l = 0; l < LANES; l++) {
		for (unsigned r = 0; r < (unsigned)o->m * o->k / LANES; r++) {
			place(o->m, o->k, 4, r, &row, &column);
			a[(row + l / 4) * o->k + column + (l & 3)] = ra[r * LANES + l];
		}
		for (unsigned r = 0; r < (unsigned)o->n * o->k / LANES; r++)
			b[(r * 4 + (l & 3)) * o->n + l / 4] = rb[r * LANES + l];
	}
	for (unsigned i = 0; i < (unsigned)o->m * o->n / LANES; i++)
		for (unsigned l = 0; l < LANES; l++) {
			double sum = rc[i * LANES + l];

			place_c(o->m, l, i, &row, &column);
			for (unsigned s = 0; s < o->k; s++)
				sum = fma(a[row * o->k + s], b[s * o->n + column], sum);
			rd[i * LANES + l] = sum;
		}
}

/* m8n8k4 of f16: four products, each of two groups of four lanes: 0-3 and 16-19, and so on. */
static void quads(const struct ptx_mma *o, uint32_t flags, const uint32_t *ra, const uint32_t *rb, const uint32_t *rc,
		  uint32_t *rd)
{
	for (unsigned q = 0; q < 4; q++) {
		float a[8][4], b[4][8], c[8][8];

		for (unsigned t = 0; t < 8; t++) {
			unsigned l = q * 4 + (t & 3) + (t & 4) * 4;

			for (unsigned i = 0; i < 4; i++) {
				float x = from_half(ra[i / 2 * LANES + l] >> 16 * (i & 1) & 0xffff);
				float y = from_half(rb[i / 2 * LANES + l] >> 16 * (i & 1) & 0xffff);

				if (flags & PTX_MMA_A_COL)
					a[i + (t & 4)][t & 3] = x;
				else
					a[t][i] = x;
				if (flags & PTX_MMA_B_ROW)
					b[t & 3][i + (t & 4)] = y;
				else
					b[i][t] = y;
			}
			for (unsigned i = 0; i < 8; i++) {
				unsigned row = (t & 1) + (i & 2) + (t & 4), column = (i & 4) + (t & 2) + (i & 1);

				if (o->c == PTX_EL_F16)
					c[t][i] = from_half(rc[i / 2 * LANES + l] >> 16 * (i & 1) & 0xffff);
				else
					c[row][column] = as_float(rc[i * LANES + l]);
			}
		}
		multiply_floats(8, 8, 4, a[0], b[0], NULL, c[0]);
		for (unsigned t = 0; t < 8; t++) {
			unsigned l = q * 4 + (t & 3) + (t & 4) * 4;

			for (unsigned i = 0; i < 8; i++) {
				unsigned row = (t & 1) + (i & 2) + (t & 4), column = (i & 4) + (t & 2) + (i & 1);
				uint32_t half = o->d == PTX_EL_F16 ? finite_half(ptx_half_from_float(c[t][i]), flags) : 0;

				if (o->d != PTX_EL_F16)
					rd[i * LANES + l] = finite_float(c[row][column], flags);
				else if (i & 1)
					rd[i / 2 * LANES + l] |= half << 16;
				else
					rd[i / 2 * LANES + l] = half;
			}
		}
	}
}

INLINE void any(const struct ptx_mma *o, uint32_t flags, const void *a, const void *b, const void *c, void *d)
{
	if (o->a == PTX_EL_F64)
		doubles(o, a, b, c, d);
	else if (o->a == PTX_EL_S8 || o->a == PTX_EL_U8 || o->a == PTX_EL_S4 || o->a == PTX_EL_U4)
		integers(o, flags, a, b, c, d);
	else
		floats(o, flags, a, b, c, d);
}

/* The same for processors with longer vectors. */
#define VERSION(name, features)                                                                                        \
	static __attribute__((target(features))) void name(const struct ptx_mma *o, uint32_t flags, const void *a,     \
							   const void *b, const void *c, void *d)                      \
	{                                                                                                              \
		any(o, flags, a, b, c, d);                                                                             \
	}

VERSION(with_avx512, "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,prefer-vector-width=512")
VERSION(with_avx2, "avx2,fma,f16c")
VERSION(with_sse, "sse2")

static void multiply(uint64_t operation, uint32_t flags, const void *a, const void *b, const void *c, void *d)
{
	struct ptx_mma o;

	memcpy(&o, &operation, sizeof(o));
	if (o.a == PTX_EL_B1)
		bits(&o, flags, a, b, c, d);
	else if (o.a == PTX_EL_F16 && o.k == 4)
		quads(&o, flags, a, b, c, d);
	else if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
		 __builtin_cpu_supports("avx512vl"))
		with_avx512(&o, flags, a, b, c, d);
	else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
		with_avx2(&o, flags, a, b, c, d);
	else
		with_sse(&o, flags, a, b, c, d);
}

/* As in ptx-math.c, operands and results are in memory: the arithmetic cannot leave the changed mode. */
#define BARRIER() __asm__ volatile("" ::: "memory")

void ptx_rt_mma(uint64_t operation, uint32_t flags, const void *a, const void *b, const void *c, void *d)
{
	unsigned int before;

	if (!(flags & PTX_MMA_ROUND)) {
		multiply(operation, flags, a, b, c, d);
		return;
	}
	before = _mm_getcsr();
	_mm_setcsr((before & ~(unsigned int)_MM_ROUND_MASK) | (flags & PTX_MMA_RZ   ? _MM_ROUND_TOWARD_ZERO
							       : flags & PTX_MMA_RM ? _MM_ROUND_DOWN
										    : _MM_ROUND_UP));
	BARRIER();
	multiply(operation, flags, a, b, c, d);
	BARRIER();
	_mm_setcsr(before);
}

/* ---- between memory and registers ---- */

/* The position of a tile's element: its line of memory, and its place in the line. */
INLINE void find_element(const struct ptx_tile *t, unsigned each, unsigned r, unsigned lane, unsigned e, unsigned *line,
			 unsigned *at)
{
	unsigned row, column;

	if (t->part == PTX_MATRIX_A) {
		place(t->m, t->k, 4 * each, r, &row, &column);
		row += lane / 4;
		column += (lane & 3) * each + e;
	} else if (t->part == PTX_MATRIX_B) {
		place_b(t->k, 4 * each, r, &column, &row);
		column += lane / 4;
		row += (lane & 3) * each + e;
	} else {
		place_c(t->m, lane, r * each + e, &row, &column);
	}
	*line = t->col_major ? column : row;
	*at = t->col_major ? row : column;
}

/* Checks all lines; returns how many registers the tile has. */
static unsigned find_lines(struct ptx_context *ctx, uint32_t site, const struct ptx_tile *t, uint64_t address,
			   uint64_t stride, uint8_t **lines, uint32_t thread)
{
	unsigned rows = t->part == PTX_MATRIX_B ? t->k : t->m, columns = t->part == PTX_MATRIX_A ? t->k : t->n;
	unsigned bits = ptx_element_bits[t->element], count = t->col_major ? columns : rows,
		 length = t->col_major ? rows : columns;
	unsigned align = bits < 8 ? 4 : bits / 8;

	for (unsigned n = 0; n < count; n++)
		lines[n] = ptx_check_span(ctx, site, address + (uint64_t)((int64_t)stride * n * bits / 8),
					  (length * bits + 7) / 8, align, thread);
	return ptx_fragment_registers(rows, columns, t->element);
}

#define EACH_ELEMENT(type, is_load)                                                                                    \
	for (unsigned r = 0; r < count; r++)                                                                           \
		for (unsigned l = 0; l < LANES; l++)                                                                   \
			for (unsigned e = 0; e < each; e++) {                                                          \
				type *cell;                                                                            \
				find_element(&t, each, r, l, e, &line, &at);                                           \
				cell = (type *)(void *)lines[line] + at;                                               \
				if (is_load)                                                                           \
					((type *)to)[(r * LANES + l) * each + e] = *cell;                              \
				else                                                                                   \
					*cell = ((const type *)from)[(r * LANES + l) * each + e];                      \
			}                                                                                              \
	break

void ptx_rt_tile_load(struct ptx_context *ctx, uint32_t site, uint64_t tile, uint64_t address, uint64_t stride,
		      void *to, uint32_t thread)
{
	const uint32_t *from = NULL;
	struct ptx_tile t;
	uint8_t *lines[MOST_K];
	unsigned count, bits, each, line, at;

	memcpy(&t, &tile, sizeof(t));
	bits = ptx_element_bits[t.element];
	each = bits >= 32 ? 1 : 32 / bits;
	count = find_lines(ctx, site, &t, address, stride, lines, thread);
	switch (bits) {
	case 64:
		EACH_ELEMENT(uint64_t, true);
	case 32:
		EACH_ELEMENT(uint32_t, true);
	case 16:
		EACH_ELEMENT(uint16_t, true);
	case 8:
		EACH_ELEMENT(uint8_t, true);
	default:
		/* only with the elements of a register side by side */
		for (unsigned r = 0; r < count; r++)
			for (unsigned l = 0; l < LANES; l++) {
				find_element(&t, each, r, l, 0, &line, &at);
				((uint32_t *)to)[r * LANES + l] = *(const uint32_t *)(void *)(lines[line] + at * bits / 8);
			}
	}
	for (unsigned r = count; r < t.registers; r++)
		memcpy((uint32_t *)to + r * LANES, (uint32_t *)to + r % count * LANES, LANES * 4);
}

void ptx_rt_tile_store(struct ptx_context *ctx, uint32_t site, uint64_t tile, uint64_t address, uint64_t stride,
		       const void *from, uint32_t thread)
{
	uint32_t *to = NULL;
	struct ptx_tile t;
	uint8_t *lines[MOST_K];
	unsigned count, bits, each, line, at;

	memcpy(&t, &tile, sizeof(t));
	bits = ptx_element_bits[t.element];
	each = bits >= 32 ? 1 : 32 / bits;
	count = find_lines(ctx, site, &t, address, stride, lines, thread);
	switch (bits) {
	case 64:
		EACH_ELEMENT(uint64_t, false);
	case 32:
		EACH_ELEMENT(uint32_t, false);
	default:
		EACH_ELEMENT(uint16_t, false);
	}
}
