/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/allocation.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "protocol/guest-calls.h"

/*
 * Handles of host memory are numbers of this process's own. No id of a worker's is the same: those have the kind of the
 * object, which is not 0, in bits 24 to 31.
 */
#define HOST_HANDLES 0x7600000000000000ull

struct created {
	CUmemGenericAllocationHandle handle;
	struct libcuda_allocation made;
	unsigned int held, mapped, used;
	struct created *next;
};

struct mapping {
	struct libcuda_mapping place;
	struct created *of;
	struct mapping *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct created *all;
static struct mapping *mappings, *host_mappings;
static _Atomic unsigned int host_count; /* mappings of host memory: most programs have none */

static struct created *find_any(CUmemGenericAllocationHandle handle)
{
	struct created *c;

	for (c = all; c && c->handle != handle; c = c->next)
		continue;
	return c;
}

static struct created *find(CUmemGenericAllocationHandle handle)
{
	struct created *c = find_any(handle);

	return c && c->held ? c : NULL;
}

static CUresult let_go(CUmemGenericAllocationHandle handle, struct libcuda_host_memory *memory)
{
	if (!memory)
		return vcuda_call_vcudaMemRelease((vcuda_allocation)(uintptr_t)handle);
	libcuda_host_memory_free(memory);
	return CUDA_SUCCESS;
}

/* Releases the memory once it is neither held, mapped nor used. */
static CUresult settle(struct created *c)
{
	struct created **at = &all, old = *c;

	if (c->held || c->mapped || c->used)
		return CUDA_SUCCESS;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	free(c);
	return let_go(old.handle, old.made.memory);
}

CUresult libcuda_allocation_add(vcuda_allocation allocation, const struct libcuda_allocation *made,
				CUmemGenericAllocationHandle *handle)
{
	static uint64_t host_handles;
	struct created *c = calloc(1, sizeof(*c));

	if (!c) {
		let_go((uintptr_t)allocation, made->memory);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*c = (struct created){.handle = (uintptr_t)allocation, .made = *made, .held = 1};
	pthread_mutex_lock(&lock);
	if (made->memory)
		c->handle = HOST_HANDLES + ++host_handles;
	*handle = c->handle;
	c->next = all;
	all = c;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult libcuda_allocation_find(CUmemGenericAllocationHandle handle, struct libcuda_allocation *made)
{
	const struct created *c;

	pthread_mutex_lock(&lock);
	c = find_any(handle);
	if (c)
		*made = c->made;
	pthread_mutex_unlock(&lock);
	return c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult libcuda_allocation_begin(CUmemGenericAllocationHandle handle, struct libcuda_allocation *made)
{
	struct created *c;

	pthread_mutex_lock(&lock);
	c = find(handle);
	if (c) {
		c->used++;
		*made = c->made;
	}
	pthread_mutex_unlock(&lock);
	return c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void libcuda_allocation_end(CUmemGenericAllocationHandle handle)
{
	struct created *c;

	pthread_mutex_lock(&lock);
	c = find_any(handle);
	if (c) {
		c->used--;
		settle(c);
	}
	pthread_mutex_unlock(&lock);
}

CUresult libcuda_allocation_release(CUmemGenericAllocationHandle handle)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	struct created *c;

	pthread_mutex_lock(&lock);
	c = find(handle);
	if (c) {
		c->held--;
		result = settle(c);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

bool libcuda_allocation_waits(void)
{
	const struct created *c;

	pthread_mutex_lock(&lock);
	for (c = all; c && !(c->made.memory && c->held && !c->mapped); c = c->next)
		continue;
	pthread_mutex_unlock(&lock);
	return c;
}

static void add_mapping(struct mapping *m)
{
	struct mapping **list = m->of->made.memory ? &host_mappings : &mappings;

	m->next = *list;
	*list = m;
	m->of->mapped++;
	if (m->of->made.memory)
		atomic_fetch_add(&host_count, 1);
}

CUresult libcuda_allocation_map(CUmemGenericAllocationHandle handle, uint64_t start, uint64_t bytes)
{
	struct mapping *m = calloc(1, sizeof(*m));
	struct created *c;

	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	c = find_any(handle);
	if (c) {
		*m = (struct mapping){.place = {.start = start, .bytes = bytes, .is_host = c->made.memory}, .of = c};
		m->place.device = c->made.memory ? 0 : c->made.location.id;
		add_mapping(m);
		m = NULL;
	}
	pthread_mutex_unlock(&lock);
	free(m);
	return c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void unmap_from(struct mapping **list, uint64_t start, uint64_t bytes)
{
	for (struct mapping **at = list, *m; (m = *at);) {
		if (m->place.start - start >= bytes) {
			at = &m->next;
			continue;
		}
		*at = m->next;
		if (m->of->made.memory)
			atomic_fetch_sub(&host_count, 1);
		m->of->mapped--;
		settle(m->of);
		free(m);
	}
}

void libcuda_allocation_unmap(uint64_t start, uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	unmap_from(&mappings, start, bytes);
	pthread_mutex_unlock(&lock);
}

void libcuda_host_mapping_end(uint64_t start)
{
	pthread_mutex_lock(&lock);
	unmap_from(&host_mappings, start, 1);
	pthread_mutex_unlock(&lock);
}

/* The first that has a byte of [start, start + bytes) there; NULL: none. With the lock. */
static struct mapping *overlapping(struct mapping *list, uint64_t start, uint64_t bytes)
{
	struct mapping *m;

	for (m = list; m && (m->place.start >= start + bytes || start >= m->place.start + m->place.bytes); m = m->next)
		continue;
	return m;
}

/* The one around the address, of either kind. With the lock. */
static struct mapping *around(uint64_t address)
{
	struct mapping *m = overlapping(mappings, address, 1);

	return m ? m : overlapping(host_mappings, address, 1);
}

bool libcuda_allocation_is_mapped_in(uint64_t start, uint64_t bytes)
{
	bool is;

	pthread_mutex_lock(&lock);
	is = overlapping(mappings, start, bytes) || overlapping(host_mappings, start, bytes);
	pthread_mutex_unlock(&lock);
	return is;
}

CUresult libcuda_allocation_retain(uint64_t address, CUmemGenericAllocationHandle *handle)
{
	struct mapping *m;

	pthread_mutex_lock(&lock);
	m = around(address);
	if (m) {
		m->of->held++;
		*handle = m->of->handle;
	}
	pthread_mutex_unlock(&lock);
	return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

unsigned int libcuda_allocation_types_at(uint64_t address)
{
	const struct mapping *m;
	unsigned int types;

	pthread_mutex_lock(&lock);
	m = around(address);
	types = m ? m->of->made.handle_types : 0;
	pthread_mutex_unlock(&lock);
	return types;
}

/* ---- mappings ---- */

bool libcuda_mapping_at(uint64_t address, struct libcuda_mapping *mapping)
{
	const struct mapping *m;

	pthread_mutex_lock(&lock);
	m = around(address);
	if (m)
		*mapping = m->place;
	pthread_mutex_unlock(&lock);
	return m;
}

/* With the lock. `first`: NULL, or one that is first so far. */
static const struct mapping *first_in(const struct mapping *list, uint64_t start, uint64_t end,
				      const struct mapping *first)
{
	for (const struct mapping *m = list; m; m = m->next)
		if (m->place.start >= start && m->place.start < end && (!first || m->place.start < first->place.start))
			first = m;
	return first;
}

bool libcuda_mapping_next(uint64_t start, uint64_t end, struct libcuda_mapping *mapping)
{
	const struct mapping *first;

	pthread_mutex_lock(&lock);
	first = first_in(host_mappings, start, end, first_in(mappings, start, end, NULL));
	if (first)
		*mapping = first->place;
	pthread_mutex_unlock(&lock);
	return first;
}

void libcuda_mapping_set(const struct libcuda_mapping *mapping)
{
	struct mapping *m;

	pthread_mutex_lock(&lock);
	m = around(mapping->start);
	if (m && m->place.start == mapping->start)
		m->place = *mapping;
	pthread_mutex_unlock(&lock);
}

bool libcuda_mappings_are_cut(uint64_t start, uint64_t bytes)
{
	struct libcuda_mapping m;

	return (libcuda_mapping_at(start, &m) && m.start < start) ||
	       (libcuda_mapping_at(start + bytes - 1, &m) && m.start + m.bytes > start + bytes);
}

/* ---- mappings of host memory ---- */

bool libcuda_host_mapping_at(uint64_t address, struct libcuda_mapping *mapping)
{
	const struct mapping *m = NULL;

	if (!atomic_load_explicit(&host_count, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&lock);
	m = overlapping(host_mappings, address, 1);
	if (m)
		*mapping = m->place;
	pthread_mutex_unlock(&lock);
	return m;
}

bool libcuda_host_mapping_next(uint64_t start, uint64_t end, struct libcuda_mapping *mapping)
{
	const struct mapping *first = NULL;

	if (!atomic_load_explicit(&host_count, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&lock);
	first = first_in(host_mappings, start, end, NULL);
	if (first)
		*mapping = first->place;
	pthread_mutex_unlock(&lock);
	return first;
}

bool libcuda_host_mappings_cover(uint64_t start, uint64_t bytes)
{
	uint64_t at = start, end = start + bytes;
	struct libcuda_mapping m;

	while (at < end && libcuda_host_mapping_next(at, end, &m) && m.start == at && m.bytes <= end - at &&
	       !m.is_ending)
		at += m.bytes;
	return at == end && bytes;
}

bool libcuda_host_mappings_are_open(uint64_t address, uint64_t bytes)
{
	struct libcuda_mapping m;

	while (libcuda_host_mapping_at(address, &m) && m.cpu == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
		uint64_t here = m.bytes - (address - m.start);

		if (bytes <= here)
			return true;
		address += here;
		bytes -= here;
	}
	return false;
}

bool libcuda_host_mappings_are_seen(uint64_t address, uint64_t bytes)
{
	bool are = false;

	if (!atomic_load_explicit(&host_count, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&lock);
	for (const struct mapping *m = host_mappings; m && !are; m = m->next)
		are = m->place.cpu != CU_MEM_ACCESS_FLAGS_PROT_NONE && m->place.start < address + bytes &&
		      address < m->place.start + m->place.bytes;
	pthread_mutex_unlock(&lock);
	return are;
}
