/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One side of the benchmark, told what to do by lines on stdin, so that softgpu.py can let the sides run in turns:
 *
 * list		prints every case: name, gigabytes and gigaflops of a run
 * case NAME	makes the buffers, runs the case once and compares its output with the OpenMP side's; prints `ok`
 * run N	runs the case N times and prints the times in microseconds
 * others	see the sides
 *
 * usage: softgpu-bench cuda LIBRARY PTX | opencl SOURCE | openmp
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "softgpu.h"

static const struct side *side;
static const struct bench_case *current;
static void *host[MAX_BUFFERS];

double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* With SOFTGPU_CPU_TIME, the processor time of all threads of the process: for a machine with other work. */
static double clock_us(void)
{
	static int cpu_time = -1;
	struct timespec t;

	if (cpu_time < 0)
		cpu_time = getenv("SOFTGPU_CPU_TIME") != NULL;
	if (!cpu_time)
		return now_us();
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* FILL_ROWS: where the rows of a sparse matrix start, which have 1 to 2 * below - 1 elements. */
static void fill(const struct buffer *b, uint32_t *ints)
{
	uint32_t state = 1;

	for (size_t n = 0; n < b->count; n++) {
		uint32_t random = next_random(&state);

		if (b->fill == FILL_FLOATS)
			((float *)ints)[n] = (float)(random >> 8) * 0x1p-24f;
		else if (b->fill == FILL_INTS)
			ints[n] = random % b->below;
		else if (b->fill == FILL_ROWS)
			ints[n] = (uint32_t)n * b->below + (n && n < b->count - 1 ? random % b->below : 0);
	}
}

static bool fold_differs(const struct bench_case *c, const void *got, const void *want)
{
	double *sums = calloc(2 * c->fold, sizeof(*sums));
	bool differs = !sums;

	for (size_t n = 0; sums && n < c->buffers[c->output].count; n++) {
		bool ints = c->result == RESULT_INT_SUMS;

		sums[n % c->fold] += ints ? ((const int *)got)[n] : ((const float *)got)[n];
		sums[c->fold + n % c->fold] += ints ? ((const int *)want)[n] : ((const float *)want)[n];
	}
	for (unsigned n = 0; sums && n < c->fold; n++)
		differs |= !(fabs(sums[n] - sums[c->fold + n]) <= 1e-3 * fabs(sums[c->fold + n]));
	free(sums);
	return differs;
}

static bool differs(const struct bench_case *c, const void *got, const void *want)
{
	size_t count = c->buffers[c->output].count;
	const float *x = got, *y = want;

	if (c->result == RESULT_INTS)
		return memcmp(got, want, count * 4);
	if (c->result != RESULT_FLOATS)
		return fold_differs(c, got, want);
	for (size_t n = 0; n < count; n++)
		if (!(fabsf(x[n] - y[n]) <= 1e-3f * fabsf(y[n]) + 1e-3f))
			return true;
	return false;
}

static void leave_case(void)
{
	if (!current)
		return;
	side->close(current);
	for (unsigned n = 0; n < MAX_BUFFERS; n++) {
		free(host[n]);
		host[n] = NULL;
	}
	current = NULL;
}

static bool enter_case(const char *name)
{
	void *got;
	bool bad;

	leave_case();
	for (size_t n = 0; n < bench_case_count; n++)
		if (!strcmp(bench_cases[n].name, name))
			current = &bench_cases[n];
	if (!current)
		return false;
	for (unsigned n = 0; n < MAX_BUFFERS && current->buffers[n].count; n++) {
		size_t bytes = (current->buffers[n].count * 4 + 4095) / 4096 * 4096;

		host[n] = aligned_alloc(4096, bytes);
		if (!host[n])
			return false;
		memset(host[n], 0, bytes);
		fill(&current->buffers[n], host[n]);
	}
	got = malloc(current->buffers[current->output].count * 4);
	if (!got || !side->prepare(current, host) || !side->run(current))
		return false;
	side->fetch(current, got);
	current->openmp(host);
	bad = differs(current, got, host[current->output]);
	free(got);
	if (bad)
		fprintf(stderr, "%s: the result is not that of the OpenMP side\n", name);
	return !bad;
}

static bool time_runs(int count)
{
	if (!current)
		return false;
	for (int n = 0; n < count; n++) {
		double start = clock_us();

		if (!side->run(current))
			return false;
		printf("%.2f%c", clock_us() - start, n + 1 < count ? ' ' : '\n');
	}
	return true;
}

static bool list(void)
{
	for (size_t n = 0; n < bench_case_count; n++)
		printf("%s\t%g\t%g\n", bench_cases[n].name, bench_cases[n].gigabytes, bench_cases[n].gflops);
	printf("\n");
	return true;
}

static bool command(char *line)
{
	line[strcspn(line, "\n")] = 0;
	if (!strcmp(line, "list"))
		return list();
	if (!strncmp(line, "run ", 4))
		return time_runs(atoi(line + 4));
	if (!strncmp(line, "case ", 5)) {
		if (!enter_case(line + 5))
			return false;
		printf("ok\n");
		return true;
	}
	return side->extra && side->extra(line) == 0;
}

int main(int argc, char **argv)
{
	char line[256];

	if (argc >= 4 && !strcmp(argv[1], "cuda"))
		side = &cuda_side;
#ifdef HAVE_OPENCL
	else if (argc >= 3 && !strcmp(argv[1], "opencl"))
		side = &opencl_side;
#endif
	else if (argc >= 2 && !strcmp(argv[1], "openmp"))
		side = &openmp_side;
	if (!side) {
		fprintf(stderr, "usage: softgpu-bench cuda LIBRARY PTX | opencl SOURCE | openmp\n");
		return 2;
	}
	if (!side->open(argv + 2))
		return 1;
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	while (fgets(line, sizeof(line), stdin)) {
		if (!command(line))
			return 1;
		fflush(stdout);
	}
	leave_case();
	return 0;
}
