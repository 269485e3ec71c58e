/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A heap as large as its limit, whose book is kept outside of the memory, where kernels cannot write. Free blocks are
 * in lists by size: eight lists for each power of two (two-level segregated fit). Neighbours that are free are joined.
 */
#include "module/heap.h"

#include <pthread.h>
#include <stdlib.h>

#include "device/memory.h"

#define LEAST_UNIT 32
#define MOST_UNITS (1ull << 31)
#define STEPS 3 /* lists for each power of two, as a logarithm */
#define LISTS 256
#define NONE UINT32_MAX

/* Marks of a unit: a free or used block begins with it, or a free block ends with it. */
enum { BLOCK_FREE = 1, BLOCK_USED = 2, BLOCK_FREE_END = 4 };

struct softgpu_heap {
	struct softgpu_owned owned; /* by the context */
	struct CUctx_st *context;
	pthread_mutex_t lock;
	uint64_t start;
	uint32_t unit, units;  /* bytes of a unit, and how many there are */
	bool used;             /* a kernel that may use it was launched */
	uint8_t *state;        /* of each unit */
	uint32_t *size;        /* units of the block that begins there, or of the free one that ends there */
	uint32_t *next, *prev; /* of a free block, in its list */
	uint32_t first[LISTS];
	uint64_t filled[LISTS / 64]; /* a bit for each list that is not empty */
};

/* The list of free blocks of this size: in steps of an eighth of the power of two below it. */
static unsigned int list_of(uint32_t units)
{
	unsigned int order;

	if (units < 1u << STEPS)
		return units;
	order = 31 - (unsigned int)__builtin_clz(units);
	return (order - STEPS + 1) << STEPS | ((units >> (order - STEPS)) & ((1u << STEPS) - 1));
}

static void list_add(struct softgpu_heap *h, uint32_t unit, uint32_t units)
{
	unsigned int list = list_of(units);

	h->state[unit] = BLOCK_FREE;
	h->state[unit + units - 1] |= BLOCK_FREE_END;
	h->size[unit] = h->size[unit + units - 1] = units;
	h->prev[unit] = NONE;
	h->next[unit] = h->first[list];
	if (h->first[list] != NONE)
		h->prev[h->first[list]] = unit;
	h->first[list] = unit;
	h->filled[list / 64] |= 1ull << list % 64;
}

static void list_remove(struct softgpu_heap *h, uint32_t unit)
{
	unsigned int list = list_of(h->size[unit]);

	if (h->prev[unit] != NONE)
		h->next[h->prev[unit]] = h->next[unit];
	else
		h->first[list] = h->next[unit];
	if (h->next[unit] != NONE)
		h->prev[h->next[unit]] = h->prev[unit];
	if (h->first[list] == NONE)
		h->filled[list / 64] &= ~(1ull << list % 64);
	h->state[unit + h->size[unit] - 1] = 0;
	h->state[unit] = 0;
}

static void destroy(struct softgpu_heap *h)
{
	pthread_mutex_destroy(&h->lock);
	free(h->state);
	free(h->size);
	free(h->next);
	free(h->prev);
	free(h);
}

static struct softgpu_heap *create(uint64_t limit)
{
	struct softgpu_heap *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	for (h->unit = LEAST_UNIT; limit / h->unit >= MOST_UNITS;)
		h->unit *= 2;
	h->units = (uint32_t)((limit + h->unit - 1) / h->unit);
	for (unsigned int n = 0; n < LISTS; n++)
		h->first[n] = NONE;
	pthread_mutex_init(&h->lock, NULL);
	h->state = calloc(h->units + 1, sizeof(*h->state));
	h->size = calloc(h->units + 1, sizeof(*h->size));
	h->next = calloc(h->units + 1, sizeof(*h->next));
	h->prev = calloc(h->units + 1, sizeof(*h->prev));
	if (!h->state || !h->size || !h->next || !h->prev) {
		destroy(h);
		return NULL;
	}
	if (h->units)
		list_add(h, 0, h->units);
	return h;
}

/* The memory itself goes with the context's other memory. */
static void end_heap(struct softgpu_owned *owned)
{
	struct softgpu_heap *h = container_of(owned, struct softgpu_heap, owned);

	vcuda_list_remove(&owned->node);
	h->context->heap = NULL;
	destroy(h);
}

static CUresult provide(struct CUctx_st *context, uint64_t limit)
{
	struct softgpu_heap *h = create(limit);
	CUresult result = CUDA_SUCCESS;

	if (!h)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (h->units)
		result = softgpu_memory_alloc(context, (uint64_t)h->units * h->unit, SOFTGPU_VARIABLE, &h->start);
	if (result != CUDA_SUCCESS) {
		destroy(h);
		return result;
	}
	h->context = context;
	h->owned.end = end_heap;
	vcuda_list_add(&h->owned.node, &context->owned);
	context->heap = h;
	return CUDA_SUCCESS;
}

static void give_back(struct softgpu_heap *h)
{
	if (h->units)
		softgpu_memory_drop(h->context, h->start);
	end_heap(&h->owned);
}

CUresult softgpu_heap_set(struct CUctx_st *context, uint64_t limit)
{
	uint64_t before = context->limits[CU_LIMIT_MALLOC_HEAP_SIZE];
	bool had = context->heap;
	CUresult result;

	if (limit == before)
		return CUDA_SUCCESS;
	if (had && context->heap->used)
		return CUDA_ERROR_INVALID_VALUE;
	if (had)
		give_back(context->heap);
	result = provide(context, limit);
	if (result == CUDA_SUCCESS)
		context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = limit;
	else if (had)
		provide(context, before);
	return result;
}

CUresult softgpu_heap_get(struct CUctx_st *context, struct softgpu_heap **heap)
{
	CUresult result = context->heap ? CUDA_SUCCESS : provide(context, context->limits[CU_LIMIT_MALLOC_HEAP_SIZE]);

	if (result == CUDA_SUCCESS) {
		context->heap->used = true;
		*heap = context->heap;
	}
	return result;
}

/* The first list from `list` on that is not empty; LISTS: none. */
static unsigned int filled_from(const struct softgpu_heap *h, unsigned int list)
{
	uint64_t mask = ~0ull << list % 64;

	for (unsigned int n = list / 64; n < LISTS / 64; n++, mask = ~0ull)
		if (h->filled[n] & mask)
			return n * 64 + (unsigned int)__builtin_ctzll(h->filled[n] & mask);
	return LISTS;
}

/* A kernel that makes many blocks of nearly that size gets no memory rather than hold up the others. */
#define MOST_LOOKS 1024

/* All blocks of later lists are large enough; of the size's own list some may be. */
static uint32_t find(const struct softgpu_heap *h, uint32_t units)
{
	unsigned int list = filled_from(h, list_of(units) + 1);
	uint32_t unit, looks = MOST_LOOKS;

	if (list < LISTS)
		return h->first[list];
	for (unit = h->first[list_of(units)]; unit != NONE && h->size[unit] < units; unit = h->next[unit])
		if (!--looks)
			return NONE;
	return unit;
}

static uint64_t take(struct softgpu_heap *h, uint32_t units)
{
	uint32_t unit = find(h, units), left;

	if (unit == NONE)
		return 0;
	left = h->size[unit] - units;
	list_remove(h, unit);
	if (left)
		list_add(h, unit + units, left);
	h->state[unit] = BLOCK_USED;
	h->size[unit] = units;
	return h->start + (uint64_t)unit * h->unit;
}

uint64_t softgpu_heap_allocate(void *heap, uint64_t bytes)
{
	struct softgpu_heap *h = heap;
	uint64_t address;

	if (bytes > (uint64_t)h->units * h->unit)
		return 0;
	pthread_mutex_lock(&h->lock);
	address = take(h, (uint32_t)((bytes + h->unit - 1) / h->unit + !bytes));
	pthread_mutex_unlock(&h->lock);
	return address;
}

static void put(struct softgpu_heap *h, uint32_t unit)
{
	uint32_t units = h->size[unit];

	h->state[unit] = 0;
	if (unit + units < h->units && h->state[unit + units] & BLOCK_FREE) {
		uint32_t behind = h->size[unit + units];

		list_remove(h, unit + units);
		units += behind;
	}
	if (unit && h->state[unit - 1] & BLOCK_FREE_END) {
		uint32_t before = h->size[unit - 1];

		unit -= before;
		list_remove(h, unit);
		units += before;
	}
	list_add(h, unit, units);
}

bool softgpu_heap_release(void *heap, uint64_t address)
{
	struct softgpu_heap *h = heap;
	uint64_t unit = (address - h->start) / h->unit;
	bool ok;

	if (address < h->start || unit >= h->units || (address - h->start) % h->unit)
		return false;
	pthread_mutex_lock(&h->lock);
	ok = h->state[unit] & BLOCK_USED;
	if (ok)
		put(h, (uint32_t)unit);
	pthread_mutex_unlock(&h->lock);
	return ok;
}
