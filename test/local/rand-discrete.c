/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rand-discrete LIBRARY: distributions that kernels take numbers from. Each is read as the device functions of cuRAND's
 * header read it, and must say what Poisson's is, and give the numbers that a generator of the host makes.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "parts.h"

#define N 50000
#define XORWOW 101

enum { SUCCESS = 0, NOT_INITIALIZED = 101, OUT_OF_RANGE = 104, METHOD_HISTOGRAM = 5 };

static struct {
	int (*create)(double lambda, CUdeviceptr *distribution);
	int (*destroy)(CUdeviceptr distribution);
	int (*host)(void **generator, int type);
	int (*generate)(void *generator, unsigned int *out, size_t n);
	int (*poisson)(void *generator, unsigned int *out, size_t n, double lambda);
	int (*end)(void *generator);
} curand;

struct histogram {
	CUdeviceptr value, host_value, other, host_other;
};

struct shifted {
	CUdeviceptr histogram, host_histogram;
	uint32_t shift, length;
};

struct distribution {
	CUdeviceptr self, shifted, host_shifted;
	double deviation, mean;
	uint32_t method;
};

struct table {
	uint32_t shift, length;
	double *value;
	uint32_t *other;
};

static void *function(void *library, const char *name)
{
	void *f = dlsym(library, name);

	CHECK(f);
	return f;
}

static void open_library(const char *name)
{
	void *library = dlopen(name, RTLD_NOW);

	CHECK(library);
	curand.create = (int (*)(double, CUdeviceptr *))function(library, "curandCreatePoissonDistribution");
	curand.destroy = (int (*)(CUdeviceptr))function(library, "curandDestroyDistribution");
	curand.host = (int (*)(void **, int))function(library, "curandCreateGeneratorHost");
	curand.generate = (int (*)(void *, unsigned int *, size_t))function(library, "curandGenerate");
	curand.poisson = (int (*)(void *, unsigned int *, size_t, double))function(library, "curandGeneratePoisson");
	curand.end = (int (*)(void *))function(library, "curandDestroyGenerator");
}

static void *read_back(CUdeviceptr from, size_t bytes)
{
	void *to = malloc(bytes);

	CHECK(to && !cuMemcpyDtoH_v2(to, from, bytes));
	return to;
}

static struct table read_table(const struct distribution *d)
{
	struct shifted *shifted = read_back(d->shifted, sizeof(*shifted));
	struct histogram *h = read_back(shifted->histogram, sizeof(*h));
	struct table t = {.shift = shifted->shift, .length = shifted->length};

	t.value = read_back(h->value, t.length * sizeof(*t.value));
	t.other = read_back(h->other, t.length * sizeof(*t.other));
	free(shifted);
	free(h);
	return t;
}

static double poisson(double lambda, uint32_t k)
{
	int sign;

	return exp(-lambda + k * log(lambda) - lgamma_r((double)k + 1, &sign));
}

/* The parts of all columns that are a number's own sum up to its probability. */
static void check_probabilities(const struct table *t, double lambda)
{
	double *sum = calloc(t->length, sizeof(*sum)), width = 1.0 / t->length;

	CHECK(sum);
	for (uint32_t i = 0; i < t->length; i++) {
		CHECK(t->other[i] < t->length && t->value[i] >= i * width &&
		      t->value[i] <= (i + 1) * width * (1 + 1e-12));
		sum[i] += t->value[i] - i * width;
		sum[t->other[i]] += (i + 1) * width - t->value[i];
	}
	for (uint32_t i = 0; i < t->length; i++)
		CHECK(fabs(sum[i] - poisson(lambda, t->shift + i)) < 1e-11);
	free(sum);
}

static void check_numbers(const struct table *t, double lambda)
{
	static unsigned int bits[N], is[N];
	void *g;

	CHECK(!curand.host(&g, XORWOW) && !curand.generate(g, bits, N) && !curand.end(g));
	CHECK(!curand.host(&g, XORWOW) && !curand.poisson(g, is, N, lambda) && !curand.end(g));
	for (unsigned int i = 0; i < N; i++) {
		double u = bits[i] * 0x1p-32 + 0x1p-32;
		uint32_t column = (uint32_t)(t->length * u);

		CHECK(column < t->length);
		CHECK(is[i] == t->shift + (u < t->value[column] ? column : t->other[column]));
	}
}

static void check(double lambda, bool is_histogram)
{
	struct distribution *d;
	CUdeviceptr at;
	struct table t;

	CHECK(!curand.create(lambda, &at));
	d = read_back(at, sizeof(*d));
	CHECK((d->method == METHOD_HISTOGRAM) == is_histogram);
	if (is_histogram) {
		t = read_table(d);
		check_probabilities(&t, lambda);
		check_numbers(&t, lambda);
		free(t.value);
		free(t.other);
	} else {
		CHECK(fabs(d->mean - lambda) <= 1e-15 * lambda && fabs(d->deviation - sqrt(lambda)) <= 1e-15 * lambda);
	}
	free(d);
	CHECK(!curand.destroy(at));
}

int main(int argc, char **argv)
{
	CUdeviceptr at;
	CUcontext context;

	if (argc != 2)
		return 2;
	CHECK(!cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context));
	open_library(argv[1]);
	CHECK(curand.create(5, NULL) == NOT_INITIALIZED && curand.destroy(0) == NOT_INITIALIZED);
	CHECK(curand.create(0, &at) == OUT_OF_RANGE && curand.create(-1, &at) == OUT_OF_RANGE);
	CHECK(curand.create(400001, &at) == OUT_OF_RANGE);
	check(1e-3, true);
	check(0.5, true);
	check(7, true);
	check(64.25, true);
	check(1999, true);
	check(2000, false);
	check(400000, false);
	printf("rand-discrete: passed\n");
	return 0;
}
