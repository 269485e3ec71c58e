/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/host-pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/capture.h"
#include "core/hooks.h"
#include "core/object.h"
#include "memory/allocation.h"
#include "memory/memory-lock.h"
#include "memory/memory.h"
#include "protocol/guest-calls.h"

/* Handles are numbers of this library's own; no id of a worker's is the same (allocation.c). */
#define HANDLES 0x7700000000000000ull

/* Memory that was freed in a stream. */
struct freed {
	struct libcuda_range r;
	CUstream stream;
	CUevent event; /* recorded there; NULL: it has been reached */
	struct freed *next;
};

struct pool {
	CUmemoryPool handle; /* NULL: destroyed */
	CUmemLocation location;
	size_t most;                 /* bytes; 0: no limit */
	uint64_t values[9];          /* of the attributes that are set, and the highs */
	uint64_t used, reserved;     /* bytes */
	bool is_default, is_current; /* default or current pool of its location */
	uint8_t devices[LIBCUDA_ACCESS_DEVICES];
	unsigned int allocations;
	struct freed *freed;
	struct pool *next;
};

/* Held while a pool is looked at, also over the calls that make and end its memory. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool *all;

static struct pool *find(CUmemoryPool handle)
{
	struct pool *p;

	for (p = all; p && (!handle || p->handle != handle); p = p->next)
		continue;
	return p;
}

static struct pool *owner_of(const struct libcuda_range *r)
{
	struct pool *p;

	for (p = all; p && (uintptr_t)p != r->owner; p = p->next)
		continue;
	return p;
}

/* ---- memory that is freed ---- */

static bool is_reached(struct freed *f)
{
	const struct call_options in = libcuda_context_options(f->r.context);

	if (f->event && vcuda_call_cuEventQuery_with(&in, f->event) == CUDA_ERROR_NOT_READY)
		return false;
	if (f->event)
		vcuda_call_cuEventDestroy_v2_with(&in, f->event);
	f->event = NULL;
	return true;
}

static void take_out(struct freed **at, struct freed *f)
{
	const struct call_options in = libcuda_context_options(f->r.context);

	*at = f->next;
	if (f->event)
		vcuda_call_cuEventDestroy_v2_with(&in, f->event);
}

static void give_back(struct pool *p, struct freed **at)
{
	struct freed *f = *at;

	take_out(at, f);
	p->reserved -= f->r.mapping_bytes;
	libcuda_pinned_release(&f->r);
	free(f);
}

/* Gives back what streams have come past, while more than `keep` bytes are reserved. */
static void shrink(struct pool *p, uint64_t keep)
{
	struct freed **at = &p->freed;

	while (*at && p->reserved > keep) {
		if (is_reached(*at))
			give_back(p, at);
		else
			at = &(*at)->next;
	}
}

/* Ends a pool that was destroyed and has no allocations; what streams have not reached keeps it. */
static void settle(struct pool *p)
{
	struct pool **at = &all;

	shrink(p, p->handle ? p->values[CU_MEMPOOL_ATTR_RELEASE_THRESHOLD] : 0);
	if (p->handle || p->allocations || p->freed)
		return;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	free(p);
}

static void settle_all(void)
{
	for (struct pool *p = all, *next; p; p = next) {
		next = p->next;
		settle(p);
	}
}

/* ---- pools ---- */

/* The application knows it by a handle. */
static CUresult add(struct pool *p)
{
	static uint64_t handles;
	CUmemoryPool handle = (CUmemoryPool)(uintptr_t)(HANDLES + ++handles);
	struct libcuda_object *o = libcuda_object_add(LIBCUDA_OBJECT_POOL, handle, NULL, NULL);

	if (!o)
		return CUDA_ERROR_OUT_OF_MEMORY;
	o->device = CU_DEVICE_INVALID;
	p->handle = handle;
	p->next = all;
	all = p;
	return CUDA_SUCCESS;
}

static struct pool *create(const CUmemPoolProps *props)
{
	struct pool *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->location = props->location;
	p->most = props->maxSize;
	for (int i = CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;
	     i <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES; i++)
		p->values[i] = 1;
	if (add(p) == CUDA_SUCCESS)
		return p;
	free(p);
	return NULL;
}

CUresult libcuda_host_pool_create(const CUmemPoolProps *props, CUmemoryPool *handle)
{
	int entered = memory_lock(&lock);
	struct pool *p;

	settle_all();
	p = create(props);
	if (p)
		*handle = p->handle;
	return memory_unlock(&lock, entered, p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

bool libcuda_host_pool_is(CUmemoryPool pool)
{
	return (uintptr_t)pool >> 56 == HANDLES >> 56;
}

CUresult libcuda_host_pool_destroy(CUmemoryPool handle)
{
	int entered = memory_lock(&lock);
	struct pool *p = find(handle);

	if (p && p->is_default)
		return memory_unlock(&lock, entered, CUDA_ERROR_INVALID_VALUE);
	if (!p || !libcuda_object_drop(handle))
		return memory_unlock(&lock, entered, CUDA_ERROR_INVALID_HANDLE);
	p->handle = NULL;
	settle(p);
	return memory_unlock(&lock, entered, CUDA_SUCCESS);
}

CUmemoryPool libcuda_host_pool_of(const struct libcuda_range *r)
{
	int entered = memory_lock(&lock);
	const struct pool *p = owner_of(r);
	CUmemoryPool handle = p ? p->handle : NULL;

	memory_unlock(&lock, entered, CUDA_SUCCESS);
	return handle;
}

CUresult libcuda_host_pool_trim(CUmemoryPool handle, size_t keep)
{
	int entered = memory_lock(&lock);
	struct pool *p = find(handle);

	if (p)
		shrink(p, keep);
	return memory_unlock(&lock, entered, p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

/* ---- allocations ---- */

static void raise_high(struct pool *p, CUmemPool_attribute attribute, uint64_t value)
{
	if (p->values[attribute] < value)
		p->values[attribute] = value;
}

static void count(struct pool *p, const struct libcuda_range *r)
{
	p->allocations++;
	p->used += r->bytes;
	raise_high(p, CU_MEMPOOL_ATTR_USED_MEM_HIGH, p->used);
	raise_high(p, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, p->reserved);
}

static void uncount(struct pool *p, const struct libcuda_range *r)
{
	p->allocations--;
	p->used -= r->bytes;
}

/* Memory of that context with room for so much and not for much more, which is free or will be in this stream. */
static struct freed **find_freed(struct pool *p, struct libcuda_context *context, size_t bytes, CUstream stream)
{
	struct freed **at;

	for (at = &p->freed; *at; at = &(*at)->next)
		if ((*at)->r.context == context && (*at)->r.mapping_bytes >= bytes &&
		    (*at)->r.mapping_bytes / 2 <= bytes && ((*at)->stream == stream || is_reached(*at)))
			return at;
	return NULL;
}

static CUresult use_again(const struct call_options *how, struct freed **at, size_t bytes, CUstream stream,
			  struct libcuda_range *r)
{
	struct freed *f = *at;
	struct libcuda_range again = f->r;
	CUresult result = CUDA_SUCCESS;

	/* The stream of that name may be another one by now. */
	if (f->event)
		result = vcuda_call_cuStreamWaitEvent_with(how, stream, f->event, CU_EVENT_WAIT_DEFAULT);
	if (result != CUDA_SUCCESS)
		return result;
	again.bytes = bytes;
	if (!libcuda_range_add(&again))
		return CUDA_ERROR_OUT_OF_MEMORY;
	take_out(at, f);
	free(f);
	*r = again;
	return CUDA_SUCCESS;
}

static CUresult make(struct pool *p, struct libcuda_context *context, size_t bytes, struct libcuda_range *r)
{
	CUresult result;

	if (p->most && (bytes > p->most || p->reserved > p->most - bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*r = (struct libcuda_range){
		.bytes = bytes, .kind = LIBCUDA_RANGE_POOLED, .context = context, .owner = (uintptr_t)p};
	result = libcuda_pinned_create(r);
	if (result == CUDA_SUCCESS)
		p->reserved += r->mapping_bytes;
	return result;
}

static CUresult allocate(const struct call_options *how, struct pool *p, size_t bytes, CUstream stream,
			 CUdeviceptr *dptr)
{
	struct libcuda_context *context = libcuda_request_context(how);
	struct freed **at = find_freed(p, context, bytes, stream);
	struct libcuda_range r;
	CUresult result;

	result = at ? use_again(how, at, bytes, stream, &r) : make(p, context, bytes, &r);
	if (result == CUDA_SUCCESS) {
		count(p, &r);
		*dptr = r.start;
	}
	shrink(p, p->values[CU_MEMPOOL_ATTR_RELEASE_THRESHOLD]);
	return result;
}

CUresult libcuda_host_pool_allocate(const struct call_options *how, CUdeviceptr *dptr, size_t bytes,
				    CUmemoryPool handle, CUstream stream)
{
	CUresult result = libcuda_capture_refuses(libcuda_request_context(how), stream);
	struct pool *p;
	int entered;

	if (result != CUDA_SUCCESS)
		return result;
	entered = memory_lock(&lock);
	p = find(handle);
	return memory_unlock(&lock, entered, p ? allocate(how, p, bytes, stream, dptr) : CUDA_ERROR_INVALID_HANDLE);
}

/* A new event in the stream. */
static CUresult record(const struct call_options *how, CUstream stream, CUevent *event)
{
	CUresult result = vcuda_call_cuEventCreate_with(how, event, CU_EVENT_DISABLE_TIMING);

	if (result != CUDA_SUCCESS)
		return result;
	result = vcuda_call_cuEventRecordWithFlags_with(how, *event, stream, CU_EVENT_RECORD_DEFAULT);
	if (result != CUDA_SUCCESS)
		vcuda_call_cuEventDestroy_v2_with(how, *event);
	return result;
}

static CUresult free_later(const struct call_options *how, struct pool *p, const struct libcuda_range *r,
			   CUstream stream)
{
	struct freed *f = calloc(1, sizeof(*f));
	CUresult result = f ? record(how, stream, &f->event) : CUDA_ERROR_OUT_OF_MEMORY;

	if (result != CUDA_SUCCESS) {
		free(f);
		p->reserved -= r->mapping_bytes;
		libcuda_pinned_release(r);
		return result;
	}
	f->r = *r;
	f->stream = stream;
	f->next = p->freed;
	p->freed = f;
	return CUDA_SUCCESS;
}

CUresult libcuda_host_pool_free(const struct call_options *how, const struct libcuda_range *r, CUstream stream)
{
	int entered = memory_lock(&lock);
	struct pool *p = owner_of(r);
	CUresult result = CUDA_ERROR_INVALID_HANDLE;

	if (p) {
		uncount(p, r);
		result = free_later(how, p, r, stream);
		settle(p);
	}
	return memory_unlock(&lock, entered, result);
}

CUresult libcuda_host_pool_free_now(const struct libcuda_range *r)
{
	int entered = memory_lock(&lock);
	struct pool *p = owner_of(r);
	CUresult result = libcuda_pinned_release(r);

	if (p) {
		uncount(p, r);
		p->reserved -= r->mapping_bytes;
		settle(p);
	}
	return memory_unlock(&lock, entered, result);
}

/* ---- contexts ---- */

/* Allocations of the context are ranges, which memory.c ends. */
static void drop_context(struct libcuda_context *context)
{
	int entered = memory_lock(&lock);

	for (struct pool *p = all, *next; p; p = next) {
		next = p->next;
		for (struct freed **at = &p->freed; *at;) {
			if ((*at)->r.context == context)
				give_back(p, at);
			else
				at = &(*at)->next;
		}
		settle(p);
	}
	memory_unlock(&lock, entered, CUDA_SUCCESS);
}

static struct libcuda_observer observer = {.context_memory_ends = drop_context};

__attribute__((constructor)) static void start(void)
{
	libcuda_observe(&observer);
}

/* ---- attributes ---- */

static bool is_attribute(CUmemPool_attribute attribute)
{
	return attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
	       attribute <= CU_MEMPOOL_ATTR_USED_MEM_HIGH;
}

CUresult libcuda_host_pool_get_attribute(CUmemoryPool handle, CUmemPool_attribute attribute, uint64_t *value)
{
	struct pool *p;
	int entered;

	if (!is_attribute(attribute))
		return CUDA_ERROR_INVALID_VALUE;
	entered = memory_lock(&lock);
	p = find(handle);
	if (!p)
		return memory_unlock(&lock, entered, CUDA_ERROR_INVALID_HANDLE);
	shrink(p, p->values[CU_MEMPOOL_ATTR_RELEASE_THRESHOLD]);
	p->values[CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT] = p->reserved;
	p->values[CU_MEMPOOL_ATTR_USED_MEM_CURRENT] = p->used;
	*value = p->values[attribute];
	return memory_unlock(&lock, entered, CUDA_SUCCESS);
}

/* The highs can only be set back to what is used now. */
static CUresult set_attribute(struct pool *p, CUmemPool_attribute attribute, uint64_t value)
{
	switch (attribute) {
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		p->values[attribute] = p->reserved;
		return value ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		p->values[attribute] = p->used;
		return value ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return CUDA_ERROR_INVALID_VALUE;
	default:
		p->values[attribute] = value;
		return CUDA_SUCCESS;
	}
}

CUresult libcuda_host_pool_set_attribute(CUmemoryPool handle, CUmemPool_attribute attribute, uint64_t value)
{
	struct pool *p;
	int entered;

	if (!is_attribute(attribute))
		return CUDA_ERROR_INVALID_VALUE;
	entered = memory_lock(&lock);
	p = find(handle);
	return memory_unlock(&lock, entered, p ? set_attribute(p, attribute, value) : CUDA_ERROR_INVALID_HANDLE);
}

/* ---- access ---- */

CUresult libcuda_host_pool_get_access(CUmemoryPool handle, CUdevice device, CUmemAccess_flags *flags)
{
	int entered = memory_lock(&lock);
	const struct pool *p = find(handle);

	if (p)
		*flags = (CUmemAccess_flags)(device < LIBCUDA_ACCESS_DEVICES ? p->devices[device] : 0);
	return memory_unlock(&lock, entered, p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

CUresult libcuda_host_pool_set_access(CUmemoryPool handle, CUdevice device, CUmemAccess_flags flags)
{
	int entered = memory_lock(&lock);
	struct pool *p = find(handle);

	if (!p || device >= LIBCUDA_ACCESS_DEVICES)
		return memory_unlock(&lock, entered, p ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE);
	p->devices[device] = (uint8_t)flags;
	return memory_unlock(&lock, entered, CUDA_SUCCESS);
}

bool libcuda_host_pool_is_open(const struct libcuda_range *r)
{
	const struct libcuda_context *context = libcuda_context_current();
	CUdevice device = context ? context->device : 0;
	int entered = memory_lock(&lock);
	const struct pool *p = owner_of(r);
	bool is = p && device < LIBCUDA_ACCESS_DEVICES && p->devices[device] != CU_MEM_ACCESS_FLAGS_PROT_NONE;

	memory_unlock(&lock, entered, CUDA_SUCCESS);
	return is;
}

/* ---- pools of places ---- */

static bool is_of(const struct pool *p, const CUmemLocation *where)
{
	return p->handle && p->location.type == where->type &&
	       (where->type == CU_MEM_LOCATION_TYPE_HOST || p->location.id == where->id);
}

/* NULL: memory ran out. */
static struct pool *default_of(const CUmemLocation *where)
{
	struct pool *p;

	for (p = all; p && !(p->is_default && is_of(p, where)); p = p->next)
		continue;
	if (p)
		return p;
	p = create(&(CUmemPoolProps){.location = *where});
	if (p)
		p->is_default = true;
	return p;
}

static struct pool *current_of(const CUmemLocation *where)
{
	struct pool *p;

	for (p = all; p && !(p->is_current && is_of(p, where)); p = p->next)
		continue;
	return p ? p : default_of(where);
}

static CUresult leave_with(int entered, const struct pool *p, CUmemoryPool *handle)
{
	if (p)
		*handle = p->handle;
	return memory_unlock(&lock, entered, p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult libcuda_host_pool_default(const CUmemLocation *where, CUmemoryPool *handle)
{
	int entered = memory_lock(&lock);

	return leave_with(entered, default_of(where), handle);
}

CUresult libcuda_host_pool_current(const CUmemLocation *where, CUmemoryPool *handle)
{
	int entered = memory_lock(&lock);

	return leave_with(entered, current_of(where), handle);
}

CUresult libcuda_host_pool_choose(const CUmemLocation *where, CUmemoryPool handle)
{
	int entered = memory_lock(&lock);
	struct pool *chosen = find(handle);

	if (!chosen || !is_of(chosen, where))
		return memory_unlock(&lock, entered, CUDA_ERROR_INVALID_VALUE);
	for (struct pool *p = all; p; p = p->next)
		if (is_of(p, where))
			p->is_current = p == chosen;
	return memory_unlock(&lock, entered, CUDA_SUCCESS);
}
