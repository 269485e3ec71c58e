/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix fragments: the layout of a matrix in the registers of a warp. All mma shapes but one follow one rule: a
 * register of A holds, in lane l, neighbours of row l / 4 from column (l % 4) * elements on; registers count rows by 8,
 * then columns by 4 * elements, then rows by 16. B is the same with its columns for rows. A register of C is for row l
 * / 4, columns (l % 4) * 2 and the next, rows by 8, then columns by 8. wmma, whose layout PTX leaves open, uses the
 * same.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_MATRIX_H
#define VCUDA_BACKEND_CPU_PTX_MATRIX_H

#include "runtime/ptx-run.h"

enum ptx_element {
	PTX_EL_NONE,
	PTX_EL_F16,
	PTX_EL_BF16,
	PTX_EL_TF32,
	PTX_EL_F32,
	PTX_EL_F64,
	PTX_EL_S8,
	PTX_EL_U8,
	PTX_EL_S4,
	PTX_EL_U4,
	PTX_EL_B1,
	PTX_EL_S32,
	PTX_EL_E4M3,
	PTX_EL_E5M2,
	PTX_EL_E2M1,
	PTX_EL_E2M3,
	PTX_EL_E3M2,
	PTX_EL_COUNT
};

extern const uint8_t ptx_element_bits[PTX_EL_COUNT];

enum {
	PTX_MMA_SATURATE = 1,
	PTX_MMA_XOR = 2,
	PTX_MMA_AND = 4,
	PTX_MMA_A_COL = 8,
	PTX_MMA_B_ROW = 16,
	/* of f64: how each step rounds, if not to nearest */
	PTX_MMA_RZ = 32,
	PTX_MMA_RM = 64,
	PTX_MMA_RP = 128,
	PTX_MMA_ROUND = PTX_MMA_RZ | PTX_MMA_RM | PTX_MMA_RP,
	/* A has half of its columns. The register behind it has metadata, in lanes that the selector chooses. */
	PTX_MMA_SPARSE = 256,
	PTX_MMA_SELECTOR = 9, /* the first of 2 bits */
};

#define PTX_SPARSE_MOST 1024 /* elements of a sparse A */

/* One operation; passed to the runtime as an integer. */
struct ptx_mma {
	uint8_t m, n, a, b, c, d; /* enum ptx_element */
	uint16_t k;
};

enum ptx_matrix_part { PTX_MATRIX_A, PTX_MATRIX_B, PTX_MATRIX_C };

/* A tile that wmma.load and wmma.store move. */
struct ptx_tile {
	uint8_t part, element, m, n;
	uint16_t k;
	uint8_t col_major, registers; /* registers: as many as the instruction names, which may be copies */
};

/* Registers of the whole matrix, of 32 bits, or 64 for f64. */
static inline unsigned ptx_fragment_registers(unsigned rows, unsigned columns, unsigned element)
{
	unsigned bits = ptx_element_bits[element];

	return rows * columns * bits / 32 / (bits == 64 ? 64 : 32);
}

/* How many lanes of each four have the metadata of a sparse matrix. */
unsigned ptx_sparse_lanes(unsigned k, unsigned element);
/*
 * The operation with the A that its registers hold, which has half of the columns. `rows`, of PTX_SPARSE_MOST, gets for
 * each element of that A, row by row, the row of B that it is multiplied with.
 */
struct ptx_mma ptx_sparse_held(const struct ptx_mma *operation, uint32_t flags, const uint32_t *registers,
			       uint8_t *rows);

/* Registers are spilled one after the other, 32 lanes each. */
void ptx_rt_mma(uint64_t operation, uint32_t flags, const void *a, const void *b, const void *c, void *d);
void ptx_rt_tile_load(struct ptx_context *ctx, uint32_t site, uint64_t tile, uint64_t address, uint64_t stride,
		      void *registers, uint32_t thread);
void ptx_rt_tile_store(struct ptx_context *ctx, uint32_t site, uint64_t tile, uint64_t address, uint64_t stride,
		       const void *registers, uint32_t thread);
/* 8x8 matrices of 16 bits, whose rows lanes 8n to 8n + 7 point to */
void ptx_rt_rows_load(struct ptx_context *ctx, uint32_t site, uint32_t count, uint32_t transpose,
		      const uint64_t *addresses, uint32_t *registers, uint32_t thread);
/* Rows of 16 numbers of `bits` bits each, which become bytes. */
void ptx_rt_rows_widen(struct ptx_context *ctx, uint32_t site, uint32_t count, uint32_t bits, const uint64_t *addresses,
		       uint32_t *registers, uint32_t thread);
void ptx_rt_rows_store(struct ptx_context *ctx, uint32_t site, uint32_t count, uint32_t transpose,
		       const uint64_t *addresses, const uint32_t *registers, uint32_t thread);
void ptx_rt_rows_transpose(const uint32_t *in, uint32_t *out);

#endif
