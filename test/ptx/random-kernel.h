/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random kernels whose result PTX defines to the last bit: a tree of statements, made from a number alone. Registers
 * are set before they are read; divisors are odd; barriers and warp operations stand where exactly the threads they
 * name get to; atomics commute; floating point is rounded once, and a NaN's bits are never looked at.
 */
#ifndef TEST_PTX_RANDOM_KERNEL_H
#define TEST_PTX_RANDOM_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The buffers of the kernel `test`(out, in): the lengths of both in bytes. */
#define RANDOM_RESULTS 32768 /* begin of the threads' registers; before it each thread has 32 bytes to work on */
#define RANDOM_THREAD 128    /* bytes of a thread's registers, of them: */
#define RANDOM_SINGLES 64    /* five f32 from here */
#define RANDOM_DOUBLES 88    /* three f64 from here: with any bits where they are NaNs */
#define RANDOM_CELLS (RANDOM_RESULTS + 768 * RANDOM_THREAD) /* cells for atomic additions of all threads */
#define RANDOM_OUT (RANDOM_CELLS + 64)
#define RANDOM_IN 32768

struct random_statement {
	char *before, *after; /* text around the children; after may be NULL */
	struct random_statement *children;
	unsigned count, number; /* number: in the order of the text, for leaving it out */
};

struct random_kernel {
	uint64_t seed;
	unsigned threads, blocks;
	bool alone;
	struct random_statement root;
	char *functions[2];
	unsigned count; /* of statements */
};

void random_kernel_make(struct random_kernel *k, uint64_t seed);
void random_kernel_free(struct random_kernel *k);

/* The PTX without the statements n for which skip[n] is set (NULL: with all), for free(). */
char *random_kernel_text(const struct random_kernel *k, const bool *skip);

/* For the parts of the generator. */
struct random_state {
	uint64_t value;
	unsigned labels, counters, numbers, left;
	unsigned threads;
	bool warp;  /* whole warps only, so that they may look at one another */
	bool alone; /* no thread needs another: no barrier, no shared memory */
};

struct random_place {
	unsigned depth;
	bool divergent;   /* some threads may not get here */
	bool function;    /* of a device function: a thread alone */
	const char *mask; /* the register that holds which lanes of the warp get here; NULL: unknown */
};

uint64_t random_next(struct random_state *s);
unsigned random_below(struct random_state *s, unsigned limit);

/* One instruction, or a few that belong together, as text for free(). */
char *random_instruction(struct random_state *s, const struct random_place *place);

/*
 * `template` with registers and numbers in the place of each $ and its letter; random-instruction.c lists the letters.
 */
char *random_fill(struct random_state *s, const struct random_place *place, const char *template);

#endif
