/* SPDX-License-Identifier: Apache-2.0 */
#include "math/matmul-epilogue.h"

#include <math.h>

#include "math/blas-convert.h"
#include "math/blas-product.h"
#include "protocol/matmul-abi.h"

/* GELU by the hyperbolic tangent, as cuBLASLt has it. */
#define ROOT_2_OVER_PI 0.7978845608f
#define CUBIC 0.044715f

static float gelu(float x)
{
	return 0.5f * x * (1 + tanhf(ROOT_2_OVER_PI * (x + CUBIC * x * x * x)));
}

static float gelu_slope(float x)
{
	float t = tanhf(ROOT_2_OVER_PI * (x + CUBIC * x * x * x));

	return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * ROOT_2_OVER_PI * (1 + 3 * CUBIC * x * x);
}

static void add_bias(const struct softgpu_epilogue *e, float *v, int64_t row, int64_t column, int64_t n)
{
	float bias[SOFTGPU_PRODUCT_BLOCK];
	int64_t first = e->across ? column : row;

	softgpu_blas_widen(e->bias_type, e->bias + first * vcuda_blas_bytes(e->bias_type), 1, e->across ? 1 : n,
			   VCUDA_BLAS_R_32F, bias);
	for (int64_t i = 0; i < n; i++)
		v[i] += bias[e->across ? 0 : i];
}

/* The byte of a mask that has this bit, which is a row's. */
static uint8_t *byte_of(const struct softgpu_epilogue *e, int64_t row, int64_t column)
{
	return (uint8_t *)e->aux + (column * e->aux_ld + row) / 8;
}

static void write_mask(const struct softgpu_epilogue *e, const float *v, int64_t row, int64_t column, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		uint8_t *byte = byte_of(e, row + i, column), bit = (uint8_t)(1 << (row + i) % 8);

		*byte = (uint8_t)(v[i] < 0 ? *byte & ~bit : *byte | bit);
	}
}

static void read_mask(const struct softgpu_epilogue *e, float *v, int64_t row, int64_t column, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (!(*byte_of(e, row + i, column) >> (row + i) % 8 & 1))
			v[i] = 0;
}

static char *aux_at(const struct softgpu_epilogue *e, int64_t row, int64_t column)
{
	return e->aux + (column * e->aux_ld + row) * vcuda_blas_bytes(e->aux_type);
}

/* A NaN is not less than 0 and stays as it is, as with NVIDIA's. */
static void forward(const struct softgpu_epilogue *e, float *v, int64_t row, int64_t column, int64_t n)
{
	bool aux = vcuda_matmul_has_aux(e->kind);

	if (e->kind & CUBLASLT_EPILOGUE_RELU) {
		if (aux)
			write_mask(e, v, row, column, n);
		for (int64_t i = 0; i < n; i++)
			v[i] = v[i] < 0 ? 0 : v[i];
	} else if (e->kind & CUBLASLT_EPILOGUE_GELU) {
		if (aux)
			softgpu_blas_narrow(VCUDA_BLAS_R_32F, v, n, e->aux_type, aux_at(e, row, column), 1);
		for (int64_t i = 0; i < n; i++)
			v[i] = gelu(v[i]);
	}
}

void softgpu_epilogue_apply(const struct softgpu_epilogue *e, float *v, int64_t row, int64_t column, int64_t n)
{
	float before[SOFTGPU_PRODUCT_BLOCK];

	if (vcuda_matmul_reads_bias(e->kind))
		add_bias(e, v, row, column, n);
	if (!vcuda_matmul_reads_aux(e->kind)) {
		forward(e, v, row, column, n);
	} else if (e->kind == CUBLASLT_EPILOGUE_DRELU || e->kind == CUBLASLT_EPILOGUE_DRELU_BGRAD) {
		read_mask(e, v, row, column, n);
	} else {
		softgpu_blas_widen(e->aux_type, aux_at(e, row, column), 1, n, VCUDA_BLAS_R_32F, before);
		for (int64_t i = 0; i < n; i++)
			v[i] *= gelu_slope(before[i]);
	}
}
