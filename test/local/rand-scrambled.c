/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scrambled Sobol sequences: rand-scrambled even|tables|device|settings, on whatever back end; and rand-scrambled own,
 * where the scrambles are those of this project, which a plain program with its own Philox gave as well.
 */
#include <math.h>
#include <stdbool.h>

#include "parts.h"

enum { SOBOL32 = 201, SCRAMBLED32 = 202, SOBOL64 = 203, SCRAMBLED64 = 204 };

int curandCreateGenerator(void **generator, int type);
int curandCreateGeneratorHost(void **generator, int type);
int curandDestroyGenerator(void *generator);
int curandSetGeneratorOffset(void *generator, unsigned long long offset);
int curandSetQuasiRandomGeneratorDimensions(void *generator, unsigned int dimensions);
int curandGenerate(void *generator, unsigned int *out, size_t n);
int curandGenerateLongLong(void *generator, unsigned long long *out, size_t n);
int curandGenerateUniform(void *generator, float *out, size_t n);
int curandGenerateUniformDouble(void *generator, double *out, size_t n);
int curandGenerateNormal(void *generator, float *out, size_t n, float mean, float deviation);
int curandGenerateNormalDouble(void *generator, double *out, size_t n, double mean, double deviation);
int curandGenerateLogNormal(void *generator, float *out, size_t n, float mean, float deviation);
int curandGenerateLogNormalDouble(void *generator, double *out, size_t n, double mean, double deviation);
int curandGeneratePoisson(void *generator, unsigned int *out, size_t n, double lambda);
int curandGetDirectionVectors32(unsigned int (**vectors)[32], int set);
int curandGetDirectionVectors64(unsigned long long (**vectors)[64], int set);
int curandGetScrambleConstants32(unsigned int **constants);
int curandGetScrambleConstants64(unsigned long long **constants);

#define ALL 20000

static void *host(int type, unsigned int dimensions, uint64_t offset)
{
	void *g;

	CHECK(!curandCreateGeneratorHost(&g, type) && !curandSetQuasiRandomGeneratorDimensions(g, dimensions));
	CHECK(!curandSetGeneratorOffset(g, offset));
	return g;
}

/* `count` of each dimension, as words of 64 bits: those of 32 bits in the upper half. */
static void draw(void *g, int type, uint64_t *out, size_t count)
{
	if (type == SCRAMBLED64 || type == SOBOL64) {
		CHECK(!curandGenerateLongLong(g, (unsigned long long *)out, count));
		return;
	}
	CHECK(!curandGenerate(g, (unsigned int *)out, count));
	for (size_t i = count; i--;)
		out[i] = (uint64_t)((uint32_t *)out)[i] << 32;
}

static uint64_t *numbers(int type, unsigned int dimensions, uint64_t offset, size_t each)
{
	uint64_t *out = malloc(each * dimensions * sizeof(*out));
	void *g = host(type, dimensions, offset);

	CHECK(out);
	draw(g, type, out, each * dimensions);
	CHECK(!curandDestroyGenerator(g));
	return out;
}

/* ---- how evenly the points lie ---- */

/* Each of 2^k points must be in a cell of its own: 2^p parts of the one axis, 2^(k - p) of the other. */
static void check_cells(const uint64_t *x, const uint64_t *y, unsigned int k, unsigned int p)
{
	uint8_t seen[1 << 12] = {0};

	for (unsigned int i = 0; i < 1u << k; i++) {
		uint64_t cell = (p ? x[i] >> (64 - p) << (k - p) : 0) | (k > p ? y[i] >> (64 - k + p) : 0);

		CHECK(!seen[cell]);
		seen[cell] = 1;
	}
}

/* A block of 2^k points that starts at a multiple of 2^k: every dimension by itself, and the first two together. */
static void even_from(int type, uint64_t offset)
{
	const unsigned int most = 12, dimensions = 250;
	uint64_t *x = numbers(type, dimensions, offset, 1 << most);

	for (unsigned int k = 0; k <= most; k++) {
		for (unsigned int i = 0; i < dimensions; i++)
			check_cells(x + ((size_t)i << most), x, k, k);
		for (unsigned int p = 0; p <= k; p++)
			check_cells(x, x + (1 << most), k, p);
	}
	free(x);
}

static void even(void)
{
	uint64_t *x;

	for (int type = SCRAMBLED32; type <= SCRAMBLED64; type += 2) {
		even_from(type, 0);
		even_from(type, 5 << 12);
		x = numbers(type, ALL, 0, 32);
		for (size_t i = 0; i < ALL; i++)
			for (unsigned int k = 1; k <= 5; k++)
				check_cells(x + i * 32, x, k, k);
		free(x);
	}
}

/* ---- what programs give to their own kernels ---- */

/* As a kernel computes it: to the constant come those directions whose bits are set in the place's Gray code. */
static uint64_t sum(const uint64_t *directions, uint64_t constant, uint64_t place)
{
	for (uint64_t gray = place ^ place >> 1; gray; gray &= gray - 1)
		constant ^= directions[__builtin_ctzll(gray)];
	return constant;
}

static void check_table(int type, const uint64_t *is, uint64_t offset, size_t each)
{
	unsigned int bits = type == SCRAMBLED32 ? 32 : 64;
	unsigned int(*narrow)[32], *narrow_constants;
	unsigned long long(*wide)[64], *wide_constants;
	uint64_t directions[64], constant;

	CHECK(!curandGetDirectionVectors32(&narrow, 102) && !curandGetScrambleConstants32(&narrow_constants));
	CHECK(!curandGetDirectionVectors64(&wide, 104) && !curandGetScrambleConstants64(&wide_constants));
	for (size_t i = 0; i < ALL; i++) {
		for (unsigned int k = 0; k < bits; k++)
			directions[k] = bits == 32 ? (uint64_t)narrow[i][k] << 32 : wide[i][k];
		constant = bits == 32 ? (uint64_t)narrow_constants[i] << 32 : wide_constants[i];
		for (size_t at = 0; at < each; at++)
			CHECK(is[i * each + at] == sum(directions, constant, offset + at));
	}
}

static void tables(void)
{
	static const uint64_t offsets[] = {0, 12345, 0xfffffff0};
	unsigned int(*again)[32], (*narrow)[32];
	uint64_t *x;

	for (int type = SCRAMBLED32; type <= SCRAMBLED64; type += 2)
		for (unsigned int i = 0; i < 3; i++) {
			x = numbers(type, ALL, offsets[i], 16);
			check_table(type, x, offsets[i], 16);
			free(x);
		}
	/* Programs keep the pointer; the plain table is another. */
	CHECK(!curandGetDirectionVectors32(&narrow, 102) && !curandGetDirectionVectors32(&again, 102));
	CHECK(again == narrow && !curandGetDirectionVectors32(&again, 101) && again[7][3] != narrow[7][3]);
	CHECK(curandGetDirectionVectors32(&again, 104) == 104 && curandGetScrambleConstants32(NULL) == 104);
	CHECK(curandGetScrambleConstants64(NULL) == 104);
}

/* ---- generators of the device ---- */

static unsigned int generate(void *g, int type, unsigned int kind, void *out, size_t n)
{
	switch (kind) {
	case 0:
		if (type == SCRAMBLED64)
			CHECK(!curandGenerateLongLong(g, out, n));
		else
			CHECK(!curandGenerate(g, out, n));
		return type == SCRAMBLED64 ? 8 : 4;
	case 1:
		CHECK(!curandGenerateUniform(g, out, n));
		return 4;
	case 2:
		CHECK(!curandGenerateUniformDouble(g, out, n));
		return 8;
	case 3:
		CHECK(!curandGeneratePoisson(g, out, n, 7.5));
		return 4;
	case 4:
		CHECK(!curandGeneratePoisson(g, out, n, 900));
		return 4;
	case 5:
		CHECK(!curandGenerateNormal(g, out, n, 3, 2));
		return 4;
	case 6:
		CHECK(!curandGenerateLogNormal(g, out, n, 0, 0.5f));
		return 4;
	case 7:
		CHECK(!curandGenerateNormalDouble(g, out, n, -3, 2));
		return 8;
	default:
		CHECK(!curandGenerateLogNormalDouble(g, out, n, 0, 0.5));
		return 8;
	}
}

/* Functions of single and double precision may differ in the last places. */
static bool is_near(unsigned int kind, const void *is, const void *want, size_t i)
{
	double x, y, tolerance = kind >= 7 ? 1e-12 : 1e-5;

	if (kind < 5)
		return false;
	x = kind >= 7 ? ((const double *)is)[i] : (double)((const float *)is)[i];
	y = kind >= 7 ? ((const double *)want)[i] : (double)((const float *)want)[i];
	return fabs(x - y) <= tolerance * (3 + fabs(y));
}

static void device_as_host(int type, unsigned int dimensions, uint64_t offset, size_t each)
{
	size_t n = each * dimensions, size;
	char *is = malloc(n * 8), *want = malloc(n * 8);
	void *h = host(type, dimensions, offset), *g;
	CUdeviceptr d;

	CHECK(is && want && !cuMemAlloc_v2(&d, n * 8) && !curandCreateGenerator(&g, type));
	CHECK(!curandSetQuasiRandomGeneratorDimensions(g, dimensions) && !curandSetGeneratorOffset(g, offset));
	for (unsigned int kind = 0; kind < 9; kind++) {
		size = generate(h, type, kind, want, n);
		generate(g, type, kind, (void *)(uintptr_t)d, n);
		CHECK(!cuMemcpyDtoH_v2(is, d, n * size));
		for (size_t i = 0; i < n; i++)
			CHECK(!memcmp(is + i * size, want + i * size, size) || is_near(kind, is, want, i));
	}
	CHECK(!cuMemFree_v2(d) && !curandDestroyGenerator(g) && !curandDestroyGenerator(h));
	free(is);
	free(want);
}

static void device(void)
{
	for (int type = SCRAMBLED32; type <= SCRAMBLED64; type += 2) {
		device_as_host(type, 1, 0, 100001);
		device_as_host(type, 3, 12345, 9000);
		device_as_host(type, ALL, 1, 11);
	}
}

/* ---- settings, and what the numbers are like ---- */

static void same_sequence(int type)
{
	uint64_t *all = numbers(type, 7, 100, 1000), *part = numbers(type, 3, 100, 1000),
		 *later = numbers(type, 7, 600, 500);
	uint64_t *plain = numbers(type - 1, 7, 100, 1000), pieces[3 * 7];
	void *g = host(type, 7, 100);

	CHECK(!memcmp(all, part, 3000 * sizeof(*all)));
	for (unsigned int i = 0; i < 7; i++) {
		CHECK(!memcmp(all + i * 1000 + 500, later + i * 500, 500 * sizeof(*all)));
		CHECK(memcmp(all + i * 1000, plain + i * 1000, 1000 * sizeof(*all)));
	}
	for (unsigned int at = 0; at < 999; at += 3) {
		draw(g, type, pieces, 21);
		for (unsigned int i = 0; i < 7; i++)
			CHECK(!memcmp(pieces + i * 3, all + i * 1000 + at, 3 * sizeof(*all)));
	}
	CHECK(!curandDestroyGenerator(g));
	free(all);
	free(part);
	free(later);
	free(plain);
}

static void moments(int type)
{
	const size_t n = 1 << 14;
	double *x = malloc(n * sizeof(*x)), sum = 0, squares = 0;
	unsigned int *k = (unsigned int *)x;
	void *g = host(type, 1, 0);

	CHECK(x && !curandGenerateNormalDouble(g, x, n, 0, 1));
	for (size_t i = 0; i < n; i++) {
		sum += x[i];
		squares += x[i] * x[i];
	}
	CHECK(fabs(sum / (double)n) < 0.002 && fabs(squares / (double)n - 1) < 0.005);
	CHECK(!curandGenerateUniformDouble(g, x, n));
	sum = 0;
	for (size_t i = 0; i < n; i++) {
		CHECK(x[i] > 0 && x[i] <= 1);
		sum += x[i];
	}
	CHECK(fabs(sum / (double)n - 0.5) < 1e-4 && !curandGeneratePoisson(g, k, n, 4.25));
	sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += k[i];
	CHECK(fabs(sum / (double)n - 4.25) < 0.02 && !curandDestroyGenerator(g));
	free(x);
}

static void settings(void)
{
	for (int type = SCRAMBLED32; type <= SCRAMBLED64; type += 2) {
		same_sequence(type);
		moments(type);
	}
}

/* By dimension: the constant, and the directions 0, 31 and 63. */
static void own(void)
{
	static const struct {
		unsigned int dimension;
		uint64_t constant, directions[3];
	} some[] = {
		{0, 0xaab71772c48107ba, {0xbcd0e21e85f1fce9, 0x00000001870bf062, 0x0000000000000001}},
		{1, 0xa674430fb947626b, {0xf3ab7c083c71809a, 0xaf85d02415328534, 0xaf85d02492c442a9}},
		{777, 0xa3bb01f9f705cfc9, {0x84df5c8db525e38c, 0xf07b938a4ad21b5f, 0xef64e7acbf1c2ee0}},
		{19999, 0x0e02b56097fd8bbf, {0xa9f64e707e8d3b37, 0x71b7172bbc3bb226, 0x77875eec2e166c02}},
	};
	unsigned long long(*wide)[64], *wide_constants;
	unsigned int(*narrow)[32], *narrow_constants;

	CHECK(!curandGetDirectionVectors64(&wide, 104) && !curandGetScrambleConstants64(&wide_constants));
	CHECK(!curandGetDirectionVectors32(&narrow, 102) && !curandGetScrambleConstants32(&narrow_constants));
	for (unsigned int i = 0; i < 4; i++) {
		CHECK(wide_constants[some[i].dimension] == some[i].constant);
		CHECK(wide[some[i].dimension][0] == some[i].directions[0]);
		CHECK(wide[some[i].dimension][31] == some[i].directions[1]);
		CHECK(wide[some[i].dimension][63] == some[i].directions[2]);
	}
	for (unsigned int i = 0; i < ALL; i++) {
		CHECK(narrow_constants[i] == wide_constants[i] >> 32);
		for (unsigned int k = 0; k < 32; k++)
			CHECK(narrow[i][k] == wide[i][k] >> 32);
	}
}

/* The results of NVIDIA's library of CUDA 13.0: the first dimension of both kinds, on the host and on the device. */
static void nvidia(void)
{
	static const float expected[4] = {0.882941f, 0.046950f, 0.332641f, 0.731132f};

	for (int type = SCRAMBLED32; type <= SCRAMBLED64; type += 2) {
		float out[4];
		void *g = host(type, 1, 0);
		CUdeviceptr p;

		CHECK(!curandGenerateUniform(g, out, 4) && !curandDestroyGenerator(g));
		for (int i = 0; i < 4; i++)
			CHECK(fabsf(out[i] - expected[i]) < 1e-6f);
		CHECK(!curandCreateGenerator(&g, type) && !cuMemAlloc_v2(&p, sizeof(out)));
		CHECK(!curandGenerateUniform(g, (float *)(uintptr_t)p, 4) && !cuMemcpyDtoH_v2(out, p, sizeof(out)));
		for (int i = 0; i < 4; i++)
			CHECK(fabsf(out[i] - expected[i]) < 1e-6f);
		CHECK(!curandDestroyGenerator(g) && !cuMemFree_v2(p));
	}
}

int main(int argc, char **argv)
{
	static const struct part parts[] = {
		{"even", even}, {"tables", tables}, {"device", device}, {"settings", settings},
		{"own", own},   {"nvidia", nvidia}, {NULL, NULL}};

	return run_part(argc, argv, parts);
}
