/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of allocation nodes. It is taken from the device when the node is made, because its address is known from then
 * on, and kept until no node names it and no launch has left it allocated; in between, launches only say that they have
 * it. So graphs whose memory lives at different times do not share it, which a real driver lets them.
 */
#include <pthread.h>
#include <stdlib.h>

#include "core/request.h"
#include "core/device.h"
#include "graph/graph.h"
#include "protocol/guest-calls.h"
#include "memory/range.h"

struct libcuda_graph_memory {
	CUdeviceptr address;
	size_t bytes;
	struct libcuda_context *context;
	unsigned int refs; /* nodes */
	bool allocated;    /* by a launch */
	struct libcuda_graph_memory *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct libcuda_graph_memory *all;
static uint64_t used, used_high, reserved, reserved_high;

CUresult libcuda_graph_memory_new(struct libcuda_context *context, size_t bytes, struct libcuda_graph_memory **memory)
{
	struct libcuda_range r = {.bytes = bytes, .kind = LIBCUDA_RANGE_DEVICE, .context = context, .stream_ordered = true};
	struct libcuda_graph_memory *m = calloc(1, sizeof(*m));
	const struct call_options how = libcuda_context_options(context);
	CUresult result;

	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = vcuda_call_cuMemAlloc_v2_with(&how, &m->address, bytes);
	if (result != CUDA_SUCCESS) {
		free(m);
		return result;
	}
	r.start = m->address;
	if (!libcuda_range_add(&r)) {
		vcuda_call_cuMemFree_v2_with(&how, m->address);
		free(m);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	m->bytes = bytes;
	m->context = r.context;
	m->refs = 1;
	pthread_mutex_lock(&lock);
	m->next = all;
	all = m;
	reserved += bytes;
	if (reserved > reserved_high)
		reserved_high = reserved;
	pthread_mutex_unlock(&lock);
	*memory = m;
	return CUDA_SUCCESS;
}

void libcuda_graph_memory_get(struct libcuda_graph_memory *m)
{
	pthread_mutex_lock(&lock);
	m->refs++;
	pthread_mutex_unlock(&lock);
}

CUdeviceptr libcuda_graph_memory_address(const struct libcuda_graph_memory *m)
{
	return m->address;
}

/* Takes memory that is no longer needed off the list. The caller holds the lock, and calls give_back() without it. */
static bool unused(struct libcuda_graph_memory *m)
{
	struct libcuda_graph_memory **at;

	if (m->refs || m->allocated)
		return false;
	for (at = &all; *at != m; at = &(*at)->next)
		continue;
	*at = m->next;
	reserved -= m->bytes;
	return true;
}

/* The worker frees it when what was issued so far is done. */
static CUresult give_back(struct libcuda_graph_memory *m)
{
	const struct call_options how = libcuda_context_options(m->context);
	CUresult result = CUDA_SUCCESS;
	struct libcuda_range r;

	if (libcuda_range_remove(m->address, LIBCUDA_RANGE_DEVICE, &r) &&
	    libcuda_context_usable(m->context) == CUDA_SUCCESS)
		result = vcuda_call_cuMemFree_v2_with(&how, m->address);
	free(m);
	return result;
}

void libcuda_graph_memory_put(struct libcuda_graph_memory *m)
{
	bool gone;

	pthread_mutex_lock(&lock);
	m->refs--;
	gone = unused(m);
	pthread_mutex_unlock(&lock);
	if (gone)
		give_back(m);
}

CUresult libcuda_graph_memory_allocate(struct libcuda_graph_memory *m, bool again)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&lock);
	if (!m->allocated) {
		m->allocated = true;
		used += m->bytes;
		if (used > used_high)
			used_high = used;
	} else if (!again) {
		result = CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

static struct libcuda_graph_memory *find_locked(CUdeviceptr address)
{
	struct libcuda_graph_memory *m;

	for (m = all; m && m->address != address; m = m->next)
		continue;
	return m;
}

bool libcuda_graph_memory_exists(CUdeviceptr address)
{
	bool known;

	pthread_mutex_lock(&lock);
	known = find_locked(address);
	pthread_mutex_unlock(&lock);
	return known;
}

bool libcuda_graph_memory_free(CUdeviceptr address, CUresult *result)
{
	struct libcuda_graph_memory *m;
	bool gone = false;

	pthread_mutex_lock(&lock);
	m = find_locked(address);
	if (m) {
		*result = m->allocated ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
		if (m->allocated)
			used -= m->bytes;
		m->allocated = false;
		gone = unused(m);
	}
	pthread_mutex_unlock(&lock);
	if (gone)
		*result = give_back(m);
	return m;
}

/* ---- the API ---- */

VCUDA_EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attribute, void *value)
{
	CUresult result = libcuda_require_device(dev);
	const uint64_t values[] = {used, used_high, reserved, reserved_high};

	if (result != CUDA_SUCCESS)
		return result;
	if (!value || (unsigned int)attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	*(uint64_t *)value = values[attribute];
	return CUDA_SUCCESS;
}

/* High-water marks start again; nothing else can be set. */
VCUDA_EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attribute, void *value)
{
	CUresult result = libcuda_require_device(dev);

	if (result != CUDA_SUCCESS)
		return result;
	if (!value || *(uint64_t *)value)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
		used_high = used;
	else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		reserved_high = reserved;
	else
		result = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&lock);
	return result;
}

/* Memory that no node needs is given back at once: there is nothing to trim. */
VCUDA_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice dev)
{
	return libcuda_require_device(dev);
}
