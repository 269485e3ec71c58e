/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLASLt: products as operations of streams, as kernels are. When one may start, its operands are looked for in the
 * table of memory; a stray one ends the context, as a kernel's access would. There is one algorithm.
 */
#include "math/matmul.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/blas-abi.h"
#include "math/blas-convert.h"
#include "math/blas-library.h"
#include "device/device.h"
#include "common/log.h"
#include "device/memory.h"
#include "device/stream.h"

/* The version that cuBLASLt of the driver's age reports. */
#define VERSION 130100

/* ---- memory; with the lock held ---- */

static bool fail(struct softgpu_matmul *m, CUresult error, uint64_t address)
{
	if (softgpu_context_fail(m->op.stream->context, error))
		vcuda_log("cublasLtMatmul: %s access to memory from 0x%llx on",
			  error == CUDA_ERROR_MISALIGNED_ADDRESS ? "misaligned" : "illegal",
			  (unsigned long long)address);
	return false;
}

static bool find(struct softgpu_matmul *m, uint64_t address, uint64_t elements, uint64_t size, bool write)
{
	uint64_t bytes;

	if (address % (size < 8 ? size : 8))
		return fail(m, CUDA_ERROR_MISALIGNED_ADDRESS, address);
	if (__builtin_mul_overflow(elements, size, &bytes) || !softgpu_is_memory(address, bytes, write))
		return fail(m, CUDA_ERROR_ILLEGAL_ADDRESS, address);
	return true;
}

/* Elements of `runs` runs of `length`, `ld` apart, and of a batch of them, `stride` apart. */
static uint64_t extent(uint64_t runs, uint64_t length, int64_t ld, int64_t stride, int32_t batch)
{
	uint64_t matrix, all;

	if (__builtin_mul_overflow(runs - 1, (uint64_t)ld, &matrix) ||
	    __builtin_add_overflow(matrix, length, &matrix) ||
	    __builtin_mul_overflow((uint64_t)batch - 1, (uint64_t)stride, &all) ||
	    __builtin_add_overflow(all, matrix, &all))
		return UINT64_MAX;
	return all;
}

static bool find_matrix(struct softgpu_matmul *m, const struct vcuda_matmul_layout *l, uint64_t address, bool write)
{
	bool columns = l->order == CUBLASLT_ORDER_COL;

	return find(m, address,
		    extent(columns ? l->columns : l->rows, columns ? l->rows : l->columns, l->ld, l->stride, l->batch),
		    vcuda_blas_bytes(l->type), write);
}

static bool find_bias(struct softgpu_matmul *m)
{
	const struct vcuda_matmul_desc *d = &m->m.desc;
	bool writes = vcuda_matmul_writes_bias(d->epilogue);
	uint64_t length = d->epilogue == CUBLASLT_EPILOGUE_BGRADB ? m->m.d.columns : m->m.d.rows;

	if (!writes && !vcuda_matmul_reads_bias(d->epilogue))
		return true;
	return find(m, d->bias, extent(1, length, 0, d->bias_stride, m->m.d.batch),
		    vcuda_blas_bytes(vcuda_matmul_bias_type(&m->m)), writes);
}

static bool find_aux(struct softgpu_matmul *m)
{
	const struct vcuda_matmul_desc *d = &m->m.desc;
	bool bits = d->epilogue & CUBLASLT_EPILOGUE_RELU ||
		    (d->epilogue & CUBLASLT_EPILOGUE_DRELU) == CUBLASLT_EPILOGUE_DRELU;
	uint64_t elements = extent(m->m.d.columns, m->m.d.rows, d->aux_ld, d->aux_stride, m->m.d.batch);

	if (!vcuda_matmul_has_aux(d->epilogue))
		return true;
	if (bits)
		return find(m, d->aux, elements / 8 + (elements % 8 != 0), 1, !vcuda_matmul_reads_aux(d->epilogue));
	return find(m, d->aux, elements, vcuda_blas_bytes(vcuda_matmul_aux_type(&m->m)),
		    !vcuda_matmul_reads_aux(d->epilogue));
}

/* Alpha or beta: its value where it is one number of the device's. */
static bool fetch(struct softgpu_matmul *m, uint64_t *words, bool is_address, bool vector)
{
	unsigned int size = vcuda_blas_bytes((unsigned int)m->m.desc.scale);
	uint64_t address = words[0];

	if (!is_address)
		return true;
	if (vector)
		return find(m, address, extent(1, m->m.d.rows, 0, m->m.desc.alpha_stride, m->m.d.batch), size, false);
	if (!find(m, address, 1, size, false))
		return false;
	words[0] = words[1] = 0;
	memcpy(words, (const void *)(uintptr_t)address, size);
	return true;
}

/* Without an address the factor is 1. */
static bool fetch_factor(struct softgpu_matmul *m, uint64_t address, float *factor)
{
	float value;

	if (!address)
		return true;
	if (!find(m, address, 1, sizeof(value), false))
		return false;
	memcpy(&value, (const void *)(uintptr_t)address, sizeof(value));
	*factor *= value;
	return true;
}

static bool start_scalars(struct softgpu_matmul *m)
{
	const struct vcuda_matmul_desc *d = &m->m.desc;
	int mode = d->pointer_mode;
	bool beta_vector = mode == CUBLASLT_POINTER_MODE_DEVICE_VECTOR;

	if (!fetch(m, m->m.alpha, vcuda_matmul_alpha_is_address(mode), m->by_vectors) ||
	    !fetch(m, m->m.beta, vcuda_matmul_beta_is_address(mode), beta_vector) ||
	    !fetch_factor(m, d->scale_a, &m->factor_ab) || !fetch_factor(m, d->scale_b, &m->factor_ab) ||
	    !fetch_factor(m, d->scale_c, &m->factor_c) || !fetch_factor(m, d->scale_d, &m->factor_d))
		return false;
	m->skips_ab = !m->by_vectors && softgpu_blas_is_zero((unsigned int)m->m.desc.scale, m->m.alpha);
	m->skips_c = !beta_vector && softgpu_blas_is_zero((unsigned int)m->m.desc.scale, m->m.beta);
	if (!d->largest_d)
		return true;
	if (!find(m, d->largest_d, 1, sizeof(float), true))
		return false;
	memset((void *)(uintptr_t)d->largest_d, 0, sizeof(float));
	return true;
}

static bool start(struct softgpu_op *op)
{
	struct softgpu_matmul *m = (struct softgpu_matmul *)op;
	uint32_t epilogue = m->m.desc.epilogue;

	return start_scalars(m) &&
	       ((m->skips_ab && epilogue != CUBLASLT_EPILOGUE_BGRADA) || find_matrix(m, &m->m.a, m->m.at_a, false)) &&
	       ((m->skips_ab && epilogue != CUBLASLT_EPILOGUE_BGRADB) || find_matrix(m, &m->m.b, m->m.at_b, false)) &&
	       (m->skips_c || find_matrix(m, &m->m.c, m->m.at_c, false)) && find_matrix(m, &m->m.d, m->m.at_d, true) &&
	       find_bias(m) && find_aux(m);
}

static void finish(struct softgpu_op *op)
{
	free(op);
}

/* ---- the operation ---- */

/* Claimed several at a time where there are many. */
static uint64_t chunk(uint64_t units)
{
	uint64_t each = units / (4 * (uint64_t)softgpu_device()->threads);

	return each < 1 ? 1 : each > 64 ? 64 : each;
}

CUresult softgpu_matmul(CUstream handle, void *matmul)
{
	CUresult result = softgpu_blas_open();
	struct softgpu_matmul *m;

	if (result == CUDA_SUCCESS)
		result = softgpu_matmul_is_possible(matmul);
	if (result != CUDA_SUCCESS)
		return result;
	m = calloc(1, sizeof(*m));
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->m = *(const vcuda_matmul *)matmul;
	softgpu_matmul_plan(m);
	m->op.chunk = chunk(m->op.units);
	m->op.start = start;
	m->op.run = softgpu_matmul_run;
	m->op.finish = finish;
	return softgpu_stream_submit(handle, &m->op);
}

/* ---- questions ---- */

/* Bytes of a capability of the only algorithm; 0: unknown attribute. */
static uint32_t capability(uint32_t attribute, uint64_t *value)
{
	switch (attribute) {
	case CUBLASLT_ALGO_CAP_STRIDED_BATCH_SUPPORT:
	case CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT:
		*value = 1;
		return 4;
	case CUBLASLT_ALGO_CAP_POINTER_MODE_MASK:
		*value = (2 << CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST) - 1;
		return 4;
	case CUBLASLT_ALGO_CAP_EPILOGUE_MASK:
		*value = 0x3ff;
		return 4;
	case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES:
	case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES:
	case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES:
	case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES:
		*value = 1;
		return 4;
	case CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS:
		*value = 1; /* products are added one by one */
		return 8;
	case CUBLASLT_ALGO_CAP_SPLITK_SUPPORT:
	case CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK:
	case CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT:
	case CUBLASLT_ALGO_CAP_UPLO_SUPPORT:
	case CUBLASLT_ALGO_CAP_TILE_IDS:
	case CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX:
	case CUBLASLT_ALGO_CAP_CUSTOM_MEMORY_ORDER:
	case CUBLASLT_ALGO_CAP_STAGES_IDS:
	case CUBLASLT_ALGO_CAP_LD_NEGATIVE:
	case CUBLASLT_ALGO_CAP_POINTER_ARRAY_BATCH_SUPPORT:
	case CUBLASLT_ALGO_CAP_FLOATING_POINT_EMULATION_SUPPORT:
		*value = 0;
		return 4;
	default:
		return 0;
	}
}

static CUresult answer_capability(const vcuda_matmul_question *q, uint64_t *words, uint32_t *count)
{
	uint64_t value;
	uint32_t bytes = capability(q->attribute, &value);

	if (!bytes || (q->count && q->count < bytes))
		return CUDA_ERROR_INVALID_VALUE;
	words[0] = bytes;
	*count = 1;
	if (q->count)
		words[(*count)++] = value;
	return CUDA_SUCCESS;
}

/* The settings of the algorithm change nothing. */
static CUresult answer_result(uint64_t *words, uint32_t *count)
{
	const struct vcuda_matmul_result result = {.algo = {.place = 1, .splits = 1}, .waves = 1};

	memcpy(words, &result, sizeof(result));
	*count = VCUDA_MATMUL_RESULT_WORDS;
	return CUDA_SUCCESS;
}

CUresult softgpu_matmulAsk(void *question, void *words, uint32_t *count)
{
	const vcuda_matmul_question *q = question;
	CUresult result = softgpu_blas_open();

	*count = 0;
	if (result != CUDA_SUCCESS)
		return result;
	switch (q->kind) {
	case VCUDA_MATMUL_OPEN:
		*(uint64_t *)words = VERSION;
		*count = 1;
		return CUDA_SUCCESS;
	case VCUDA_MATMUL_IDS:
		*(uint64_t *)words = 0;
		*count = 1;
		return CUDA_SUCCESS;
	case VCUDA_MATMUL_CAPS:
		return answer_capability(q, words, count);
	case VCUDA_MATMUL_INIT:
		return q->attribute ? CUDA_ERROR_INVALID_VALUE : answer_result(words, count);
	default:
		result = softgpu_matmul_is_possible(&q->matmul);
		return result == CUDA_SUCCESS ? answer_result(words, count) : result;
	}
}
