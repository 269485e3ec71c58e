/* SPDX-License-Identifier: Apache-2.0 */
#include "math/blas-padded.h"

#include <stdlib.h>
#include <string.h>

#include "device/arena.h"

/* Bytes on either side of a copy: two elements, and a register of any processor. */
#define ROOM 128
/* Kernels of OpenBLAS begin otherwise where a vector is aligned otherwise. */
#define ALIGNMENT 64

/* A copy of a vector. */
struct padded {
	char *room; /* NULL: the vector itself is used */
	char *vector, *copy;
	uint64_t size, count;
	uint64_t vector_step, step; /* bytes, from the lowest address on */
};

static uint64_t distance(int64_t step)
{
	return (uint64_t)(step < 0 ? -step : step);
}

/* OpenBLAS computes in another order where an increment is 1, and only there; so a copy has 1 where the vector has. */
static int64_t copied_step(int64_t step)
{
	return step > 1 ? 2 : step < -1 ? -2 : step;
}

/* Real vectors without a matrix are read as they are; where there is a matrix, copies of vectors cost little. */
static bool is_read_beyond(const struct softgpu_blas_work *w, unsigned int operands, unsigned int which)
{
	const struct vcuda_blas_operand *o = &w->o[which];
	bool has_matrix = false;

	if (o->kind != VCUDA_BLAS_MEMORY || !o->vector || !o->elements || !o->address || w->skipped & 1u << which)
		return false;
	for (unsigned int i = 0; i < operands; i++)
		has_matrix |= w->o[i].kind == VCUDA_BLAS_MEMORY && !w->o[i].vector;
	return has_matrix || vcuda_blas_is_complex(o->type);
}

static bool has_room(const struct vcuda_blas_operand *o)
{
	uint64_t size = vcuda_blas_bytes(o->type), around = distance(o->step) * size + ROOM;

	return softgpu_arena_is_readable(o->address - around, o->elements * size + 2 * around);
}

static void copy(char *to, uint64_t to_step, const char *from, uint64_t from_step, const struct padded *p)
{
	for (uint64_t i = 0; i < p->count; i++)
		memcpy(to + i * to_step, from + i * from_step, p->size);
}

/* Makes a copy, and has the words of the call name it. */
static bool pad(struct padded *p, const struct vcuda_blas_operand *o, uint64_t *words)
{
	int64_t step = copied_step(o->step);

	p->size = vcuda_blas_bytes(o->type);
	p->count = step ? (uint64_t)o->rows : 1;
	p->vector = (char *)(uintptr_t)o->address;
	p->vector_step = distance(o->step) * p->size;
	p->step = distance(step) * p->size;
	p->room = calloc(1, (p->count - 1) * p->step + p->size + 2 * ROOM + ALIGNMENT);
	if (!p->room)
		return false;
	p->copy = p->room + ROOM;
	p->copy += (o->address - (uint64_t)(uintptr_t)p->copy) % ALIGNMENT;
	copy(p->copy, p->step, p->vector, p->vector_step, p);
	words[o->word] = (uint64_t)(uintptr_t)p->copy;
	words[o->word + 1] = (uint64_t)step;
	return true;
}

static void put_back(const struct padded *p)
{
	copy(p->vector, p->vector_step, p->copy, p->step, p);
}

CUresult softgpu_blas_call_padded(const struct softgpu_blas_call *call, void (*function)(void),
				  const struct softgpu_blas_work *w, unsigned int operands)
{
	struct padded p[VCUDA_BLAS_MAX_OPERANDS] = {{NULL}};
	uint64_t words[VCUDA_BLAS_MAX_WORDS];
	bool good = true;

	memcpy(words, w->words, sizeof(words));
	for (unsigned int i = 0; i < operands && good; i++)
		if (is_read_beyond(w, operands, i) && !has_room(&w->o[i]))
			good = pad(&p[i], &w->o[i], words);
	if (good)
		call->call(function, words, w->result);
	for (unsigned int i = 0; i < operands; i++) {
		if (good && p[i].room && w->o[i].written)
			put_back(&p[i]);
		free(p[i].room);
	}
	return good ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
