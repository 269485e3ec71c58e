/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cases, and each in C with OpenMP as one would write it by hand for a CPU: with the loops in the order that
 * vectorises, and no more tricks than that. Compiled with -O3 -march=native -fopenmp.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu.h"

#define STREAM_COUNT (16 << 20)
#define MATRIX 1024
#define REDUCE_COUNT (4 << 20)
#define MANDEL_WIDTH 1024
#define MANDEL_MOST 256
#define SPMV_ROWS 200000
#define SPMV_COUNT (SPMV_ROWS * 20)
#define GATHER_COUNT (4 << 20)
#define GATHER_RANGE (1 << 18)
#define PLANE 2048
#define CUBE 192
#define BODIES 8192
#define OPTIONS (1 << 20)
#define SORT_COUNT (1 << 20)
#define HASH_COUNT (1 << 18)
#define HASH_ROUNDS 64

#define IN(type, name, n) const type *restrict name = b[n]
#define OUT(type, name, n) type *restrict name = b[n]

static void vector_add(void **b)
{
	IN(float, x, 0);
	IN(float, y, 1);
	OUT(float, z, 2);

#pragma omp parallel for simd
	for (int i = 0; i < STREAM_COUNT; i++)
		z[i] = x[i] + y[i];
}

static void triad(void **b)
{
	IN(float, x, 0);
	IN(float, y, 1);
	OUT(float, z, 2);

#pragma omp parallel for simd
	for (int i = 0; i < STREAM_COUNT; i++)
		z[i] = x[i] + 3.0f * y[i];
}

/* Tiles of 64 by 256 stay in the second cache. */
static void matrix_mul(void **b)
{
	IN(float, x, 0);
	IN(float, y, 1);
	OUT(float, z, 2);

	memset(z, 0, sizeof(*z) * MATRIX * MATRIX);
#pragma omp parallel for collapse(2)
	for (int rows = 0; rows < MATRIX; rows += 64)
		for (int columns = 0; columns < MATRIX; columns += 256)
			for (int ks = 0; ks < MATRIX; ks += 64)
				for (int i = rows; i < rows + 64; i++)
					for (int k = ks; k < ks + 64; k++) {
						float f = x[i * MATRIX + k];

						for (int j = columns; j < columns + 256; j++)
							z[i * MATRIX + j] += f * y[k * MATRIX + j];
					}
}

static void reduce(void **b)
{
	IN(float, x, 0);
	OUT(float, z, 1);
	float sum = 0;

#pragma omp parallel for simd reduction(+ : sum)
	for (int i = 0; i < REDUCE_COUNT; i++)
		sum += x[i];
	z[0] = sum;
}

static void mandelbrot(void **b)
{
	OUT(int, z, 0);

#pragma omp parallel for schedule(dynamic, 1024)
	for (int i = 0; i < MANDEL_WIDTH * MANDEL_WIDTH; i++) {
		float cx = (float)(i % MANDEL_WIDTH) * 3.0f / MANDEL_WIDTH - 2;
		float cy = (float)(i / MANDEL_WIDTH) * 2.0f / MANDEL_WIDTH - 1, x = 0, y = 0, t;
		int k = 0;

		while (k < MANDEL_MOST && x * x + y * y < 4) {
			t = x * x - y * y + cx;
			y = 2 * x * y + cy;
			x = t;
			k++;
		}
		z[i] = k;
	}
}

static void spmv(void **b)
{
	IN(int, rows, 0);
	IN(int, columns, 1);
	IN(float, values, 2);
	IN(float, x, 3);
	OUT(float, y, 4);

#pragma omp parallel for schedule(static)
	for (int i = 0; i < SPMV_ROWS; i++) {
		float sum = 0;

		for (int k = rows[i]; k < rows[i + 1]; k++)
			sum += values[k] * x[columns[k]];
		y[i] = sum;
	}
}

static void gather(void **b)
{
	IN(int, at, 0);
	IN(float, x, 1);
	OUT(float, y, 2);

#pragma omp parallel for
	for (int i = 0; i < GATHER_COUNT; i++)
		y[i] = x[at[i]];
}

static void transpose(void **b)
{
	IN(float, x, 0);
	OUT(float, z, 1);

#pragma omp parallel for collapse(2)
	for (int rows = 0; rows < PLANE; rows += 32)
		for (int columns = 0; columns < PLANE; columns += 32)
			for (int i = rows; i < rows + 32; i++)
				for (int j = columns; j < columns + 32; j++)
					z[i * PLANE + j] = x[j * PLANE + i];
}

static void histogram(void **b)
{
	IN(int, x, 0);
	OUT(int, z, 1);

	memset(z, 0, 256 * sizeof(*z));
#pragma omp parallel for reduction(+ : z[:256])
	for (int i = 0; i < REDUCE_COUNT; i++)
		z[x[i] & 255]++;
}

static void stencil_2d(void **b)
{
	IN(float, x, 0);
	OUT(float, z, 1);

#pragma omp parallel for
	for (int i = 1; i < PLANE - 1; i++)
		for (int j = 1; j < PLANE - 1; j++) {
			const float *at = x + i * PLANE + j;

			z[i * PLANE + j] = 0.2f * (at[0] + at[-1] + at[1] + at[-PLANE] + at[PLANE]);
		}
}

static void stencil_3d(void **b)
{
	IN(float, x, 0);
	OUT(float, z, 1);

#pragma omp parallel for collapse(2)
	for (int k = 1; k < CUBE - 1; k++)
		for (int i = 1; i < CUBE - 1; i++)
			for (int j = 1; j < CUBE - 1; j++) {
				const float *at = x + (k * CUBE + i) * CUBE + j;

				z[at - x] = 0.4f * at[0] + 0.1f * (at[-CUBE * CUBE] + at[CUBE * CUBE] + at[-1] + at[1] +
								   at[-CUBE] + at[CUBE]);
			}
}

static void nbody(void **b)
{
	IN(float, px, 0);
	IN(float, py, 1);
	IN(float, pz, 2);
	OUT(float, ax, 3);
	OUT(float, ay, 4);
	OUT(float, az, 5);

#pragma omp parallel for
	for (int i = 0; i < BODIES; i++) {
		float x = px[i], y = py[i], z = pz[i], fx = 0, fy = 0, fz = 0;

#pragma omp simd reduction(+ : fx, fy, fz)
		for (int k = 0; k < BODIES; k++) {
			float dx = px[k] - x, dy = py[k] - y, dz = pz[k] - z;
			float r = 1 / sqrtf(dx * dx + dy * dy + dz * dz + 0.01f), w = r * r * r;

			fx += dx * w;
			fy += dy * w;
			fz += dz * w;
		}
		ax[i] = fx;
		ay[i] = fy;
		az[i] = fz;
	}
}

static void scan(void **b)
{
	IN(int, x, 0);
	OUT(int, z, 1);

#pragma omp parallel for
	for (int block = 0; block < REDUCE_COUNT; block += 256) {
		int sum = 0;

		for (int i = block; i < block + 256; i++)
			z[i] = sum += x[i];
	}
}

static inline float distribution(float d)
{
	float k = 1 / (1 + 0.2316419f * fabsf(d)), p = 1.330274429f;

	p = k * (0.319381530f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * p))));
	p *= 0.39894228f * exp2f(-0.72134752f * d * d);
	return d > 0 ? 1 - p : p;
}

static void black_scholes(void **b)
{
	IN(float, price, 0);
	IN(float, strike, 1);
	IN(float, years, 2);
	OUT(float, call, 3);
	OUT(float, put, 4);

#pragma omp parallel for
	for (int i = 0; i < OPTIONS; i++) {
		float s = 5 + 25 * price[i], x = 1 + 99 * strike[i], root = sqrtf(0.25f + 10 * years[i]);
		float d1 = (log2f(s / x) * 0.69314718f + (0.02f + 0.5f * 0.3f * 0.3f) * root * root) / (0.3f * root);
		float d2 = d1 - 0.3f * root, discounted = x * exp2f(-0.02f * 1.44269504f * root * root);

		call[i] = s * distribution(d1) - discounted * distribution(d2);
		put[i] = discounted * distribution(-d2) - s * distribution(-d1);
	}
}

static void bitonic(void **b)
{
	IN(int, x, 0);
	OUT(int, z, 1);

#pragma omp parallel for
	for (int block = 0; block < SORT_COUNT; block += 512) {
		int *part = z + block;

		memcpy(part, x + block, 512 * sizeof(*part));
		for (int size = 2; size <= 512; size *= 2)
			for (int step = size / 2; step; step /= 2)
				for (int group = 0; group < 512; group += 2 * step)
					for (int at = group; at < group + step; at++) {
						int low = part[at] < part[at + step] ? part[at] : part[at + step];
						int high = part[at] < part[at + step] ? part[at + step] : part[at];

						part[at] = group & size ? high : low;
						part[at + step] = group & size ? low : high;
					}
	}
}

#define ROTATE(x, n) ((x) << (n) | (x) >> (32 - (n)))

static void hash(void **b)
{
	OUT(uint32_t, z, 0);

#pragma omp parallel for simd
	for (uint32_t i = 0; i < HASH_COUNT; i++) {
		uint32_t x = 0x67452301u ^ i, y = 0xefcdab89u, u = 0x98badcfeu, v = 0x10325476u, f;

		for (int k = 0; k < HASH_ROUNDS; k++) {
			f = x + ((y & u) | (~y & v)) + i * 0x9e3779b9u;
			x = v, v = u, u = y, y += ROTATE(f, 7);
			f = x + ((v & y) | (~v & u)) + 0xd76aa478u;
			x = v, v = u, u = y, y += ROTATE(f, 12);
			f = x + (y ^ u ^ v) + i;
			x = v, v = u, u = y, y += ROTATE(f, 17);
			f = x + (u ^ (y | ~v)) + 0xe8c7b756u;
			x = v, v = u, u = y, y += ROTATE(f, 22);
		}
		z[i] = x ^ y ^ u ^ v;
	}
}

/* Eight lanes, whatever the host has: the compiler splits or joins them. */
typedef float lanes __attribute__((vector_size(32)));

static int host_limits(const char *what)
{
	double best = 1e30, start;
	volatile float sink;

	if (strcmp(what, "fma"))
		return -1;
	for (int round = 0; round < 5; round++) {
		float sum = 0;

		start = now_us();
#pragma omp parallel reduction(+ : sum)
		{
			lanes a[12], x = {1, 1, 1, 1, 1, 1, 1, 1}, y = x * 1e-9f;

			for (int k = 0; k < 12; k++)
				a[k] = x * (float)k;
			for (int n = 0; n < 2000000; n++) {
#pragma GCC unroll 12
				for (int k = 0; k < 12; k++)
					a[k] = a[k] * x + y;
				__asm__("" : "+x"(x));
			}
			for (int k = 0; k < 12; k++)
				sum += a[k][0];
#pragma omp single nowait
			sink = (float)__builtin_omp_get_num_threads();
		}
		if (now_us() - start < best)
			best = now_us() - start;
	}
	printf("%.1f\n", sink * 12 * 16 * 2000000.0 / best * 1e-3);
	return 0;
}

static void **current;

static bool openmp_open(char **args)
{
	return true;
}

static bool prepare(const struct bench_case *c, void **host)
{
	current = host;
	return true;
}

static bool run(const struct bench_case *c)
{
	c->openmp(current);
	return true;
}

static void fetch(const struct bench_case *c, void *to)
{
	memcpy(to, current[c->output], c->buffers[c->output].count * 4);
}

static void end(const struct bench_case *c)
{
}

const struct side openmp_side = {openmp_open, prepare, run, fetch, end, host_limits};

#define FLOATS(n) {(n), FILL_FLOATS, 0}
#define INTS(n) {(n), FILL_INTS, UINT32_MAX}
#define ZERO(n) {(n), FILL_ZERO, 0}
#define LINE(n) .grid = {((n) + 255) / 256, 1}, .block = {256, 1}
#define GB(n) .gigabytes = (n) * 4e-9

#define STREAM(id, function)                                                                                           \
	.kernel = id, .openmp = function, .output = 2, .result = RESULT_FLOATS, GB(3.0 * STREAM_COUNT),                \
	.buffers = {FLOATS(STREAM_COUNT), FLOATS(STREAM_COUNT), ZERO(STREAM_COUNT)}
#define MATRIX_MUL(side)                                                                                               \
	{                                                                                                              \
		.name = "matrixMul " #side, .kernel = "matrixMul" #side, .grid = {MATRIX / side, MATRIX / side},       \
		.block = {side, side}, .ints = {MATRIX}, .int_count = 1, .openmp = matrix_mul, .output = 2,            \
		.buffers = {FLOATS(MATRIX * MATRIX), FLOATS(MATRIX * MATRIX), ZERO(MATRIX * MATRIX)},                  \
		.result = RESULT_FLOATS, .gflops = 2e-9 * MATRIX * MATRIX * MATRIX                                     \
	}
#define REDUCE(text, id, blocks)                                                                                       \
	{                                                                                                              \
		.name = text, .kernel = id, .opencl = "treeReduce", .grid = {blocks, 1}, .block = {256, 1},            \
		.ints = {REDUCE_COUNT}, .int_count = 1, .openmp = reduce, .output = 1, .result = RESULT_FLOAT_SUMS, .fold = 1,  \
		.buffers = {FLOATS(REDUCE_COUNT), ZERO(blocks)}, GB(REDUCE_COUNT)                                      \
	}

const struct bench_case bench_cases[] = {
	{.name = "vectorAdd", LINE(STREAM_COUNT), .ints = {STREAM_COUNT}, .int_count = 1, STREAM("vectorAdd", vector_add)},
	{.name = "triad", .grid = {1024, 1}, .block = {256, 1}, .scale = 3, .ints = {STREAM_COUNT}, .int_count = 1,
	 STREAM("triad", triad)},
	MATRIX_MUL(32),
	MATRIX_MUL(16),
	REDUCE("shuffleReduce 256", "shuffleReduce", 256),
	REDUCE("shuffleReduce 16384", "shuffleReduce", 16384),
	REDUCE("treeReduce 16384", "treeReduce", 16384),
	{.name = "mandelbrot", .kernel = "mandelbrot", LINE(MANDEL_WIDTH * MANDEL_WIDTH), .openmp = mandelbrot,
	 .buffers = {ZERO(MANDEL_WIDTH * MANDEL_WIDTH)}, .ints = {MANDEL_WIDTH, MANDEL_MOST}, .int_count = 2,
	 .result = RESULT_INT_SUMS, .fold = 1},
	{.name = "spmv", .kernel = "spmv", LINE(SPMV_ROWS), .openmp = spmv, .output = 4, .result = RESULT_FLOATS,
	 .buffers = {{SPMV_ROWS + 1, FILL_ROWS, 20}, {SPMV_COUNT, FILL_INTS, SPMV_ROWS}, FLOATS(SPMV_COUNT),
		     FLOATS(SPMV_ROWS), ZERO(SPMV_ROWS)},
	 .ints = {SPMV_ROWS}, .int_count = 1, .gflops = 2e-9 * SPMV_COUNT},
	{.name = "gather", .kernel = "gather", LINE(GATHER_COUNT), .openmp = gather, .output = 2, .result = RESULT_FLOATS,
	 .buffers = {{GATHER_COUNT, FILL_INTS, GATHER_RANGE}, FLOATS(GATHER_RANGE), ZERO(GATHER_COUNT)},
	 .ints = {GATHER_COUNT}, .int_count = 1, GB(3.0 * GATHER_COUNT)},
	{.name = "transpose", .kernel = "transpose", .grid = {PLANE / 32, PLANE / 32}, .block = {32, 8}, .openmp = transpose,
	 .buffers = {FLOATS(PLANE * PLANE), ZERO(PLANE * PLANE)}, .ints = {PLANE}, .int_count = 1, .output = 1,
	 .result = RESULT_FLOATS, GB(2.0 * PLANE * PLANE)},
	{.name = "histogram", .kernel = "histogram", .grid = {256, 1}, .block = {256, 1}, .openmp = histogram, .output = 1,
	 .buffers = {INTS(REDUCE_COUNT), ZERO(256 * 256)}, .ints = {REDUCE_COUNT}, .int_count = 1,
	 .result = RESULT_INT_SUMS, .fold = 256, GB(REDUCE_COUNT)},
	{.name = "stencil2D", .kernel = "stencil2D", .grid = {PLANE / 32, PLANE / 8}, .block = {32, 8}, .openmp = stencil_2d,
	 .buffers = {FLOATS(PLANE * PLANE), ZERO(PLANE * PLANE)}, .ints = {PLANE}, .int_count = 1, .output = 1,
	 .result = RESULT_FLOATS, GB(2.0 * PLANE * PLANE)},
	{.name = "stencil3D", .kernel = "stencil3D", .grid = {CUBE / 32, CUBE / 8}, .block = {32, 8}, .openmp = stencil_3d,
	 .buffers = {FLOATS(CUBE * CUBE * CUBE), ZERO(CUBE * CUBE * CUBE)}, .ints = {CUBE}, .int_count = 1, .output = 1,
	 .result = RESULT_FLOATS, GB(2.0 * CUBE * CUBE * CUBE)},
	{.name = "nbody", .kernel = "nbody", LINE(BODIES), .openmp = nbody, .output = 3, .result = RESULT_FLOATS,
	 .buffers = {FLOATS(BODIES), FLOATS(BODIES), FLOATS(BODIES), ZERO(BODIES), ZERO(BODIES), ZERO(BODIES)},
	 .ints = {BODIES}, .int_count = 1, .gflops = 20e-9 * BODIES * BODIES},
	{.name = "scan", .kernel = "scan", LINE(REDUCE_COUNT), .openmp = scan, .output = 1, .result = RESULT_INTS,
	 .buffers = {INTS(REDUCE_COUNT), ZERO(REDUCE_COUNT)}, GB(2.0 * REDUCE_COUNT)},
	{.name = "blackScholes", .kernel = "blackScholes", LINE(OPTIONS), .openmp = black_scholes, .output = 3,
	 .buffers = {FLOATS(OPTIONS), FLOATS(OPTIONS), FLOATS(OPTIONS), ZERO(OPTIONS), ZERO(OPTIONS)}, .ints = {OPTIONS},
	 .int_count = 1, .result = RESULT_FLOATS, GB(5.0 * OPTIONS)},
	{.name = "bitonic", .kernel = "bitonic", .grid = {SORT_COUNT / 512, 1}, .block = {256, 1}, .openmp = bitonic,
	 .buffers = {INTS(SORT_COUNT), ZERO(SORT_COUNT)}, .output = 1, .result = RESULT_INTS},
	{.name = "hash", .kernel = "hash", LINE(HASH_COUNT), .openmp = hash, .buffers = {ZERO(HASH_COUNT)},
	 .ints = {HASH_ROUNDS}, .int_count = 1, .result = RESULT_INTS},
};
const size_t bench_case_count = sizeof(bench_cases) / sizeof(bench_cases[0]);
