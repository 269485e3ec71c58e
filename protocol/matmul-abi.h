/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products and copies of matrices as cuBLASLt describes them, on the wire. The guest keeps these structures in the
 * program's opaque ones; a computation takes copies of them. Both sides check all settings. No state: thread-safe.
 */
#ifndef VCUDA_MATMUL_ABI_H
#define VCUDA_MATMUL_ABI_H

#include <stdbool.h>

#include "cublaslt-abi.h"

/*
 * The members are in the order in which releases of CUDA added them: a descriptor of CUDA 11.0 has room for 88 bytes,
 * of 11.8 for 184. Addresses are of device memory.
 */
struct vcuda_matmul_desc {
	int32_t compute, scale, pointer_mode, trans_a, trans_b, trans_c, fill;
	uint32_t epilogue;
	uint64_t bias;
	int64_t bias_stride;
	uint64_t aux;
	int64_t aux_ld, aux_stride, alpha_stride;
	int32_t processors;
	int8_t fast;
	uint8_t reserved;
	uint16_t room; /* bytes that the guest may touch */
	uint64_t scale_a, scale_b, scale_c, scale_d, largest_d;
	int32_t aux_type, bias_type;
	uint64_t scale_aux, largest_aux;
	int32_t mode_a, mode_b, mode_c, mode_d, mode_aux, mode_out;
	uint64_t scale_out;
};

/* Attributes: number, type, member, default. */
#define VCUDA_MATMUL_ATTRIBUTES(X)                                                                                     \
	X(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, int32_t, compute, 0)                                                      \
	X(CUBLASLT_MATMUL_DESC_SCALE_TYPE, int32_t, scale, 0)                                                          \
	X(CUBLASLT_MATMUL_DESC_POINTER_MODE, int32_t, pointer_mode, CUBLASLT_POINTER_MODE_HOST)                        \
	X(CUBLASLT_MATMUL_DESC_TRANSA, int32_t, trans_a, 0)                                                            \
	X(CUBLASLT_MATMUL_DESC_TRANSB, int32_t, trans_b, 0)                                                            \
	X(CUBLASLT_MATMUL_DESC_TRANSC, int32_t, trans_c, 0)                                                            \
	X(CUBLASLT_MATMUL_DESC_FILL_MODE, int32_t, fill, VCUDA_MATMUL_FULL)                                            \
	X(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t, epilogue, CUBLASLT_EPILOGUE_DEFAULT)                                \
	X(CUBLASLT_MATMUL_DESC_BIAS_POINTER, uint64_t, bias, 0)                                                        \
	X(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, int64_t, bias_stride, 0)                                             \
	X(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, uint64_t, aux, 0)                                                 \
	X(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t, aux_ld, 0)                                                    \
	X(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, int64_t, aux_stride, 0)                                      \
	X(CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, int64_t, alpha_stride, 0)                                    \
	X(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, int32_t, processors, 0)                                                \
	X(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, uint64_t, scale_a, 0)                                                  \
	X(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, uint64_t, scale_b, 0)                                                  \
	X(CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, uint64_t, scale_c, 0)                                                  \
	X(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, uint64_t, scale_d, 0)                                                  \
	X(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, uint64_t, largest_d, 0)                                                 \
	X(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, int32_t, aux_type, -1)                                          \
	X(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER, uint64_t, scale_aux, 0)                                     \
	X(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER, uint64_t, largest_aux, 0)                                    \
	X(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t, fast, 0)                                                            \
	X(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t, bias_type, -1)                                                 \
	X(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, int32_t, mode_a, 0)                                                       \
	X(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, int32_t, mode_b, 0)                                                       \
	X(CUBLASLT_MATMUL_DESC_C_SCALE_MODE, int32_t, mode_c, 0)                                                       \
	X(CUBLASLT_MATMUL_DESC_D_SCALE_MODE, int32_t, mode_d, 0)                                                       \
	X(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_MODE, int32_t, mode_aux, 0)                                          \
	X(CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER, uint64_t, scale_out, 0)                                            \
	X(CUBLASLT_MATMUL_DESC_D_OUT_SCALE_MODE, int32_t, mode_out, 0)

/* cublasFillMode_t's: all of the matrix. */
#define VCUDA_MATMUL_FULL 2

struct vcuda_matmul_layout {
	uint32_t type;
	int32_t order;
	uint64_t rows, columns;
	int64_t ld, stride, plane;
	int32_t batch;
	uint32_t batch_mode;
};

#define VCUDA_MATMUL_LAYOUT_ATTRIBUTES(X)                                                                              \
	X(CUBLASLT_MATRIX_LAYOUT_TYPE, uint32_t, type, 0)                                                              \
	X(CUBLASLT_MATRIX_LAYOUT_ORDER, int32_t, order, CUBLASLT_ORDER_COL)                                            \
	X(CUBLASLT_MATRIX_LAYOUT_ROWS, uint64_t, rows, 0)                                                              \
	X(CUBLASLT_MATRIX_LAYOUT_COLS, uint64_t, columns, 0)                                                           \
	X(CUBLASLT_MATRIX_LAYOUT_LD, int64_t, ld, 0)                                                                   \
	X(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t, batch, 1)                                                       \
	X(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, int64_t, stride, 0)                                             \
	X(CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, int64_t, plane, 0)                                                      \
	X(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, uint32_t, batch_mode, CUBLASLT_BATCH_MODE_STRIDED)

struct vcuda_matmul_preference {
	uint32_t search, reduction;
	uint64_t workspace;
	uint32_t alignment_a, alignment_b, alignment_c, alignment_d;
	float waves;
	uint32_t reserved;
	uint64_t implementations;
};

#define VCUDA_MATMUL_PREFERENCE_ATTRIBUTES(X)                                                                          \
	X(CUBLASLT_MATMUL_PREF_SEARCH_MODE, uint32_t, search, CUBLASLT_SEARCH_BEST_FIT)                                \
	X(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t, workspace, 0)                                            \
	X(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t, reduction, CUBLASLT_REDUCTION_SCHEME_MASK)             \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint32_t, alignment_a, 256)                                      \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, uint32_t, alignment_b, 256)                                      \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, uint32_t, alignment_c, 256)                                      \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, uint32_t, alignment_d, 256)                                      \
	X(CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, float, waves, 0)                                                       \
	X(CUBLASLT_MATMUL_PREF_IMPL_MASK, uint64_t, implementations, UINT64_MAX)

/*
 * An algorithm: its settings, and the place, from 1 on, at which the worker keeps the form that its library made. For
 * place 0, or a place with another algorithm, the worker makes an algorithm from the settings. So the library never
 * gets a form from a guest, and another process can use an algorithm that a program has kept in a file.
 */
struct vcuda_matmul_algo {
	uint32_t place;
	int32_t id;
	uint32_t tile;
	int32_t splits;
	uint32_t reduction, swizzling, option, stages;
	uint16_t inner, cluster;
	uint32_t reserved;
};

#define VCUDA_MATMUL_ALGO_ATTRIBUTES(X)                                                                                \
	X(CUBLASLT_ALGO_CONFIG_ID, int32_t, id, 0)                                                                     \
	X(CUBLASLT_ALGO_CONFIG_TILE_ID, uint32_t, tile, 0)                                                             \
	X(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, int32_t, splits, 0)                                                         \
	X(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, uint32_t, reduction, 0)                                               \
	X(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, uint32_t, swizzling, 0)                                                  \
	X(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, uint32_t, option, 0)                                                     \
	X(CUBLASLT_ALGO_CONFIG_STAGES_ID, uint32_t, stages, 0)                                                         \
	X(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, uint16_t, inner, 0)                                                     \
	X(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, uint16_t, cluster, 0)

/* D = alpha op(A) op(B) + beta C, and what the epilogue makes of it. */
typedef struct vcuda_matmul {
	struct vcuda_matmul_desc desc;
	struct vcuda_matmul_layout a, b, c, d;
	uint64_t alpha[2], beta[2]; /* values or addresses, as the pointer mode says */
	uint64_t at_a, at_b, at_c, at_d, workspace, workspace_bytes;
	struct vcuda_matmul_algo algo;
} vcuda_matmul;

/* Questions about a product whose operands have no addresses yet. */
enum vcuda_matmul_kind {
	VCUDA_MATMUL_OPEN,      /* opens the host's library, and gives its version */
	VCUDA_MATMUL_HEURISTIC, /* `count` results */
	VCUDA_MATMUL_CHECK,     /* of `algo`: one result */
	VCUDA_MATMUL_IDS,       /* of algorithms for these types: `count` numbers */
	VCUDA_MATMUL_INIT,      /* `algo` with the id of `attribute`: one result */
	VCUDA_MATMUL_CAPS,      /* `attribute` of `algo`: first its bytes, then these, at most `count` of them */
	VCUDA_MATMUL_KINDS
};

typedef struct vcuda_matmul_question {
	vcuda_matmul matmul;
	struct vcuda_matmul_preference preference;
	uint32_t kind, attribute, count, reserved;
} vcuda_matmul_question;

struct vcuda_matmul_result {
	struct vcuda_matmul_algo algo;
	uint64_t workspace;
	int32_t state;
	float waves;
};

/* 8-byte words of an answer; a reply has room for them. */
#define VCUDA_MATMUL_RESULT_WORDS (sizeof(struct vcuda_matmul_result) / 8)
#define VCUDA_MATMUL_MOST_RESULTS 128
#define VCUDA_MATMUL_MOST_WORDS 960

/* C = alpha op(A) + beta op(B). */
struct vcuda_transform_desc {
	int32_t scale, pointer_mode, trans_a, trans_b;
};

#define VCUDA_TRANSFORM_ATTRIBUTES(X)                                                                                  \
	X(CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE, int32_t, scale, 0)                                                \
	X(CUBLASLT_MATRIX_TRANSFORM_DESC_POINTER_MODE, int32_t, pointer_mode, CUBLASLT_POINTER_MODE_HOST)              \
	X(CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSA, int32_t, trans_a, 0)                                                  \
	X(CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSB, int32_t, trans_b, 0)

typedef struct vcuda_transform {
	struct vcuda_transform_desc desc;
	struct vcuda_matmul_layout a, b, c; /* `b` is not looked at where at_b is 0 */
	uint64_t alpha[2], beta[2];
	uint64_t at_a, at_b, at_c;
} vcuda_transform;

/* States are blas-abi.h's. */

/* `placed`: also checks the addresses of the operands. */
int vcuda_matmul_check(const vcuda_matmul *m, bool placed);
int vcuda_matmul_question_check(const vcuda_matmul_question *q, uint32_t room);
int vcuda_transform_check(const vcuda_transform *t);

/* Properties of epilogues. */
bool vcuda_matmul_reads_bias(uint32_t epilogue);
/* Sums over columns, or over k, go to `bias`. */
bool vcuda_matmul_writes_bias(uint32_t epilogue);
bool vcuda_matmul_has_aux(uint32_t epilogue);
/* `aux` is read; else it is written. */
bool vcuda_matmul_reads_aux(uint32_t epilogue);

/* Whether the type is a floating-point type of 8 bits. */
bool vcuda_matmul_is_quarter(uint32_t type);

/* The types of the bias and of the auxiliary matrix, by the settings. */
uint32_t vcuda_matmul_bias_type(const vcuda_matmul *m);
uint32_t vcuda_matmul_aux_type(const vcuda_matmul *m);

/* Whether alpha or beta is an address. */
bool vcuda_matmul_alpha_is_address(int pointer_mode);
bool vcuda_matmul_beta_is_address(int pointer_mode);

#endif
