/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuRAND against what NVIDIA's own gave (rand.expect):
 *
 *   rand LIBRARY host|device record         prints the lines of such a file
 *   rand LIBRARY host|device check FILE
 *
 * The file was made by `rand /usr/local/cuda/lib64/libcurand.so.10 host record`, with CUDA 13.0; NVIDIA's passes on a
 * GPU and on the software GPU as well. A line is a setting, a generation in it, a digest of all bytes, two sums, and
 * some of the numbers. Integers and uniform numbers are equal; others as near as functions of single and double
 * precision are.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/cuda-functions.h"

#define CHECK_SUBJECT doing
#include "test/check.h"

#define SAMPLES 8
#define MOST 400000

enum kind { BITS, LONG_BITS, UNIFORM, UNIFORM_DOUBLE, NORMAL, NORMAL_DOUBLE, LOG_NORMAL, LOG_NORMAL_DOUBLE, POISSON };

static const char *const names[] = {
	[BITS] = "",
	[LONG_BITS] = "LongLong",
	[UNIFORM] = "Uniform",
	[UNIFORM_DOUBLE] = "UniformDouble",
	[NORMAL] = "Normal",
	[NORMAL_DOUBLE] = "NormalDouble",
	[LOG_NORMAL] = "LogNormal",
	[LOG_NORMAL_DOUBLE] = "LogNormalDouble",
	[POISSON] = "Poisson",
};

struct setting {
	int type, ordering;
	uint64_t seed, offset;
	unsigned int dimensions;
};

static const struct setting settings[] = {
	{101, 101, 0, 0, 1},
	{101, 101, 0x123456789abcdef, 5000, 1},
	{101, 102, 99, 4097, 1},
	{101, 103, 7, 1ull << 40, 1},
	{121, 101, 0, 0, 1},
	{121, 101, 0xfedcba9876543210, 100000, 1},
	{121, 103, 1234, 4097, 1},
	{161, 101, 0, 0, 1},
	{161, 101, 0x123456789abcdef, 262147, 1},
	{161, 103, 42, 1ull << 35, 1},
	{142, 101, 0x123456789abcdef, 0, 1},
	{141, 101, 0, 0, 1},
	{141, 103, 0x123456789abcdef, 0, 1},
	{201, 201, 0, 0, 1},
	{201, 201, 0, 4294000000, 7},
	{201, 201, 0, 12345, 20000},
	{203, 201, 0, 1, 3},
	{203, 201, 0, 1ull << 40, 20000},
};

/* The generations of each setting, in order. For quasi-random types: `count` of each dimension. */
static const struct generation {
	enum kind kind;
	size_t count;
	double a, b;
} generations[] = {
	{BITS, 5, 0, 0},
	{UNIFORM, 1000, 0, 0},
	{UNIFORM_DOUBLE, 333, 0, 0},
	{NORMAL, 6000, 0, 1},
	{NORMAL_DOUBLE, 502, -3, 0.5},
	{LOG_NORMAL, 100, 0.5, 0.25},
	{LOG_NORMAL_DOUBLE, 8194, 0, 1},
	{BITS, 300000, 0, 0},
	{UNIFORM, 70001, 0, 0},
	{NORMAL, 100000, 10, 2},
	{POISSON, 20001, 5, 0},
	{POISSON, 9001, 3000, 0},
	{POISSON, 3000, 150.5, 0},
	{POISSON, 20000, 200000, 0},
	{POISSON, 9000, 31, 0},
	{POISSON, 9000, 8000, 0},
	{UNIFORM, 9000, 0, 0},
};

static char doing[160];
static void *library;
static bool on_device;
static CUdeviceptr device;
static void *out;

struct result {
	uint64_t digest, samples[SAMPLES];
	double sum, weighted, size; /* size: sum of absolute values */
};

static void *function(const char *name)
{
	void *f = dlsym(library, name);

	snprintf(doing, sizeof(doing), "%s", name);
	CHECK(f);
	return f;
}

static unsigned int bytes_of(enum kind kind)
{
	return kind == LONG_BITS || (kind & 1 && kind != BITS) ? 8 : 4;
}

/* Large numbers of Poisson's distribution are rounded normal ones: later with MTGP32 and Sobol32. */
static bool is_exact(int type, const struct generation *g)
{
	bool late = type == 141 || type == 201;

	return g->kind <= UNIFORM_DOUBLE || (g->kind == POISSON && (late ? g->a <= 8000 : g->a < 2000));
}

static double value_of(enum kind kind, size_t i)
{
	switch (kind) {
	case BITS:
	case POISSON:
		return ((uint32_t *)out)[i];
	case LONG_BITS:
		return (double)((uint64_t *)out)[i];
	default:
		return bytes_of(kind) == 8 ? ((double *)out)[i] : (double)((float *)out)[i];
	}
}

static struct result summary(enum kind kind, size_t count)
{
	const size_t places[SAMPLES] = {0,         1 % count,     2 % count,         3 % count,
					count / 4, count / 2 + 1, count / 4 * 3 + 2, count - 1};
	struct result r = {.digest = 0xcbf29ce484222325};

	for (size_t i = 0; i < count * bytes_of(kind); i++)
		r.digest = (r.digest ^ ((uint8_t *)out)[i]) * 0x100000001b3;
	for (size_t i = 0; i < count; i++) {
		double x = value_of(kind, i);

		r.sum += x;
		r.weighted += x * (double)((uint32_t)i * 2654435761u >> 20);
		r.size += fabs(x);
	}
	for (unsigned int i = 0; i < SAMPLES; i++) {
		size_t at = places[i] < count ? places[i] : count - 1;

		memcpy(&r.samples[i], (char *)out + at * bytes_of(kind), bytes_of(kind));
	}
	return r;
}

static int call(void *generator, const struct generation *g, void *to, size_t count)
{
	char name[64];
	void *f;

	snprintf(name, sizeof(name), "curandGenerate%s", names[g->kind]);
	f = function(name);
	if (g->kind == POISSON)
		return ((int (*)(void *, void *, size_t, double))f)(generator, to, count, g->a);
	if (g->kind <= UNIFORM_DOUBLE)
		return ((int (*)(void *, void *, size_t))f)(generator, to, count);
	if (bytes_of(g->kind) == 8)
		return ((int (*)(void *, void *, size_t, double, double))f)(generator, to, count, g->a, g->b);
	return ((int (*)(void *, void *, size_t, float, float))f)(generator, to, count, (float)g->a, (float)g->b);
}

static struct result generate(void *generator, const struct generation *g, size_t count)
{
	int status = call(generator, g, on_device ? (void *)(uintptr_t)device : out, count);

	CHECK(status == 0);
	if (on_device)
		CHECK(!cuMemcpyDtoH_v2(out, device, count * bytes_of(g->kind)));
	return summary(g->kind, count);
}

static void *make(const struct setting *s)
{
	int (*create)(void **, int) =
		(int (*)(void **, int))function(on_device ? "curandCreateGenerator" : "curandCreateGeneratorHost");
	int (*set_ordering)(void *, int) = (int (*)(void *, int))function("curandSetGeneratorOrdering");
	void *generator, *set_seed = function("curandSetPseudoRandomGeneratorSeed"),
			 *set_offset = function("curandSetGeneratorOffset"),
			 *set_dimensions = function("curandSetQuasiRandomGeneratorDimensions");

	CHECK(!create(&generator, s->type) && !set_ordering(generator, s->ordering));
	if (s->type < 200)
		CHECK(!((int (*)(void *, unsigned long long))set_seed)(generator, s->seed));
	else
		CHECK(!((int (*)(void *, unsigned int))set_dimensions)(generator, s->dimensions));
	if (s->offset)
		CHECK(!((int (*)(void *, unsigned long long))set_offset)(generator, s->offset));
	return generator;
}

static void print(const struct result *r)
{
	printf("%s %016" PRIx64 " %.17g %.17g %.17g", doing, r->digest, r->sum, r->weighted, r->size);
	for (unsigned int i = 0; i < SAMPLES; i++)
		printf(" %" PRIx64, r->samples[i]);
	putchar('\n');
}

static double number(enum kind kind, uint64_t sample)
{
	float single;
	double value;

	if (kind == POISSON)
		return (double)sample;
	memcpy(&single, &sample, sizeof(single));
	memcpy(&value, &sample, sizeof(value));
	return bytes_of(kind) == 8 ? value : (double)single;
}

/* Single precision: a GPU's own sine and logarithm. MTGP32 has normal numbers of that only, as doubles too. */
static void compare(int type, const struct generation *g, const struct result *is, const struct result *want)
{
	bool is_double = bytes_of(g->kind) == 8 && (type != 141 || g->kind == LOG_NORMAL_DOUBLE);
	double tolerance = (is_double ? 1e-13 : on_device ? 1e-5 : 2e-6) * (1 + fabs(g->b));

	if (is_exact(type, g)) {
		CHECK(!memcmp(is->samples, want->samples, sizeof(is->samples)));
		CHECK(is->digest == want->digest);
		return;
	}
	for (unsigned int i = 0; i < SAMPLES; i++) {
		double x = number(g->kind, is->samples[i]), y = number(g->kind, want->samples[i]);

		CHECK(fabs(x - y) <= (g->kind == POISSON ? 1 : tolerance * (1 + fabs(y))));
	}
	CHECK(fabs(is->sum - want->sum) <= tolerance * want->size);
	CHECK(fabs(is->weighted - want->weighted) <= tolerance * want->size * 4096);
}

static void read_line(FILE *file, struct result *r)
{
	char line[1000], *at;
	size_t length = strlen(doing);

	CHECK(fgets(line, sizeof(line), file) && !strncmp(line, doing, length));
	r->digest = strtoull(line + length, &at, 16);
	r->sum = strtod(at, &at);
	r->weighted = strtod(at, &at);
	r->size = strtod(at, &at);
	for (unsigned int i = 0; i < SAMPLES; i++)
		r->samples[i] = strtoull(at, &at, 16);
	CHECK(*at == '\n');
}

static void run(const struct setting *s, FILE *file)
{
	void *generator = make(s);
	int (*destroy)(void *) = (int (*)(void *))function("curandDestroyGenerator");

	for (unsigned int i = 0; i < sizeof(generations) / sizeof(generations[0]); i++) {
		struct generation g = generations[i];
		struct result is, want;
		size_t count = g.count;

		if (s->type >= 203 && g.kind == BITS)
			g.kind = LONG_BITS;
		while (count > 1 && count * s->dimensions > MOST)
			count /= 10;
		count *= s->dimensions;
		is = generate(generator, &g, count);
		snprintf(doing, sizeof(doing), "%d %d %" PRIx64 " %" PRIx64 " %u: %u curandGenerate%s %zu (%g %g)",
			 s->type, s->ordering, s->seed, s->offset, s->dimensions, i, names[g.kind], count, g.a, g.b);
		if (!file) {
			print(&is);
			continue;
		}
		read_line(file, &want);
		compare(s->type, &g, &is, &want);
	}
	CHECK(!destroy(generator));
}

int main(int argc, char **argv)
{
	bool check = argc == 5 && !strcmp(argv[3], "check");
	FILE *file = check ? fopen(argv[4], "re") : NULL;
	CUcontext context;

	if (argc < 4 || (check && !file) || (!check && strcmp(argv[3], "record")))
		return 2;
	on_device = !strcmp(argv[2], "device");
	library = dlopen(argv[1], RTLD_NOW);
	if (!library)
		snprintf(doing, sizeof(doing), "%s", dlerror());
	CHECK(library);
	out = malloc((size_t)MOST * 8);
	CHECK(out);
	if (on_device)
		CHECK(!cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context) &&
		      !cuMemAlloc_v2(&device, (size_t)MOST * 8));
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		run(&settings[i], file);
	if (file) {
		CHECK(fgetc(file) == EOF);
		fclose(file);
		printf("rand: passed\n");
	}
	free(out);
	return 0;
}
