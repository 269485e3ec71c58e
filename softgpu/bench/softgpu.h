/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the sides of the benchmark: the table of cases, and the functions of a side. A side runs a case over
 * buffers that look the same to all sides. main.c makes the buffers, times the runs and compares the results.
 */
#ifndef BENCH_SOFTGPU_H
#define BENCH_SOFTGPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_BUFFERS 8

/* The contents of a buffer at the start; each element is 4 bytes. */
enum fill { FILL_ZERO, FILL_FLOATS, FILL_INTS, FILL_ROWS };

struct buffer {
	size_t count; /* 0: no more buffers */
	enum fill fill;
	uint32_t below; /* FILL_INTS, FILL_ROWS */
};

/* Comparison of outputs; a sum is over all elements whose index is the same modulo `fold`. */
enum result { RESULT_INTS, RESULT_FLOATS, RESULT_INT_SUMS, RESULT_FLOAT_SUMS };

struct bench_case {
	const char *name;
	const char *kernel, *opencl; /* opencl: another name there, or NULL */
	uint32_t grid[2], block[2];
	struct buffer buffers[MAX_BUFFERS]; /* the kernel's first parameters, in order */
	int ints[2];
	unsigned int_count; /* number of `ints`, which follow `scale` as parameters */
	float scale;        /* 0: no such parameter */
	void (*openmp)(void **buffers);
	unsigned output; /* buffer that is compared */
	enum result result;
	unsigned fold;
	double gigabytes, gflops; /* moved or computed by one run; 0: not given */
};

extern const struct bench_case bench_cases[];
extern const size_t bench_case_count;

struct side {
	bool (*open)(char **args);                                     /* false: missing, with a message */
	bool (*prepare)(const struct bench_case *c, void **host);      /* copies the buffers in */
	bool (*run)(const struct bench_case *c);                       /* and waits for the end */
	void (*fetch)(const struct bench_case *c, void *to);           /* the output */
	void (*close)(const struct bench_case *c);                     /* gives the buffers back */
	int (*extra)(const char *what);                                /* other commands; NULL: none */
};

extern const struct side cuda_side, opencl_side, openmp_side;

double now_us(void);

#endif
