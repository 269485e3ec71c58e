/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuRAND where something is wrong: rand-errors invalid|stray|hostile, and rand-errors queued, which makes 1000 calls
 * between two synchronisations, for `--stats`.
 */
#include <math.h>

#include "protocol/cuda-functions.h"
#include "parts.h"
#include "protocol/types.h"

enum {
	NOT_INITIALIZED = 101,
	TYPE_ERROR = 103,
	OUT_OF_RANGE = 104,
	LENGTH_NOT_MULTIPLE = 105,
};

enum { XORWOW = 101, MRG32K3A = 121, MTGP32 = 141, MT19937 = 142, PHILOX = 161, SOBOL32 = 201, SOBOL64 = 203 };

int curandCreateGenerator(void **generator, int type);
int curandCreateGeneratorHost(void **generator, int type);
int curandDestroyGenerator(void *generator);
int curandGetVersion(int *version);
int curandGetProperty(int type, int *value);
int curandSetStream(void *generator, CUstream stream);
int curandSetPseudoRandomGeneratorSeed(void *generator, unsigned long long seed);
int curandSetGeneratorOffset(void *generator, unsigned long long offset);
int curandSetGeneratorOrdering(void *generator, int ordering);
int curandSetQuasiRandomGeneratorDimensions(void *generator, unsigned int dimensions);
int curandGenerate(void *generator, unsigned int *out, size_t n);
int curandGenerateLongLong(void *generator, unsigned long long *out, size_t n);
int curandGenerateUniform(void *generator, float *out, size_t n);
int curandGenerateNormal(void *generator, float *out, size_t n, float mean, float deviation);
int curandGenerateNormalDouble(void *generator, double *out, size_t n, double mean, double deviation);
int curandGeneratePoisson(void *generator, unsigned int *out, size_t n, double lambda);
int curandGenerateSeeds(void *generator);
int curandGetDirectionVectors32(unsigned int (**vectors)[32], int set);
int curandGetDirectionVectors64(unsigned long long (**vectors)[64], int set);

#define N 1024

static CUdeviceptr memory(size_t bytes)
{
	CUdeviceptr p;

	CHECK(!cuMemAlloc_v2(&p, bytes));
	return p;
}

static void *as(CUdeviceptr address)
{
	return (void *)(uintptr_t)address;
}

/* Dimensions from the last on: not the first few only. */
static void directions(void)
{
	unsigned int(*narrow)[32];
	unsigned long long(*wide)[64];

	CHECK(curandGetDirectionVectors32(&narrow, 100) == OUT_OF_RANGE && !curandGetDirectionVectors32(&narrow, 101));
	CHECK(curandGetDirectionVectors64(&wide, 101) == OUT_OF_RANGE && !curandGetDirectionVectors64(&wide, 103));
	CHECK(narrow[0][31] == 1 && narrow[2][3] == 0x90000000 && narrow[19999][5] == 0x94000000);
	for (int i = 0; i < 20000; i++)
		for (int k = 0; k < 32; k++)
			CHECK(wide[i][k] >> 32 == narrow[i][k] && wide[i][k + 32] & 1ull << (31 - k));
}

/* Calls that no library makes: invalid dimensions and widths, and parts of dimensions. */
static void scrambles(void)
{
	static const unsigned int wrong[][3] = {
		{0, 0, 1},   {33, 0, 34},     {31, 0, 32},     {0xffffffff, 0, 1}, {32, 0, 0},          {32, 0, 34},
		{64, 0, 64}, {32, 20000, 33}, {32, 19999, 66}, {64, 19990, 715},   {32, 0xffffffff, 33}};
	static uint64_t words[1000];
	CUresult result = cuVcudaRandomScrambles(64, 19999, 65, words);

	CHECK(!result || result == CUDA_ERROR_NOT_SUPPORTED);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CHECK(cuVcudaRandomScrambles(wrong[i][0], wrong[i][1], wrong[i][2], words) == CUDA_ERROR_INVALID_VALUE);
}

static void quasi(int (*create)(void **, int), void *out)
{
	void *g;

	CHECK(!create(&g, 200) && curandSetPseudoRandomGeneratorSeed(g, 1) == TYPE_ERROR);
	CHECK(curandSetQuasiRandomGeneratorDimensions(g, 0) == OUT_OF_RANGE);
	CHECK(curandSetQuasiRandomGeneratorDimensions(g, 20001) == OUT_OF_RANGE);
	CHECK(!curandSetQuasiRandomGeneratorDimensions(g, 3) && curandSetGeneratorOrdering(g, 101) == OUT_OF_RANGE);
	CHECK(curandGenerate(g, out, 4) == LENGTH_NOT_MULTIPLE && !curandGenerate(g, out, 6));
	CHECK(curandGenerateLongLong(g, out, 3) == TYPE_ERROR && !curandDestroyGenerator(g));
	CHECK(!create(&g, SOBOL64) && curandGenerate(g, out, 4) == TYPE_ERROR && !curandGenerateLongLong(g, out, 4));
	CHECK(!curandDestroyGenerator(g) && !create(&g, MTGP32) && curandSetGeneratorOffset(g, 1) == TYPE_ERROR);
	CHECK(curandSetGeneratorOrdering(g, 102) == OUT_OF_RANGE && !curandSetGeneratorOrdering(g, 100));
	CHECK(!curandGenerateNormal(g, out, 3, 0, 1) && curandGenerateLongLong(g, out, 3) == TYPE_ERROR);
	CHECK(!curandDestroyGenerator(g) && !create(&g, MT19937) && curandSetGeneratorOffset(g, 1) == TYPE_ERROR);
	CHECK(!curandGenerateNormal(g, out, 3, 0, 1) && !curandDestroyGenerator(g));
}

static void invalid_with(int (*create)(void **, int), void *out)
{
	void *g, *pseudo;

	CHECK(create(NULL, XORWOW) == NOT_INITIALIZED && create(&g, 1) == TYPE_ERROR && create(&g, 205) == TYPE_ERROR);
	CHECK(!create(&pseudo, 100));
	CHECK(curandSetGeneratorOrdering(pseudo, 201) == OUT_OF_RANGE);
	CHECK(curandSetGeneratorOrdering(pseudo, 99) == OUT_OF_RANGE && !curandSetGeneratorOrdering(pseudo, 102));
	CHECK(curandSetQuasiRandomGeneratorDimensions(pseudo, 1) == TYPE_ERROR);
	CHECK(curandGenerateLongLong(pseudo, out, 2) == TYPE_ERROR && !curandGenerateLongLong(pseudo, out, 0));
	CHECK(curandGenerateNormal(pseudo, out, 3, 0, 1) == LENGTH_NOT_MULTIPLE);
	CHECK(curandGenerateNormalDouble(pseudo, out, 1, 0, 1) == LENGTH_NOT_MULTIPLE);
	CHECK(!curandGenerateNormal(pseudo, out, 4, 0, 1) && !curandGenerateSeeds(pseudo));
	CHECK(curandGenerateUniform(pseudo, out, (size_t)1 << 62) == OUT_OF_RANGE);
	CHECK(curandGeneratePoisson(pseudo, out, 2, 0) == OUT_OF_RANGE &&
	      !curandGeneratePoisson(pseudo, out, 2, 1e-300));
	CHECK(curandGeneratePoisson(pseudo, out, 2, 400001) == OUT_OF_RANGE);
	CHECK(curandGeneratePoisson(pseudo, out, 2, NAN) == OUT_OF_RANGE);
	CHECK(!curandDestroyGenerator(pseudo));
	CHECK(!create(&pseudo, PHILOX) && curandSetGeneratorOrdering(pseudo, 102) == OUT_OF_RANGE);
	CHECK(!curandGenerateNormal(pseudo, out, 3, 0, 1) && !curandDestroyGenerator(pseudo));
}

/* Found at the call: nothing is done and nothing is lost. */
static void invalid(void)
{
	static double host[N];
	CUdeviceptr d = memory(sizeof(host));
	int value;
	void *g;

	CHECK(curandGenerate(NULL, NULL, 1) == NOT_INITIALIZED && curandDestroyGenerator(NULL) == NOT_INITIALIZED);
	CHECK(curandSetStream(NULL, NULL) == NOT_INITIALIZED && curandGenerateSeeds(NULL) == NOT_INITIALIZED);
	CHECK(curandSetPseudoRandomGeneratorSeed(NULL, 1) == NOT_INITIALIZED);
	CHECK(!curandGetVersion(&value) && value == 10400);
	CHECK(!curandGetProperty(0, &value) && value == 10 && !curandGetProperty(1, &value) && value == 4);
	CHECK(!curandGetProperty(2, &value) && value == 0 && curandGetProperty(3, &value) == OUT_OF_RANGE);
	invalid_with(curandCreateGeneratorHost, host);
	invalid_with(curandCreateGenerator, as(d));
	quasi(curandCreateGeneratorHost, host);
	quasi(curandCreateGenerator, as(d));
	directions();
	scrambles();
	CHECK(!curandCreateGeneratorHost(&g, XORWOW));
	CHECK(curandSetGeneratorOrdering(g, 104) == OUT_OF_RANGE && curandGenerateUniform(g, NULL, 2) == OUT_OF_RANGE);
	CHECK(!curandDestroyGenerator(g));
	CHECK(!curandCreateGenerator(&g, XORWOW) && !curandSetGeneratorOrdering(g, 104) && !curandDestroyGenerator(g));
	CHECK(!cuCtxSynchronize());
}

/* In a context of its own: what it ends with. */
static CUresult in_context(void (*part)(void *g, CUdeviceptr a))
{
	CUcontext context;
	CUresult result;
	void *g;

	CHECK(!cuCtxCreate_v2(&context, 0, 0) && !curandCreateGenerator(&g, XORWOW));
	part(g, memory(N * sizeof(double)));
	result = cuCtxSynchronize();
	curandDestroyGenerator(g);
	cuCtxDestroy_v2(context);
	return result;
}

static void beyond(void *g, CUdeviceptr a)
{
	curandGenerateUniform(g, as(a + 4), 2 * N);
}

static void beside(void *g, CUdeviceptr a)
{
	curandGenerateUniform(g, as(4096), 1);
}

static void huge(void *g, CUdeviceptr a)
{
	curandGenerateNormalDouble(g, as(a), (size_t)1 << 40, 0, 1);
}

static void misaligned(void *g, CUdeviceptr a)
{
	curandGenerateNormalDouble(g, as(a + 4), 2, 0, 1);
}

static void to_host(void *g, CUdeviceptr a)
{
	static float host[2];

	curandGenerateUniform(g, host, 2);
}

/* The context goes before its generators; a generator before what it was asked for is done. */
static void unordered(void *g, CUdeviceptr a)
{
	CUstream streams[2];
	void *other;

	CHECK(!curandCreateGenerator(&other, PHILOX) && !cuStreamCreate(&streams[0], 1) &&
	      !cuStreamCreate(&streams[1], 1));
	for (int i = 0; i < 200; i++) {
		CHECK(!curandSetStream(other, streams[i % 2]));
		CHECK(!curandGenerateUniform(other, as(a), 2 * N) && !curandGenerateUniform(g, as(a), 2 * N));
	}
	CHECK(!curandDestroyGenerator(other) && !curandCreateGenerator(&other, MRG32K3A));
}

static void stray(void)
{
	CHECK(in_context(beyond) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(beside) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(huge) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(to_host) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(misaligned) == CUDA_ERROR_MISALIGNED_ADDRESS);
	CHECK(in_context(unordered) == CUDA_SUCCESS);
}

/* ---- what no library sends ---- */

static uint32_t pick(const uint32_t *from, size_t count)
{
	return random_bits() % 16 ? from[random_bits() % count] : (uint32_t)random_bits();
}

static void nonsense(void *g, CUdeviceptr a)
{
	static const uint32_t types[] = {101, 121, 141, 142, 161, 201, 202, 203, 204}, some[] = {0, 1, 2, 3, 20000},
			      orderings[] = {100, 101, 102, 103, 104, 201};
	vcuda_generator made[sizeof(types) / sizeof(types[0])] = {NULL};
	CUresult result;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		result = cuVcudaRandomCreate(&made[i], types[i]);
		CHECK(!result || result == CUDA_ERROR_NOT_SUPPORTED);
	}
	for (int i = 0; i < 500; i++) {
		size_t which = random_bits() % (sizeof(types) / sizeof(types[0]));
		vcuda_random r = {
			.type = random_bits() % 8 ? types[which] : pick(types, 9),
			.ordering = pick(orderings, 6),
			.dimensions = random_bits() % 2 ? 1 : pick(some, 5),
			.fresh = random_bits() % 2,
			.kind = (uint32_t)random_bits() % 10,
			.seed = random_bits(),
			.offset = random_bits() >> random_bits() % 64,
			.address = a + random_bits() % 16 / 15 * random_bits(),
			.count = random_bits() % 16 ? random_bits() % N : random_bits() >> random_bits() % 64,
			.a = ldexp((double)random_bits(), -(int)(random_bits() % 128)),
			.b = random_bits() % 2 ? NAN : INFINITY,
		};

		cuVcudaRandom(NULL, made[which], &r);
	}
	CHECK(cuVcudaRandomCreate(&made[0], 5) != CUDA_SUCCESS);
	cuVcudaRandomDestroy((vcuda_generator)(uintptr_t)random_bits());
}

static void hostile(void)
{
	for (int i = 0; i < 40; i++) {
		CUresult result = in_context(nonsense);

		CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE ||
		      result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_NOT_SUPPORTED ||
		      result == CUDA_ERROR_ILLEGAL_ADDRESS || result == CUDA_ERROR_MISALIGNED_ADDRESS);
	}
	CHECK(in_context(unordered) == CUDA_SUCCESS);
}

static void queued(void)
{
	static float host[N], ours[N];
	CUdeviceptr d = memory(sizeof(host));
	void *g, *h;

	CHECK(!curandCreateGenerator(&g, XORWOW) && !curandCreateGeneratorHost(&h, XORWOW));
	for (int i = 0; i < 500; i++) {
		CHECK(!curandGenerateUniform(g, as(d), N) && !curandGenerateNormal(g, as(d), N, 0, 1));
		CHECK(!curandGenerateUniform(h, host, N) && !curandGenerateNormal(h, host, N, 0, 1));
	}
	CHECK(!cuMemcpyDtoH_v2(ours, d, sizeof(ours)) && !curandDestroyGenerator(g) && !curandDestroyGenerator(h));
	for (int i = 0; i < N; i++)
		CHECK(fabsf(ours[i] - host[i]) < 1e-4f);
}

int main(int argc, char **argv)
{
	static const struct part parts[] = {
		{"invalid", invalid}, {"stray", stray}, {"hostile", hostile}, {"queued", queued}, {NULL, NULL}};

	return run_part(argc, argv, parts);
}
