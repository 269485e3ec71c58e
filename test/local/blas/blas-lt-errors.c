/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLASLt where something is wrong: blas-lt-errors invalid|stray|hostile, and blas-lt-errors queued, which makes 1000
 * products between two synchronisations, for `--stats`.
 */
#include <math.h>

#include "protocol/cuda-functions.h"
#include "protocol/matmul-abi.h"
#include "test/local/parts.h"

enum { NOT_INITIALIZED = 1, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };

int cublasLtCreate(void **handle);
int cublasLtDestroy(void *handle);
int cublasLtEmulationDescCreate(void **desc);
int cublasLtMatmulDescCreate(void **desc, int compute, int scale);
int cublasLtMatmulDescDestroy(void *desc);
int cublasLtMatrixLayoutDestroy(void *layout);
int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *from, size_t size);
int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns, int64_t ld);
int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *from, size_t size);
int cublasLtMatmulPreferenceCreate(void **preference);
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,
				   int wanted, cublasLtMatmulHeuristicResult_t *results, int *given);
int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *layout_a, const void *b,
		   void *layout_b, const void *beta, const void *c, void *layout_c, void *d, void *layout_d,
		   const void *algo, void *workspace, size_t bytes, void *stream);
int cublasLtMatrixTransformDescCreate(void **desc, int scale);
int cublasLtMatrixTransform(void *handle, void *desc, const void *alpha, const void *a, void *layout_a,
			    const void *beta, const void *b, void *layout_b, void *c, void *layout_c, void *stream);
int cublasLtLoggerSetCallback(void (*callback)(int level, const char *function, const char *message));
int cublasLtLoggerSetLevel(int level);

#define N 64

static const float one = 1, none = 0;
static void *h, *desc, *square;

static float *memory(size_t floats)
{
	CUdeviceptr p;

	CHECK(!cuMemAlloc_v2(&p, floats * sizeof(float)) && !cuMemsetD32_v2(p, 0x3f800000, floats));
	return (float *)(uintptr_t)p;
}

static void *layout(uint64_t rows, uint64_t columns, int64_t ld)
{
	void *made;

	CHECK(!cublasLtMatrixLayoutCreate(&made, 0, rows, columns, ld));
	return made;
}

static void set_desc(int attribute, int64_t value, size_t size)
{
	CHECK(!cublasLtMatmulDescSetAttribute(desc, attribute, &value, size));
}

static void begin(void)
{
	CHECK(!cublasLtCreate(&h) && !cublasLtMatmulDescCreate(&desc, 68, 0));
	square = layout(N, N, N);
}

/* The square product of `a`, with other layouts than that of a square matrix. */
static int with(float *a, void *layout_a, void *layout_b, void *layout_c, void *layout_d)
{
	return cublasLtMatmul(h, desc, &one, a, layout_a, a, layout_b, &none, a + N * N, layout_c, a + N * N, layout_d,
			      NULL, NULL, 0, NULL);
}

static int lines;

static void line(int level, const char *function, const char *message)
{
	CHECK(level == 1 && strstr(function, "Matmul") && strstr(message, "status 7"));
	lines++;
}

/* Layouts that do not go together. */
static void invalid_layouts(float *a)
{
	void *batch = layout(N, N, N), *by_rows = layout(N, N, N), *strange = layout(N, N, N);
	int32_t two = 2, row = CUBLASLT_ORDER_ROW, thirtytwo = CUBLASLT_ORDER_COL32;

	CHECK(!cublasLtMatrixLayoutSetAttribute(batch, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &two, 4));
	CHECK(!cublasLtMatrixLayoutSetAttribute(by_rows, CUBLASLT_MATRIX_LAYOUT_ORDER, &row, 4));
	CHECK(!cublasLtMatrixLayoutSetAttribute(strange, CUBLASLT_MATRIX_LAYOUT_ORDER, &thirtytwo, 4));
	CHECK(!with(a, square, square, square, square) && !with(a, by_rows, square, by_rows, by_rows));
	CHECK(with(a, layout(N - 1, N, N), square, square, square) == INVALID_VALUE);
	CHECK(with(a, layout(N, N - 1, N), square, square, square) == INVALID_VALUE);
	CHECK(with(a, layout(N, N, N - 1), square, square, square) == INVALID_VALUE);
	CHECK(with(a, square, square, layout(N, N - 1, N), square) == INVALID_VALUE);
	CHECK(with(a, square, square, square, batch) == INVALID_VALUE);
	CHECK(with(a, layout(0, 0, 0), square, square, square) == INVALID_VALUE);
	CHECK(with(a, NULL, square, square, square) == INVALID_VALUE);
	CHECK(with(NULL, square, square, square, square) == INVALID_VALUE);
	CHECK(with(a, strange, square, square, square) == NOT_SUPPORTED);
}

static int call(void *handle, const void *alpha, float *a, const void *beta, float *c, const void *algo)
{
	return cublasLtMatmul(handle, desc, alpha, a, square, a, square, beta, c, square, a + N * N, square, algo, NULL,
			      0, NULL);
}

static void invalid_arguments(float *a)
{
	char algo[64] = {0};

	CHECK(call(NULL, &one, a, &none, a, NULL) == NOT_INITIALIZED);
	CHECK(call(h, NULL, a, &none, a, NULL) == INVALID_VALUE);
	CHECK(call(h, &one, a, NULL, a, NULL) == INVALID_VALUE);
	CHECK(call(h, &one, a, &one, NULL, NULL) == INVALID_VALUE);
	CHECK(call(h, &one, a, &none, a, algo) == INVALID_VALUE);
	/* C is not read: it need not be there. */
	CHECK(!call(h, &one, a, &none, NULL, NULL));
}

static void invalid_attributes(float *a)
{
	set_desc(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS, 4);
	CHECK(with(a, square, square, square, square) == INVALID_VALUE);
	set_desc(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU_AUX, 4);
	set_desc(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, (int64_t)(uintptr_t)a, 8);
	CHECK(with(a, square, square, square, square) == INVALID_VALUE);
	set_desc(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 72, 8);
	CHECK(with(a, square, square, square, square) == INVALID_VALUE);
	set_desc(CUBLASLT_MATMUL_DESC_EPILOGUE, 1000, 4);
	CHECK(with(a, square, square, square, square) == NOT_SUPPORTED);
	set_desc(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT, 4);
	set_desc(CUBLASLT_MATMUL_DESC_SCALE_TYPE, 1, 4);
	CHECK(with(a, square, square, square, square) == NOT_SUPPORTED);
	set_desc(CUBLASLT_MATMUL_DESC_SCALE_TYPE, 0, 4);
	set_desc(CUBLASLT_MATMUL_DESC_TRANSA, 7, 4);
	CHECK(!cublasLtLoggerSetCallback(line) && !cublasLtLoggerSetLevel(1));
	CHECK(with(a, square, square, square, square) == INVALID_VALUE && lines == 1);
	CHECK(!cublasLtLoggerSetLevel(0) && with(a, square, square, square, square) == INVALID_VALUE && lines == 1);
	set_desc(CUBLASLT_MATMUL_DESC_TRANSA, 0, 4);
}

static void invalid_questions(void)
{
	cublasLtMatmulHeuristicResult_t results[1];
	int32_t thirtytwo = CUBLASLT_ORDER_COL32, given = 0;
	void *strange = layout(N, N, N), *preference;

	CHECK(!cublasLtMatrixLayoutSetAttribute(strange, CUBLASLT_MATRIX_LAYOUT_ORDER, &thirtytwo, 4));
	CHECK(!cublasLtMatmulPreferenceCreate(&preference));
	CHECK(cublasLtMatmulAlgoGetHeuristic(h, desc, square, square, square, square, NULL, 1, results, &given) ==
	      INVALID_VALUE);
	CHECK(cublasLtMatmulAlgoGetHeuristic(h, desc, strange, square, square, square, preference, 1, results,
					     &given) == NOT_SUPPORTED &&
	      !given);
}

/* Integers have no vectors of factors: a factor is never taken from an address. */
static void invalid_vectors(float *a)
{
	void *of_integers, *in, *out;

	CHECK(!cublasLtMatmulDescCreate(&of_integers, 72, 10));
	CHECK(!cublasLtMatrixLayoutCreate(&in, 3, N, N, N) && !cublasLtMatrixLayoutCreate(&out, 10, N, N, N));
	for (int mode = CUBLASLT_POINTER_MODE_DEVICE + 1; mode <= 4; mode++) {
		CHECK(!cublasLtMatmulDescSetAttribute(of_integers, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, 4));
		CHECK(cublasLtMatmul(h, of_integers, a, a, in, a, in, mode == 2 ? (void *)a : &none, a, out, a, out,
				     NULL, NULL, 0, NULL) == NOT_SUPPORTED);
	}
	CHECK(!cublasLtMatrixLayoutDestroy(in) && !cublasLtMatrixLayoutDestroy(out));
	CHECK(!cublasLtMatmulDescDestroy(of_integers));
}

static void invalid(void)
{
	float *a = memory(3 * N * N);
	void *other;

	begin();
	invalid_layouts(a);
	invalid_arguments(a);
	invalid_attributes(a);
	invalid_questions();
	invalid_vectors(a);
	CHECK(!cublasLtMatrixTransformDescCreate(&other, 0));
	CHECK(cublasLtMatrixTransform(h, other, &one, a, square, &none, NULL, NULL, a, layout(N, N - 1, N), NULL) ==
	      INVALID_VALUE);
	CHECK(cublasLtEmulationDescCreate(&other) == NOT_SUPPORTED);
	CHECK(cublasLtDestroy(NULL) == INVALID_VALUE && !cublasLtDestroy(h) && !cuCtxSynchronize());
}

/* ---- in a context of its own: what it ends with ---- */

static CUresult in_context(void (*part)(float *a))
{
	CUcontext context;
	CUresult result;

	CHECK(!cuCtxCreate_v2(&context, 0, 0));
	begin();
	part(memory(2 * N * N));
	result = cuCtxSynchronize();
	cublasLtDestroy(h);
	cuCtxDestroy_v2(context);
	return result;
}

static void beyond(float *a)
{
	CHECK(!cublasLtMatmul(h, desc, &one, a + N * N + 1, square, a, square, &none, a, square, a, square, NULL, NULL,
			      0, NULL));
}

static void beyond_result(float *a)
{
	CHECK(!cublasLtMatmul(h, desc, &one, a, square, a, square, &none, a, square, a + 2 * N * N - 1, square, NULL,
			      NULL, 0, NULL));
}

static void beyond_bias(float *a)
{
	set_desc(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS, 4);
	set_desc(CUBLASLT_MATMUL_DESC_BIAS_POINTER, (int64_t)(uintptr_t)(a + 2 * N * N - N + 1), 8);
	CHECK(!with(a, square, square, square, square));
}

static void beyond_mask(float *a)
{
	set_desc(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU_AUX, 4);
	set_desc(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 128, 8);
	set_desc(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, (int64_t)(uintptr_t)(a + 2 * N * N) - 128 / 8 * (N - 1) - 7,
		 8);
	CHECK(!with(a, square, square, square, square));
}

static void misaligned(float *a)
{
	CHECK(!cublasLtMatmul(h, desc, &one, (char *)a + 2, square, a, square, &none, a, square, a, square, NULL, NULL,
			      0, NULL));
}

static void stray_scalar(float *a)
{
	set_desc(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE, 4);
	CHECK(!cublasLtMatmul(h, desc, (void *)64, a, square, a, square, a, a, square, a, square, NULL, NULL, 0, NULL));
}

static void overflowing(float *a)
{
	void *huge = layout(1ull << 30, 1ull << 30, 1ll << 30);

	CHECK(!with(a, huge, huge, huge, huge));
}

static void stray_transform(float *a)
{
	void *other;

	CHECK(!cublasLtMatrixTransformDescCreate(&other, 0));
	CHECK(!cublasLtMatrixTransform(h, other, &one, a, square, &none, NULL, NULL, a + N * N + 1, square, NULL));
}

/* Without alpha, A and B are not even looked at; without beta, C is not, and what it has does not matter. */
static void unread(float *a)
{
	float there[2];

	CHECK(!cuMemsetD32_v2((CUdeviceptr)(uintptr_t)a, 0x7fc00000, N * N));
	CHECK(!cublasLtMatmul(h, desc, &none, (void *)64, square, (void *)64, square, &none, a, square, a, square, NULL,
			      NULL, 0, NULL));
	CHECK(!cuMemcpyDtoH_v2(there, (CUdeviceptr)(uintptr_t)(a + N * N - 1), 8));
	CHECK(there[0] == 0 && there[1] == 1);
	/* No row of this C has an address. */
	CHECK(!cublasLtMatmul(h, desc, &one, a, square, a, square, &none, (void *)(UINTPTR_MAX - 15), square, a + N * N,
			      square, NULL, NULL, 0, NULL));
	CHECK(!cuCtxSynchronize());
}

/* A NaN stays a NaN in ReLU. */
static void no_number(float *a)
{
	float there;

	CHECK(!cuMemsetD32_v2((CUdeviceptr)(uintptr_t)a, 0x7fc00000, 1));
	set_desc(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU, 4);
	CHECK(!cublasLtMatmul(h, desc, &one, a, square, a + N, layout(N, 1, N), &none, a + N * N, layout(N, 1, N),
			      a + N * N, layout(N, 1, N), NULL, NULL, 0, NULL));
	CHECK(!cuMemcpyDtoH_v2(&there, (CUdeviceptr)(uintptr_t)(a + N * N), 4) && isnan(there));
	CHECK(!cuMemcpyDtoH_v2(&there, (CUdeviceptr)(uintptr_t)(a + N * N + 1), 4) && there == N);
}

static void stray(void)
{
	CHECK(in_context(beyond) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(beyond_result) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(beyond_bias) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(beyond_mask) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(stray_scalar) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(overflowing) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(stray_transform) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(misaligned) == CUDA_ERROR_MISALIGNED_ADDRESS);
	CHECK(in_context(unread) == CUDA_SUCCESS);
	CHECK(in_context(no_number) == CUDA_SUCCESS);
}

/* ---- what no library sends ---- */

static struct vcuda_matmul_layout sound_layout(void)
{
	return (struct vcuda_matmul_layout){.rows = 8, .columns = 8, .ld = 8, .batch = 1 + (int)(random_bits() % 2)};
}

static vcuda_matmul sound(const float *a)
{
	vcuda_matmul m = {.desc = {.compute = 68,
				   .fill = VCUDA_MATMUL_FULL,
				   .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
				   .bias_type = -1,
				   .aux_type = -1,
				   .aux_ld = 128},
			  .alpha = {0x3f800000}};
	static const uint32_t epilogues[] = {1, 2, 130, 4, 6, 134, 136, 152, 32, 160, 36, 164, 192, 208, 256, 512};

	m.a = m.b = m.c = m.d = sound_layout();
	m.desc.epilogue = epilogues[random_bits() % 16];
	m.desc.bias = m.desc.aux = m.at_a = m.at_b = m.at_c = m.at_d = (uint64_t)(uintptr_t)a;
	return m;
}

/* A few of its bytes are something else. */
static void spoil(void *object, size_t size)
{
	static const uint64_t odd[] = {0, 1, 2, 7, 64, 0x7fffffff, 0x80000000, 1ull << 40, UINT64_MAX, 1ull << 63};

	for (uint64_t n = random_bits() % 3; n; n--) {
		uint64_t value = random_bits() % 2 ? odd[random_bits() % 10] : random_bits();
		size_t bytes = random_bits() % 2 ? 4 : 8;

		memcpy((char *)object + random_bits() % (size / 4 - 1) * 4, &value, bytes);
	}
}

static void nonsense(float *a)
{
	uint64_t words[VCUDA_MATMUL_MOST_WORDS];
	unsigned int count;

	for (unsigned int i = 0; i < 400; i++) {
		vcuda_matmul_question q = {.matmul = sound(a),
					   .preference = {0, 7, 0, 16, 16, 16, 16, 0, 0, UINT64_MAX}};
		vcuda_transform t = {
			.a = sound_layout(), .b = sound_layout(), .c = sound_layout(), .alpha = {0x3f800000}};
		unsigned int room = (unsigned int)random_bits() % VCUDA_MATMUL_MOST_WORDS;

		q.kind = (uint32_t)random_bits() % VCUDA_MATMUL_KINDS;
		q.attribute = (uint32_t)random_bits() % 30;
		q.count = (uint32_t)random_bits() % 9;
		t.at_a = t.at_b = t.at_c = (uint64_t)(uintptr_t)a;
		spoil(&q, sizeof(q));
		spoil(&q.matmul, sizeof(q.matmul));
		spoil(&t, sizeof(t));
		cuVcudaMatmulAsk(&q, room, &count, words);
		cuVcudaMatmul(NULL, &q.matmul);
		cuVcudaTransform(NULL, &t);
	}
	cuVcudaMatmulAsk(&(vcuda_matmul_question){.kind = UINT32_MAX}, 1, &count, words);
}

static void hostile(void)
{
	for (int i = 0; i < 100; i++) {
		CUresult result = in_context(nonsense);

		CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE ||
		      result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_ILLEGAL_ADDRESS ||
		      result == CUDA_ERROR_MISALIGNED_ADDRESS);
	}
	CHECK(in_context(unread) == CUDA_SUCCESS);
}

/* The heuristic is asked once. */
static void queued(void)
{
	float *a = memory(3 * N * N), there;
	void *preference;

	begin();
	CHECK(!cublasLtMatmulPreferenceCreate(&preference));
	for (int i = 0; i < 1000; i++) {
		cublasLtMatmulHeuristicResult_t result;
		int given;

		CHECK(!cublasLtMatmulAlgoGetHeuristic(h, desc, square, square, square, square, preference, 1, &result,
						      &given));
		CHECK(given == 1 && !cublasLtMatmul(h, desc, &one, a, square, a, square, &one, a + N * N, square,
						    a + N * N, square, &result.algo, NULL, 0, NULL));
	}
	CHECK(!cuMemcpyDtoH_v2(&there, (CUdeviceptr)(uintptr_t)(a + N * N), 4) && there == 1000 * N + 1);
}

int main(int argc, char **argv)
{
	static const struct part parts[] = {
		{"invalid", invalid}, {"stray", stray}, {"hostile", hostile}, {"queued", queued}, {NULL, NULL}};

	return run_part(argc, argv, parts);
}
