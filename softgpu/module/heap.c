/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A buddy allocator whose book is kept outside of the memory, where kernels cannot write. Blocks are powers of two, so
 * the memory is twice as large as the limit, and what counts against the limit is what was asked for.
 */
#include "module/heap.h"

#include <pthread.h>
#include <stdlib.h>

#include "device/memory.h"

#define UNIT 32
#define ORDERS 32
#define NONE UINT32_MAX

enum { BLOCK_FREE = 0x40, BLOCK_USED = 0x80, BLOCK_ORDER = 0x3f };

struct softgpu_heap {
	struct softgpu_owned owned; /* by the context */
	struct CUctx_st *context;
	pthread_mutex_t lock;
	uint64_t start, left; /* bytes that may still be asked for */
	uint32_t units;
	uint8_t *state; /* per unit: BLOCK_FREE or BLOCK_USED and the order of the block that starts there; 0: none */
	uint32_t *next, *prev; /* of a free block, in the list of its order; next of a used one: its size in units */
	uint32_t first[ORDERS];
};

static void list_add(struct softgpu_heap *h, uint32_t unit, unsigned order)
{
	h->state[unit] = (uint8_t)(BLOCK_FREE | order);
	h->prev[unit] = NONE;
	h->next[unit] = h->first[order];
	if (h->first[order] != NONE)
		h->prev[h->first[order]] = unit;
	h->first[order] = unit;
}

static void list_remove(struct softgpu_heap *h, uint32_t unit, unsigned order)
{
	if (h->prev[unit] != NONE)
		h->next[h->prev[unit]] = h->next[unit];
	else
		h->first[order] = h->next[unit];
	if (h->next[unit] != NONE)
		h->prev[h->next[unit]] = h->prev[unit];
	h->state[unit] = 0;
}

static void destroy(struct softgpu_heap *h)
{
	pthread_mutex_destroy(&h->lock);
	free(h->state);
	free(h->next);
	free(h->prev);
	free(h);
}

static struct softgpu_heap *create(uint64_t limit, uint64_t *bytes)
{
	struct softgpu_heap *h = calloc(1, sizeof(*h));
	unsigned order = 0;

	if (!h)
		return NULL;
	while (((uint64_t)UNIT << order) < 2 * limit && order < ORDERS - 1)
		order++;
	h->units = 1u << order;
	h->left = limit;
	*bytes = (uint64_t)UNIT << order;
	for (unsigned n = 0; n < ORDERS; n++)
		h->first[n] = NONE;
	pthread_mutex_init(&h->lock, NULL);
	h->state = calloc(h->units, sizeof(*h->state));
	h->next = calloc(h->units, sizeof(*h->next));
	h->prev = calloc(h->units, sizeof(*h->prev));
	if (!h->state || !h->next || !h->prev) {
		destroy(h);
		return NULL;
	}
	list_add(h, 0, order);
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

CUresult softgpu_heap_get(struct CUctx_st *context, struct softgpu_heap **heap)
{
	struct softgpu_heap *h = context->heap;
	CUresult result;
	uint64_t bytes;

	if (!h) {
		h = create(context->limits[CU_LIMIT_MALLOC_HEAP_SIZE], &bytes);
		if (!h)
			return CUDA_ERROR_OUT_OF_MEMORY;
		result = softgpu_memory_alloc(context, bytes, SOFTGPU_VARIABLE, &h->start);
		if (result != CUDA_SUCCESS) {
			destroy(h);
			return result;
		}
		h->context = context;
		h->owned.end = end_heap;
		vcuda_list_add(&h->owned.node, &context->owned);
		context->heap = h;
	}
	*heap = h;
	return CUDA_SUCCESS;
}

static uint64_t take(struct softgpu_heap *h, uint32_t units)
{
	unsigned order = 0, have;
	uint32_t unit;

	while ((1ull << order) < units)
		order++;
	for (have = order; have < ORDERS && h->first[have] == NONE; have++)
		;
	if (have == ORDERS)
		return 0;
	unit = h->first[have];
	list_remove(h, unit, have);
	while (have > order) {
		have--;
		list_add(h, unit + (1u << have), have);
	}
	h->state[unit] = (uint8_t)(BLOCK_USED | order);
	h->next[unit] = units;
	return h->start + (uint64_t)unit * UNIT;
}

uint64_t softgpu_heap_allocate(void *heap, uint64_t bytes)
{
	struct softgpu_heap *h = heap;
	uint64_t units, address = 0;

	if (bytes > (uint64_t)UNIT * h->units)
		return 0;
	units = (bytes + UNIT - 1) / UNIT + !bytes;
	pthread_mutex_lock(&h->lock);
	if (units * UNIT <= h->left)
		address = take(h, (uint32_t)units);
	if (address)
		h->left -= units * UNIT;
	pthread_mutex_unlock(&h->lock);
	return address;
}

static void put(struct softgpu_heap *h, uint32_t unit)
{
	unsigned order = h->state[unit] & BLOCK_ORDER;

	h->state[unit] = 0;
	while ((1u << order) < h->units) {
		uint32_t buddy = unit ^ 1u << order;

		if (h->state[buddy] != (BLOCK_FREE | order))
			break;
		list_remove(h, buddy, order);
		unit &= ~(1u << order);
		order++;
	}
	list_add(h, unit, order);
}

bool softgpu_heap_release(void *heap, uint64_t address)
{
	struct softgpu_heap *h = heap;
	uint64_t unit = (address - h->start) / UNIT;
	bool ok;

	if (address < h->start || unit >= h->units || (address - h->start) % UNIT)
		return false;
	pthread_mutex_lock(&h->lock);
	ok = h->state[unit] & BLOCK_USED;
	if (ok) {
		h->left += (uint64_t)h->next[unit] * UNIT;
		put(h, (uint32_t)unit);
	}
	pthread_mutex_unlock(&h->lock);
	return ok;
}
