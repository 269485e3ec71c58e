/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that call cuBLASLt through dlopen(), whichever is found, and compare it with plain C, in the manner of
 * blas.h.
 */
#ifndef LOCAL_BLAS_LT_H
#define LOCAL_BLAS_LT_H

#include "blas.h"
#include "protocol/cublaslt-abi.h"

/* A batch of matrices in device memory, with numbers all around them. */
struct lt_matrix {
	const struct element *e;
	bool by_rows;
	int64_t rows, columns, ld, stride, batch, length;
	uint64_t address;
	cplx *now; /* the expected value */
	void *layout;
};

/* Sizes are of one of the batch. */
struct lt_matrix lt_matrix_new(char letter, bool by_rows, int64_t rows, int64_t columns, int64_t batch);
cplx *lt_at(const struct lt_matrix *m, int64_t which, int64_t i, int64_t j);
/* op: 0, or 1: of the transpose, or 2: of the conjugate transpose. */
cplx lt_op(const struct lt_matrix *m, int op, int64_t which, int64_t i, int64_t j);
/* All of it, as it is in device memory. */
cplx *lt_read(const struct lt_matrix *m);
/* `scale`: how large the sums are that made it; `error`: what more it may be off by. */
void lt_check(const struct lt_matrix *m, double scale, double error, const char *what);
void lt_matrix_free(struct lt_matrix *m);

/* The functions by their names without cublasLt. */
typedef int (*lt_set_function)(void *object, int attribute, const void *from, size_t size);
typedef int (*lt_get_function)(const void *object, int attribute, void *to, size_t size, size_t *written);

extern struct lt_functions {
	int (*Create)(void **handle);
	int (*Destroy)(void *handle);
	size_t (*GetVersion)(void);
	size_t (*GetCudartVersion)(void);
	int (*GetProperty)(int type, int *value);
	const char *(*GetStatusName)(int status);
	const char *(*GetStatusString)(int status);
	int (*HeuristicsCacheGetCapacity)(size_t *capacity);
	int (*HeuristicsCacheSetCapacity)(size_t capacity);
	int (*MatmulDescInit_internal)(void *desc, size_t size, int compute, int scale);
	int (*MatmulDescCreate)(void **desc, int compute, int scale);
	int (*MatmulDescDestroy)(void *desc);
	lt_set_function MatmulDescSetAttribute;
	lt_get_function MatmulDescGetAttribute;
	int (*MatrixLayoutInit_internal)(void *layout, size_t size, int type, uint64_t rows, uint64_t columns,
					 int64_t ld);
	int (*MatrixLayoutCreate)(void **layout, int type, uint64_t rows, uint64_t columns, int64_t ld);
	int (*MatrixLayoutDestroy)(void *layout);
	lt_set_function MatrixLayoutSetAttribute;
	lt_get_function MatrixLayoutGetAttribute;
	int (*MatmulPreferenceInit_internal)(void *preference, size_t size);
	int (*MatmulPreferenceCreate)(void **preference);
	int (*MatmulPreferenceDestroy)(void *preference);
	lt_set_function MatmulPreferenceSetAttribute;
	lt_get_function MatmulPreferenceGetAttribute;
	int (*MatrixTransformDescInit_internal)(void *desc, size_t size, int scale);
	int (*MatrixTransformDescCreate)(void **desc, int scale);
	int (*MatrixTransformDescDestroy)(void *desc);
	lt_set_function MatrixTransformDescSetAttribute;
	lt_get_function MatrixTransformDescGetAttribute;
	int (*MatmulAlgoGetHeuristic)(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,
				      int wanted, cublasLtMatmulHeuristicResult_t *results, int *given);
	int (*MatmulAlgoGetIds)(void *handle, int compute, int scale, int a, int b, int c, int d, int wanted, int *ids,
				int *given);
	int (*MatmulAlgoInit)(void *handle, int compute, int scale, int a, int b, int c, int d, int id,
			      cublasLtMatmulAlgo_t *algo);
	int (*MatmulAlgoCheck)(void *handle, void *desc, void *a, void *b, void *c, void *d,
			       const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result);
	lt_get_function MatmulAlgoCapGetAttribute;
	lt_set_function MatmulAlgoConfigSetAttribute;
	lt_get_function MatmulAlgoConfigGetAttribute;
	int (*Matmul)(void *handle, void *desc, const void *alpha, uint64_t a, void *layout_a, uint64_t b,
		      void *layout_b, const void *beta, uint64_t c, void *layout_c, uint64_t d, void *layout_d,
		      const cublasLtMatmulAlgo_t *algo, uint64_t workspace, size_t bytes, void *stream);
	int (*MatrixTransform)(void *handle, void *desc, const void *alpha, uint64_t a, void *layout_a,
			       const void *beta, uint64_t b, void *layout_b, uint64_t c, void *layout_c, void *stream);
	int (*LoggerSetCallback)(void (*callback)(int level, const char *function, const char *message));
	int (*LoggerSetLevel)(int level);
	int (*LoggerSetMask)(int mask);
	int (*LoggerForceDisable)(void);
} lt;

extern void *lt_handle, *lt_stream;

/* Whether some of what cuBLASLt has may not be there: NVIDIA's own library says so, and ours where it computes. */
bool lt_may_lack(void);
/* A call's status, or 7: what a GPU's own library refuses there may be an error of the stream. */
int lt_status(int status);

/* A number where the pointer mode of the setting wants it, of the setting's type. */
const void *lt_scalar(cplx value);

void lt_set_desc(void *desc, int attribute, int64_t value);

/* ---- the tests ---- */

void test_lt_descriptors(void);
void test_lt_algorithms(void);
void test_lt_products(void);
void test_lt_epilogues(void);
void test_lt_quarters(void);
void test_lt_transforms(void);

#endif
