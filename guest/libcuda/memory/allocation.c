/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/allocation.h"

#include <pthread.h>
#include <stdlib.h>

#include "protocol/guest-calls.h"

struct created {
	vcuda_allocation allocation;
	CUdevice device;
	unsigned int handle_types;
	unsigned int held, mapped;
	struct created *next;
};

struct mapping {
	uint64_t start, bytes;
	struct created *of;
	struct mapping *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct created *all;
static struct mapping *mappings;

static struct created *find(CUmemGenericAllocationHandle handle)
{
	struct created *c;

	for (c = all; c && (uintptr_t)c->allocation != handle; c = c->next)
		continue;
	return c && c->held ? c : NULL;
}

/* Lets it go once nobody has it any more. */
static CUresult settle(struct created *c)
{
	struct created **at = &all;
	vcuda_allocation allocation = c->allocation;

	if (c->held || c->mapped)
		return CUDA_SUCCESS;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	free(c);
	return vcuda_call_vcudaMemRelease(allocation);
}

CUresult libcuda_allocation_add(vcuda_allocation allocation, CUdevice device, unsigned int handle_types,
				CUmemGenericAllocationHandle *handle)
{
	struct created *c = calloc(1, sizeof(*c));

	if (!c) {
		vcuda_call_vcudaMemRelease(allocation);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*c = (struct created){.allocation = allocation, .device = device, .handle_types = handle_types, .held = 1};
	pthread_mutex_lock(&lock);
	c->next = all;
	all = c;
	pthread_mutex_unlock(&lock);
	*handle = (uintptr_t)allocation;
	return CUDA_SUCCESS;
}

CUresult libcuda_allocation_find(CUmemGenericAllocationHandle handle, CUdevice *device, unsigned int *handle_types)
{
	const struct created *c;

	pthread_mutex_lock(&lock);
	c = find(handle);
	if (c && device)
		*device = c->device;
	if (c && handle_types)
		*handle_types = c->handle_types;
	pthread_mutex_unlock(&lock);
	return c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
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

CUresult libcuda_allocation_map(CUmemGenericAllocationHandle handle, uint64_t start, uint64_t bytes)
{
	struct mapping *m = malloc(sizeof(*m));
	struct created *c;

	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	c = find(handle);
	if (c) {
		c->mapped++;
		*m = (struct mapping){start, bytes, c, mappings};
		mappings = m;
		m = NULL;
	}
	pthread_mutex_unlock(&lock);
	free(m);
	return c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void libcuda_allocation_unmap(uint64_t start, uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	for (struct mapping **at = &mappings, *m; (m = *at);) {
		if (m->start - start >= bytes) {
			at = &m->next;
			continue;
		}
		*at = m->next;
		m->of->mapped--;
		settle(m->of);
		free(m);
	}
	pthread_mutex_unlock(&lock);
}

CUresult libcuda_allocation_retain(uint64_t address, CUmemGenericAllocationHandle *handle)
{
	struct mapping *m;

	pthread_mutex_lock(&lock);
	for (m = mappings; m && address - m->start >= m->bytes; m = m->next)
		continue;
	if (m) {
		m->of->held++;
		*handle = (uintptr_t)m->of->allocation;
	}
	pthread_mutex_unlock(&lock);
	return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
