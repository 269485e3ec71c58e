/* SPDX-License-Identifier: Apache-2.0 */
/* A product of matrices as cuBLASLt has it, on the software GPU. */
#ifndef VCUDA_CPU_MATMUL_H
#define VCUDA_CPU_MATMUL_H

#include "protocol/matmul-abi.h"
#include "device/schedule.h"

/*
 * A matrix product, computed as columns. If D is stored by rows, the product is D' = op(B)' op(A)', and `rows` counts
 * D's columns. The product is cut into tiles; a unit is one tile.
 */
struct softgpu_matmul {
	struct softgpu_op op;
	vcuda_matmul m; /* scalars that are no vectors are their values once it has started */
	bool turned;
	bool by_vectors; /* alpha, and perhaps beta, is one number for each row */
	bool skips_ab, skips_c;
	unsigned int wide, value;            /* types of sums, and of what is stored; integers: VCUDA_BLAS_R_32I */
	float factor_ab, factor_c, factor_d; /* scales of numbers of 8 bits */
	int64_t rows, columns, k;
	int64_t tile_rows, tile_columns;
	uint64_t down, tiles; /* in a column of tiles; in a matrix */
};

/* Whether there is such here: CUDA_ERROR_NOT_SUPPORTED. */
CUresult softgpu_matmul_is_possible(const vcuda_matmul *m);

/*
 * Sets the fields that depend on sizes and types only, not on addresses, and cuts the product for the device's threads.
 */
void softgpu_matmul_plan(struct softgpu_matmul *m);

void softgpu_matmul_run(struct softgpu_op *op, uint64_t unit, uint64_t count);

#endif
