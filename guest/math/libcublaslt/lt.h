/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLASLt. Descriptors are in the program's memory and contain the structures of matmul-abi.h. A computation is one
 * queued command. The worker is asked for the algorithms of a product; the answer is kept for the next product with the
 * same description.
 */
#ifndef CUBLASLT_LT_H
#define CUBLASLT_LT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/matmul-abi.h"
#include "guest/math/libcublas/status.h"

struct lt_handle {
	CUcontext context;
};

/* The contents of the program's cublasLtMatmulAlgo_t. */
struct lt_algo {
	struct vcuda_matmul_algo algo;
	uint8_t compute, scale, a, b, c, d; /* the types of the product */
	uint16_t magic;                     /* LT_MAGIC: it was made here */
};

#define LT_MAGIC 0x6c74

typedef struct vcuda_matmul_desc lt_desc;
typedef struct vcuda_matmul_layout lt_layout;
typedef struct vcuda_matmul_preference lt_preference;
typedef struct vcuda_transform_desc lt_transform;
typedef cublasLtMatmulHeuristicResult_t lt_result;

/* ---- descriptor.c ---- */

/* An attribute of a structure: its place in the structure. */
struct lt_attribute {
	int number;
	uint16_t offset, size;
};

int lt_set(void *object, size_t room, const struct lt_attribute *attributes, size_t count, int number, const void *from,
	   size_t size);
int lt_get(const void *object, size_t room, const struct lt_attribute *attributes, size_t count, int number, void *to,
	   size_t size, size_t *written);

/* ---- matmul.c ---- */

/* Describes a product without the addresses of its operands. BLAS_INVALID_VALUE: something is missing. */
int lt_describe(vcuda_matmul *m, const lt_desc *desc, const lt_layout *a, const lt_layout *b, const lt_layout *c,
		const lt_layout *d);

/* ---- heuristic.c ---- */

/* Asks for `q->count` results, at most `most` of which are kept for the next time. A status. */
int lt_heuristic(const struct lt_handle *h, vcuda_matmul_question *q, struct vcuda_matmul_result *results,
		 unsigned int *count);

/* ---- logger.c ---- */

void lt_log_call(const char *name, int status);

/* ---- generated for each version of the library ---- */

extern const int cublasLt_version;

#endif
