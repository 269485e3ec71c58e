/* SPDX-License-Identifier: Apache-2.0 */
/* The host's cuBLASLt: its functions, and algorithms. */
#ifndef VCUDA_CUDA_LT_LIBRARY_H
#define VCUDA_CUDA_LT_LIBRARY_H

#include "protocol/backend.h"
#include "protocol/matmul-abi.h"

typedef int (*lt_set)(void *object, int attribute, const void *from, size_t size);

/* NULL: the library lacks some of the functions. */
struct lt_library {
	int (*create)(void **handle);
	int (*destroy)(void *handle);
	size_t (*version)(void);
	int (*desc_create)(void **desc, int compute, int scale);
	int (*desc_destroy)(void *desc);
	lt_set desc_set;
	int (*layout_create)(void **layout, uint32_t type, uint64_t rows, uint64_t columns, int64_t ld);
	int (*layout_destroy)(void *layout);
	lt_set layout_set;
	int (*preference_create)(void **preference);
	int (*preference_destroy)(void *preference);
	lt_set preference_set;
	int (*transform_create)(void **desc, int scale);
	int (*transform_destroy)(void *desc);
	lt_set transform_set;
	int (*heuristic)(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int wanted,
			 cublasLtMatmulHeuristicResult_t *results, int *given);
	int (*algo_ids)(void *handle, int compute, int scale, int a, int b, int c, int d, int wanted, int *ids,
			int *given);
	int (*algo_init)(void *handle, int compute, int scale, int a, int b, int c, int d, int id,
			 cublasLtMatmulAlgo_t *algo);
	int (*algo_check)(void *handle, void *desc, void *a, void *b, void *c, void *d,
			  const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result);
	int (*algo_cap)(const cublasLtMatmulAlgo_t *algo, int attribute, void *to, size_t size, size_t *written);
	int (*algo_get)(const cublasLtMatmulAlgo_t *algo, int attribute, void *to, size_t size, size_t *written);
	int (*algo_set)(cublasLtMatmulAlgo_t *algo, int attribute, const void *from, size_t size);
	int (*matmul)(void *handle, void *desc, const void *alpha, const void *a, void *layout_a, const void *b,
		      void *layout_b, const void *beta, const void *c, void *layout_c, void *d, void *layout_d,
		      const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes, CUstream stream);
	int (*transform)(void *handle, void *desc, const void *alpha, const void *a, void *layout_a, const void *beta,
			 const void *b, void *layout_b, void *c, void *layout_c, CUstream stream);
};

/* For one caller, once. NULL, logged: there is none. */
const struct lt_library *backend_lt_open(void);

/*
 * The library's bytes of each algorithm, in a table. These bytes never leave the worker, and the library gets only
 * bytes that it made: guests name an algorithm by its place in the table.
 */

/* The algorithm's settings and its new place; place 0 if the table is full. */
struct vcuda_matmul_algo backend_lt_algo_add(const struct lt_library *lt, const cublasLtMatmulAlgo_t *algo);

/*
 * The algorithm at the place, if it has these settings; else one that is made of the settings. Returns a
 * CUBLAS_STATUS_*.
 */
int backend_lt_find(const struct lt_library *lt, void *handle, const vcuda_matmul *m, cublasLtMatmulAlgo_t *algo);

#endif
