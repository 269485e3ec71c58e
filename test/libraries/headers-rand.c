/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs built with NVIDIA's curand.h: generators of the device and of the host give what plain C computes from the
 * algorithms' descriptions.
 */
#include "headers.h"

#include <curand.h>
#include <stdbool.h>

enum { N = 300000, XORWOW_LANES = 4096, PHILOX_LANES = 65536 };
static const unsigned long long SEED = 0x123456789abcdefull;

/* Philox 4x32-10: word i % 4 of what comes of the counter. */
static uint32_t philox(uint64_t i)
{
	uint32_t c[4] = {(uint32_t)(i / 4 / PHILOX_LANES), 0, (uint32_t)(i / 4 % PHILOX_LANES), 0};
	uint32_t key[2] = {(uint32_t)SEED, (uint32_t)(SEED >> 32)};

	for (int round = 0; round < 10; round++) {
		uint64_t p = 0xd2511f53ull * c[0], q = 0xcd9e8d57ull * c[2];

		c[0] = (uint32_t)(q >> 32) ^ c[1] ^ key[0];
		c[1] = (uint32_t)q;
		c[2] = (uint32_t)(p >> 32) ^ c[3] ^ key[1];
		c[3] = (uint32_t)p;
		key[0] += 0x9e3779b9;
		key[1] += 0xbb67ae85;
	}
	return c[i % 4];
}

/* The numbers of XORWOW's first lane, which is every XORWOW_LANES-th one. */
static void xorwow(uint32_t *out, int count)
{
	uint32_t low = 1099087573u * ((uint32_t)SEED ^ 0xaad26b49);
	uint32_t high = 2591861531u * ((uint32_t)(SEED >> 32) ^ 0xf7dcefdd);
	uint32_t x[5] = {123456789 + low, 362436069 ^ low, 521288629 + high, 88675123 ^ high, 5783321 + low};
	uint32_t counter = 6615241 + low + high;

	for (int i = 0; i < count; i++) {
		uint32_t t = x[0] ^ x[0] >> 2;

		memmove(x, x + 1, 4 * sizeof(*x));
		x[4] = x[4] ^ x[4] << 4 ^ t ^ t << 1;
		counter += 362437;
		out[i] = x[4] + counter;
	}
}

/* A generator of either place, and where its results go. */
struct source {
	curandGenerator_t generator;
	void *place; /* the device's memory; NULL: they are computed on the host */
	void *result;
};

static struct source source_new(bool host, curandRngType_t type, unsigned long long offset)
{
	struct source s = {.result = calloc(N, sizeof(double))};

	CHECK(s.result);
	if (host) {
		OK(curandCreateGeneratorHost(&s.generator, type));
	} else {
		OK(curandCreateGenerator(&s.generator, type));
		s.place = device_memory(N * sizeof(double));
	}
	OK(curandSetPseudoRandomGeneratorSeed(s.generator, SEED));
	OK(curandSetGeneratorOffset(s.generator, offset));
	return s;
}

static void *to(const struct source *s)
{
	return s->place ? s->place : s->result;
}

static void *result(const struct source *s)
{
	if (s->place)
		from_device(s->result, s->place, N * sizeof(double));
	return s->result;
}

static void source_free(struct source *s)
{
	OK(curandDestroyGenerator(s->generator));
	OK(cudaFree(s->place));
	free(s->result);
}

static void integers(bool host, unsigned long long offset)
{
	struct source s = source_new(host, CURAND_RNG_PSEUDO_PHILOX4_32_10, offset);
	unsigned int *x;

	OK(curandGenerate(s.generator, to(&s), N));
	x = result(&s);
	for (int i = 0; i < N; i++)
		CHECK(x[i] == philox(offset + (unsigned int)i));
	source_free(&s);
}

static void first_lane(bool host)
{
	struct source s = source_new(host, CURAND_RNG_PSEUDO_DEFAULT, 0);
	static uint32_t first[N / XORWOW_LANES];
	float *x;

	xorwow(first, N / XORWOW_LANES);
	OK(curandGenerateUniform(s.generator, to(&s), N));
	x = result(&s);
	for (int i = 0; i < N / XORWOW_LANES; i++)
		CHECK(x[i * XORWOW_LANES] == (float)first[i] * 0x1p-32f + 0x1p-33f);
	source_free(&s);
}

/* Two words a number: those of a lane's turns t and t + 1 are its next four. */
static double uniform_double(unsigned int i)
{
	unsigned int turn = i / 4 / PHILOX_LANES * 2 + i % 4 / 2, lane = i / 4 % PHILOX_LANES;
	uint64_t word = ((uint64_t)turn * PHILOX_LANES + lane) * 4 + i % 2 * 2;

	return (double)(philox(word) ^ (uint64_t)philox(word + 1) << 21) * 0x1p-53 + 0x1p-54;
}

static void uniform(bool host)
{
	struct source s = source_new(host, CURAND_RNG_PSEUDO_PHILOX4_32_10, 0);
	float *x;
	double *d;

	OK(curandGenerateUniform(s.generator, to(&s), N));
	x = result(&s);
	for (int i = 0; i < N; i++)
		CHECK(x[i] == (float)philox((unsigned int)i) * 0x1p-32f + 0x1p-33f);
	source_free(&s);

	s = source_new(host, CURAND_RNG_PSEUDO_PHILOX4_32_10, 0);
	OK(curandGenerateUniformDouble(s.generator, to(&s), N));
	d = result(&s);
	for (unsigned int i = 0; i < N; i++)
		CHECK(d[i] == uniform_double(i));
	source_free(&s);
}

/* The Box-Muller transform of two uniform numbers. */
static double box_muller(double radius, double turn, bool second)
{
	const double angle = 6.283185307179586477 * turn;

	return sqrt(-2 * log(radius)) * (second ? cos(angle) : sin(angle));
}

static void normal(bool host)
{
	const double mean = 3, deviation = 0.5;
	struct source s = source_new(host, CURAND_RNG_PSEUDO_PHILOX4_32_10, 0);
	float *x;
	double *d;

	OK(curandGenerateNormal(s.generator, to(&s), N, (float)mean, (float)deviation));
	x = result(&s);
	for (unsigned int i = 0; i < N; i++) {
		double u = philox(i & ~1u) * 0x1p-32 + 0x1p-33, v = philox(i | 1) * 0x1p-32 + 0x1p-33;

		CHECK(fabs(x[i] - (mean + deviation * box_muller(u, v, i % 2))) < 1e-5);
	}
	source_free(&s);

	s = source_new(host, CURAND_RNG_PSEUDO_PHILOX4_32_10, 0);
	OK(curandGenerateNormalDouble(s.generator, to(&s), N, mean, deviation));
	d = result(&s);
	for (unsigned int i = 0; i < N; i++) {
		double u = uniform_double(i & ~1u), v = uniform_double(i | 1);

		CHECK(fabs(d[i] - (mean + deviation * box_muller(u, v, i % 2))) < 1e-12);
	}
	source_free(&s);
}

int main(int argc, char **argv)
{
	curandGenerator_t generator;

	loaded_from(argc > 1 ? argv[1] : NULL, "curandGenerateUniform");
	for (int host = 0; host < 2; host++) {
		integers(host, 0);
		integers(host, 4 * 70000 + 8);
		first_lane(host);
		uniform(host);
		normal(host);
	}
	CHECK(curandCreateGenerator(&generator, (curandRngType_t)9999) == CURAND_STATUS_TYPE_ERROR);
	OK(curandCreateGenerator(&generator, CURAND_RNG_QUASI_SOBOL32));
	CHECK(curandSetPseudoRandomGeneratorSeed(generator, 1) == CURAND_STATUS_TYPE_ERROR);
	OK(curandDestroyGenerator(generator));
	printf("curand %d: passed\n", CURAND_VER_MAJOR);
	return 0;
}
