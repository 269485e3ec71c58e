/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAS at the edges of memory: test-blas-edges [ROUTINE]... computes each routine, or those that are named, with
 * operands that begin or end where accessible memory does. A routine that touches more than its operands, of which
 * OpenBLAS has some, faults.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softgpu/math/blas-call.h"
#include "softgpu/math/blas-library.h"
#include "softgpu/math/blas-padded.h"
#include "test/check.h"
#include "test/seed.h"

/* Computations of a routine, and how often words are drawn until they are valid. */
enum { COMPUTATIONS = 300, DRAWS = 1000000 };

/* Bytes: results are compared where no operand has more. */
enum { MOST_COMPARED = 4096 };
/* Bytes: the middle of a slot of addresses is accessible. There is a slot for each operand. */
#define SLOT ((size_t)64 << 20)
#define MIDDLE ((size_t)2 << 20)
/*
 * Bytes behind matrices: OpenBLAS for older processors reads to the end of a register. Device memory has a gap
 * behind it that is larger.
 */
enum { GAP = 64 };
/* Elements: an increment leads out of the middle and not out of the slot. */
#define LONGEST (1u << 20)

static char *slots;
/* As far apart, and accessible: what is computed there must be the same. */
static char *others;
static uint64_t state;
/* The computation that runs. */
static const struct vcuda_blas_routine *running;
static struct softgpu_blas_work work;

static uint64_t random_bits(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	fprintf(stderr, "%s: touches %p; words:", running->name, info->si_addr);
	for (unsigned int i = 0; i < running->family->words; i++)
		fprintf(stderr, " %#llx", (unsigned long long)work.words[i]);
	fprintf(stderr, "\n");
	_exit(1);
}

static char *middle_of(unsigned int slot)
{
	return slots + slot * SLOT + SLOT / 2;
}

static void map_slots(void)
{
	slots = mmap(NULL, VCUDA_BLAS_MAX_OPERANDS * SLOT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		     0);
	others = mmap(NULL, VCUDA_BLAS_MAX_OPERANDS * SLOT, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(slots != MAP_FAILED && others != MAP_FAILED);
	for (unsigned int i = 0; i < VCUDA_BLAS_MAX_OPERANDS; i++)
		CHECK(!mprotect(middle_of(i), MIDDLE, PROT_READ | PROT_WRITE));
}

/* Where so many bytes begin the middle of the slot, or end it but for `gap` bytes. */
static char *edge(unsigned int slot, uint64_t bytes, uint64_t gap)
{
	CHECK(bytes + gap <= MIDDLE);
	return middle_of(slot) + (random_bits() % 2 ? 0 : MIDDLE - bytes - gap);
}

/* From 1 on: how far `count` elements or columns, each of so many elements, may be apart. */
static uint64_t random_step(uint64_t count, uint64_t each, uint64_t bytes)
{
	uint64_t most = count > 1 ? ((MIDDLE - GAP) / bytes - each) / (count - 1) : LONGEST;

	switch (random_bits() % 3) {
	case 0:
		return each;
	case 1:
		return each + random_bits() % 4;
	default:
		return most - random_bits() % (most / 8);
	}
}

/* Sizes, options and types that may be valid together; no addresses. */
static void draw(const struct vcuda_blas_family *f, uint64_t *words)
{
	static const uint64_t types[] = {VCUDA_BLAS_R_32F, VCUDA_BLAS_R_64F, VCUDA_BLAS_R_16F,  VCUDA_BLAS_R_8I,
					 VCUDA_BLAS_C_32F, VCUDA_BLAS_C_64F, VCUDA_BLAS_R_16BF, VCUDA_BLAS_R_32I};
	static const unsigned int sizes[] = {2, 3, 6, 70};
	/* For a product: one or two types of its matrices, and its type of computation. */
	uint64_t type = types[random_bits() % 8];
	const uint64_t numbers[] = {random_bits() % 2, type, random_bits() % 2 ? type : types[random_bits() % 8],
				    64 + random_bits() % 10};
	uint64_t most = sizes[random_bits() % 4];

	memset(words, 0, VCUDA_BLAS_MAX_WORDS * sizeof(*words));
	for (unsigned int i = 0; i < f->words; i++)
		words[i] = numbers[random_bits() % 4];
	/* Sizes come first among these, and then leading dimensions. */
	for (unsigned int i = 0; i < f->size_count; i++)
		words[f->sizes[i]] = i <= f->size_count / 2u ? random_bits() % most : 3 * most;
	if (f->batch >= 0)
		words[f->batch] = 1;
}

/* The increments and leading dimensions of what is valid so far. */
static void draw_steps(const struct vcuda_blas_routine *r, uint64_t *words)
{
	struct vcuda_blas_operand o[VCUDA_BLAS_MAX_OPERANDS];
	unsigned int count = r->family->operands(r, words, o);

	for (unsigned int i = 0; i < count; i++) {
		uint64_t step, rows = (uint64_t)o[i].rows, columns = (uint64_t)o[i].columns,
			       bytes = vcuda_blas_bytes(o[i].type);

		/* Packed triangles have none. */
		if (o[i].kind != VCUDA_BLAS_MEMORY || !o[i].step || o[i].rows <= 0 || o[i].columns <= 0)
			continue;
		step = o[i].vector ? random_step(rows, 1, bytes) : random_step(columns, rows, bytes);
		words[o[i].word + 1] = o[i].vector && random_bits() % 2 ? -step : step;
	}
}

static void draw_words(const struct vcuda_blas_routine *r, uint64_t *words)
{
	for (unsigned int i = 0; i < DRAWS; i++) {
		draw(r->family, words);
		if (vcuda_blas_check(r, words) != VCUDA_BLAS_GOOD)
			continue;
		draw_steps(r, words);
		if (vcuda_blas_check(r, words) == VCUDA_BLAS_GOOD)
			return;
	}
	fprintf(stderr, "%s: no valid words found\n", r->name);
	exit(1);
}

static uint64_t bytes_of(const struct vcuda_blas_operand *o)
{
	return o->kind == VCUDA_BLAS_MEMORY ? o->elements * vcuda_blas_bytes(o->type) : 0;
}

/* Numbers whose sums are exact. */
static void fill(const struct vcuda_blas_operand *o, void *p, uint64_t bytes)
{
	uint8_t real = vcuda_blas_real(o->type);

	if (bytes > MOST_COMPARED)
		return;
	for (uint64_t i = 0; real == VCUDA_BLAS_R_32F && i < bytes / sizeof(float); i++)
		((float *)p)[i] = (float)(random_bits() % 9) - 4;
	for (uint64_t i = 0; real == VCUDA_BLAS_R_64F && i < bytes / sizeof(double); i++)
		((double *)p)[i] = (double)(random_bits() % 9) - 4;
	/* A pivot is a row's number. */
	for (uint64_t i = 0; real == VCUDA_BLAS_R_32I && i < bytes / sizeof(int); i++)
		((int *)p)[i] = 1;
}

/* Gives the operands their places; `each` is what the words are those of. */
static unsigned int put_operands(const struct vcuda_blas_routine *r, const struct vcuda_blas_family *each)
{
	unsigned int count = each->operands(r, work.words, work.o);

	for (unsigned int i = 0; i < count; i++) {
		const struct vcuda_blas_operand *o = &work.o[i];

		if (o->kind == VCUDA_BLAS_MEMORY) {
			char *p = edge(i, bytes_of(o), o->vector ? 0 : GAP);

			work.words[o->word] = (uint64_t)(uintptr_t)p;
			fill(o, p, bytes_of(o));
		} else if (o->kind == VCUDA_BLAS_SCALAR) { /* about 1, of any type */
			work.words[o->word] = 0x3ff000003f803c00;
		}
	}
	return each->operands(r, work.words, work.o);
}

/* An operand without elements has no address. */
static bool is_in_slot(const struct vcuda_blas_operand *o)
{
	return o->kind == VCUDA_BLAS_MEMORY && bytes_of(o);
}

static char *other(const struct vcuda_blas_operand *o)
{
	return others + (o->address - (uint64_t)(uintptr_t)slots);
}

/* CBLAS with copies of vectors, where they are necessary, and without: where what is beyond may be read. */
static void compute_both(const struct softgpu_blas_call *call, void (*function)(void), unsigned int count)
{
	uint64_t words[VCUDA_BLAS_MAX_WORDS], result[VCUDA_BLAS_VALUE_WORDS] = {0};
	bool compared = true;

	memcpy(words, work.words, sizeof(words));
	for (unsigned int i = 0; i < count; i++)
		compared &= bytes_of(&work.o[i]) <= MOST_COMPARED;
	for (unsigned int i = 0; i < count && compared; i++) {
		if (!is_in_slot(&work.o[i]))
			continue;
		words[work.o[i].word] = (uint64_t)(uintptr_t)other(&work.o[i]);
		memcpy(other(&work.o[i]), (void *)(uintptr_t)work.o[i].address, bytes_of(&work.o[i]));
	}
	CHECK(softgpu_blas_call_padded(call, function, &work, count) == CUDA_SUCCESS);
	if (!compared)
		return;
	call->call(function, words, result);
	CHECK(!memcmp(result, work.result, sizeof(result)));
	for (unsigned int i = 0; i < count; i++)
		CHECK(!is_in_slot(&work.o[i]) ||
		      !memcmp(other(&work.o[i]), (void *)(uintptr_t)work.o[i].address, bytes_of(&work.o[i])));
}

static void compute(uint32_t number)
{
	const struct vcuda_blas_routine *r = &vcuda_blas_routines[number];
	const struct vcuda_blas_family *f = r->family, *each = f->base ? f->base : f;
	const struct softgpu_blas_call *call = &softgpu_blas_calls[number];
	uint64_t words[VCUDA_BLAS_MAX_WORDS], result[VCUDA_BLAS_VALUE_WORDS] = {0};
	unsigned int count;

	draw_words(r, words);
	for (unsigned int i = 0; i < each->words; i++)
		work.words[i] = words[f->base ? f->base_words[i] : i];
	work.routine = running = r;
	work.result = result;
	count = put_operands(r, each);
	work.rows = (uint64_t)work.o[count - 1].rows;
	work.columns = (uint64_t)work.o[count - 1].columns;
	if (call->own)
		CHECK(call->own(&work) == CUDA_SUCCESS);
	else
		compute_both(call, softgpu_blas_function(number), count);
}

static bool is_named(const char *name, char **names)
{
	bool all = !*names;

	while (*names)
		all |= !strcmp(*names++, name);
	return all;
}

int main(int argc, char **argv)
{
	const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	unsigned int routines = 0;

	(void)argc;
	setenv("OPENBLAS_NUM_THREADS", "1", 1);
	if (softgpu_blas_open() != CUDA_SUCCESS)
		return 77;
	state = test_seed_state(test_seed());
	map_slots();
	CHECK(!sigaction(SIGSEGV, &action, NULL) && !sigaction(SIGBUS, &action, NULL));
	for (uint32_t i = 0; i < VCUDA_BLAS_LIMIT; i++) {
		if (!vcuda_blas_routines[i].name || !is_named(vcuda_blas_routines[i].name, argv + 1))
			continue;
		for (unsigned int j = 0; j < COMPUTATIONS; j++)
			compute(i);
		routines++;
	}
	printf("%u routines\n", routines);
	return routines ? 0 : 1;
}
