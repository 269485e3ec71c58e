/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of cuBLASLt on a product before it is stored. */
#ifndef VCUDA_CPU_MATMUL_EPILOGUE_H
#define VCUDA_CPU_MATMUL_EPILOGUE_H

#include <stdbool.h>
#include <stdint.h>

/* All of one matrix of a batch. */
struct softgpu_epilogue {
	uint32_t kind;
	bool across; /* the columns that are computed are D's rows */
	unsigned int bias_type, aux_type;
	const char *bias; /* read */
	char *aux;
	int64_t aux_ld;
};

/*
 * n numbers of a column, from a row on. The one thread that does so has whole bytes of a bit mask: `row` is a multiple
 * of 8.
 */
void softgpu_epilogue_apply(const struct softgpu_epilogue *e, float *v, int64_t row, int64_t column, int64_t n);

#endif
