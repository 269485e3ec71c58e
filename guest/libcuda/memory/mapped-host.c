/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/mapped-host.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "common/log.h"
#include "core/arena.h"
#include "core/device.h"
#include "core/request.h"
#include "core/thread.h"
#include "guest/client/session.h"
#include "memory/memory-lock.h"
#include "memory/memory.h"
#include "protocol/guest-calls.h"

/* One thread changes mappings at a time. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- reservations in the arena ---- */

bool libcuda_host_reservation_is_due(void)
{
	return libcuda_host.features & VCUDA_FEATURE_HOST_MEMORY && !(libcuda_host.features & VCUDA_FEATURE_PLACES) &&
	       libcuda_allocation_waits();
}

CUresult libcuda_host_reserve(struct libcuda_range *r, size_t alignment)
{
	size_t granularity;
	CUresult result =
		vcuda_call_vcudaMemGranularity(&granularity, libcuda_device_host(0), CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	void *address;

	if (result != CUDA_SUCCESS)
		return result;
	if (alignment & (alignment - 1) || r->bytes % granularity)
		return CUDA_ERROR_INVALID_VALUE;
	if (alignment < granularity)
		alignment = granularity;
	if (__builtin_add_overflow(r->bytes, alignment, &r->mapping_bytes) ||
	    libcuda_arena_take(r->mapping_bytes, &address))
		return CUDA_ERROR_OUT_OF_MEMORY;
	r->mapping = (uintptr_t)address;
	r->start = (r->mapping + alignment - 1) & ~(uint64_t)(alignment - 1);
	return CUDA_SUCCESS;
}

void libcuda_host_unreserve(const struct libcuda_range *r)
{
	libcuda_arena_give((void *)r->mapping, r->mapping_bytes);
}

static bool find_free(uint64_t start, uint64_t bytes, struct libcuda_range *r)
{
	struct libcuda_mapping m;

	return libcuda_range_find(start, r) && r->kind == LIBCUDA_RANGE_RESERVED && r->start == start &&
	       r->bytes == bytes && !libcuda_host_mapping_next(start, start + bytes, &m);
}

/* Only this library knows what is mapped there. */
static CUresult free_in_arena(uint64_t start, uint64_t bytes)
{
	struct libcuda_range r;

	if (!find_free(start, bytes, &r) || !libcuda_range_remove(start, LIBCUDA_RANGE_RESERVED, &r))
		return CUDA_ERROR_INVALID_VALUE;
	libcuda_host_unreserve(&r);
	return CUDA_SUCCESS;
}

/* The worker decides about other reservations. No lock is held, because the worker may wait for work. */
CUresult libcuda_host_free_addresses(uint64_t start, uint64_t bytes)
{
	struct libcuda_range r;
	CUresult result;
	int entered;

	if (!find_free(start, bytes, &r))
		return CUDA_ERROR_INVALID_VALUE;
	if (libcuda_is_host_reservation(&r)) {
		entered = memory_lock(&lock);
		return memory_unlock(&lock, entered, free_in_arena(start, bytes));
	}
	result = vcuda_call_cuMemAddressFree(start, bytes);
	if (result == CUDA_SUCCESS)
		libcuda_range_remove(start, LIBCUDA_RANGE_RESERVED, &r);
	return result;
}

/* ---- mappings ---- */

static void hide_pages(uint64_t start, uint64_t bytes)
{
	mmap((void *)start, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static CUresult take_place(const struct libcuda_range *r, uint64_t start, uint64_t bytes)
{
	if (libcuda_is_host_reservation(r))
		return CUDA_SUCCESS;
	if (!(libcuda_host.features & VCUDA_FEATURE_PLACES)) {
		vcuda_log_once("with this host's GPU, memory of cuMemCreate() in host memory can be mapped only at "
			       "addresses that were reserved while such memory existed and was not mapped: call "
			       "cuMemCreate() before cuMemAddressReserve()");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (!libcuda_arena_is_reserved(start, start + bytes)) {
		vcuda_log_once("memory of cuMemCreate() in host memory cannot be mapped: the addresses of the device "
			       "were not free in this process");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return vcuda_call_vcudaMemPlace(start, bytes);
}

static void give_place(const struct libcuda_range *r, uint64_t start, uint64_t bytes)
{
	if (!libcuda_is_host_reservation(r))
		vcuda_call_cuMemUnmap(start, bytes);
}

/* Both sides have the pages there, and this process cannot access them. `stuck`: after an error the worker still has
 * them. */
static CUresult share_pages(uint64_t start, uint64_t bytes, const struct libcuda_host_memory *memory, bool *stuck)
{
	CUresult result = libcuda_host_memory_map(memory, start);
	struct client_transport *t = client_session.transport;
	enum client_mapping_release pages;
	int err;

	if (result != CUDA_SUCCESS) {
		/* The old mapping may be gone. */
		hide_pages(start, bytes);
		return result;
	}
	libcuda_thread()->calls.waits++;
	err = t->ops->mapping_register(t, (void *)start, bytes, true, &pages);
	if (!err && !mprotect((void *)start, bytes, PROT_NONE))
		return CUDA_SUCCESS;
	result = err ? libcuda_pinned_error(err, start, bytes) : CUDA_ERROR_OUT_OF_MEMORY;
	*stuck = !err && t->ops->mapping_release(t, (void *)start, bytes, CLIENT_MAPPING_KEEP_PAGES);
	hide_pages(start, bytes);
	return result;
}

/* Another thread may have ended it since it was found, and the addresses may be in use again. */
static bool is_still_there(const struct libcuda_range *r)
{
	struct libcuda_range now;

	return libcuda_range_find(r->start, &now) && now.id == r->id;
}

static CUresult map_locked(const struct libcuda_range *r, uint64_t start, uint64_t bytes,
			   CUmemGenericAllocationHandle handle, const struct libcuda_host_memory *memory)
{
	bool stuck = false;
	CUresult result;

	if (!is_still_there(r) || libcuda_allocation_is_mapped_in(start, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	result = take_place(r, start, bytes);
	if (result != CUDA_SUCCESS)
		return result;
	/* From here on the memory stays, even if its handle is released. */
	result = libcuda_allocation_map(handle, start, bytes);
	if (result == CUDA_SUCCESS) {
		result = share_pages(start, bytes, memory, &stuck);
		if (result == CUDA_SUCCESS || stuck)
			return result;
		libcuda_host_mapping_end(start);
	}
	give_place(r, start, bytes);
	return result;
}

CUresult libcuda_host_map(const struct libcuda_range *r, uint64_t start, uint64_t bytes,
			  CUmemGenericAllocationHandle handle, const struct libcuda_host_memory *memory)
{
	int entered = memory_lock(&lock);

	return memory_unlock(&lock, entered, map_locked(r, start, bytes, handle, memory));
}

/* The worker's device does not use it any more. */
static CUresult release_pages(const struct libcuda_mapping *m)
{
	struct client_transport *t = client_session.transport;
	int err;

	libcuda_thread()->calls.waits++;
	err = t->ops->mapping_release(t, (void *)m->start, m->bytes, CLIENT_MAPPING_REMOVE_PAGES);
	return err ? libcuda_pinned_error(err, m->start, m->bytes) : CUDA_SUCCESS;
}

static bool is_for_a_device(const struct libcuda_mapping *m)
{
	for (int i = 0; i < LIBCUDA_ACCESS_DEVICES; i++)
		if (m->devices[i] != CU_MEM_ACCESS_FLAGS_PROT_NONE)
			return true;
	return false;
}

#define ALL_DEVICES (-1)

static CUresult end_device_access(struct libcuda_mapping *m)
{
	CUresult result = is_for_a_device(m) ? vcuda_call_vcudaMemHostAccess((void *)m->start, m->bytes, ALL_DEVICES,
									     CU_MEM_ACCESS_FLAGS_PROT_NONE)
					     : CUDA_SUCCESS;

	if (result == CUDA_SUCCESS) {
		memset(m->devices, CU_MEM_ACCESS_FLAGS_PROT_NONE, sizeof(m->devices));
		libcuda_mapping_set(m);
	}
	return result;
}

/* If one device keeps its access, all mappings stay, with their pages. */
static CUresult end_device_accesses(uint64_t start, uint64_t bytes)
{
	struct libcuda_mapping m;
	CUresult result = CUDA_SUCCESS;

	for (uint64_t at = start; result == CUDA_SUCCESS && libcuda_host_mapping_next(at, start + bytes, &m);
	     at = m.start + m.bytes)
		result = end_device_access(&m);
	return result;
}

static void mark_ending(uint64_t start, uint64_t bytes)
{
	struct libcuda_mapping m;

	for (uint64_t at = start; libcuda_host_mapping_next(at, start + bytes, &m); at = m.start + m.bytes) {
		m.is_ending = true;
		libcuda_mapping_set(&m);
	}
}

/* Addresses where pages could not be released are not used again: the mapping stays in the table, for another try. */
static CUresult end_mappings(uint64_t start, uint64_t bytes)
{
	struct libcuda_mapping m;
	CUresult result = CUDA_SUCCESS, one;

	for (uint64_t at = start; libcuda_host_mapping_next(at, start + bytes, &m); at = m.start + m.bytes) {
		one = release_pages(&m);
		if (one == CUDA_SUCCESS)
			libcuda_host_mapping_end(m.start);
		result = result == CUDA_SUCCESS ? one : result;
	}
	return result;
}

/* In there are whole mappings only, and an earlier unmap has failed over one of them, after others. */
static bool is_another_try(uint64_t start, uint64_t bytes)
{
	uint64_t end = start + bytes;
	struct libcuda_mapping m;
	bool is = false;

	for (uint64_t at = start; libcuda_host_mapping_next(at, end, &m); at = m.start + m.bytes) {
		if (m.bytes > end - m.start)
			return false;
		is |= m.is_ending;
	}
	return is;
}

/* Expects that memory is mapped in the whole part. */
static CUresult unmap_part(uint64_t start, uint64_t bytes)
{
	CUresult result = vcuda_call_cuMemUnmap(start, bytes);

	if (result == CUDA_SUCCESS) {
		libcuda_allocation_unmap(start, bytes);
		mark_ending(start, bytes);
	}
	return result;
}

/* Mappings that end already divide the range: each part between them is unmapped by itself. */
static CUresult unmap_others(uint64_t start, uint64_t bytes)
{
	uint64_t from = start, end = start + bytes;
	CUresult result = CUDA_SUCCESS;
	struct libcuda_mapping m;

	for (uint64_t at = start; libcuda_host_mapping_next(at, end, &m); at = m.start + m.bytes) {
		if (!m.is_ending)
			continue;
		if (libcuda_allocation_is_mapped_in(from, m.start - from))
			result = unmap_part(from, m.start - from);
		if (result != CUDA_SUCCESS)
			return result;
		from = m.start + m.bytes;
	}
	return libcuda_allocation_is_mapped_in(from, end - from) ? unmap_part(from, end - from) : CUDA_SUCCESS;
}

static CUresult unmap_in_arena(uint64_t start, uint64_t bytes)
{
	CUresult result;

	if (!libcuda_host_mappings_cover(start, bytes) && !is_another_try(start, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	result = end_device_accesses(start, bytes);
	if (result == CUDA_SUCCESS)
		mark_ending(start, bytes);
	return result;
}

static CUresult unmap_locked(const struct libcuda_range *r, uint64_t start, uint64_t bytes)
{
	CUresult result;

	if (libcuda_is_host_reservation(r))
		result = unmap_in_arena(start, bytes);
	else if (is_another_try(start, bytes))
		result = unmap_others(start, bytes);
	else
		result = unmap_part(start, bytes);
	return result == CUDA_SUCCESS ? end_mappings(start, bytes) : result;
}

/* The worker waits for work to end. Where no host memory is mapped no lock is held meanwhile. */
CUresult libcuda_host_unmap(const struct libcuda_range *r, uint64_t start, uint64_t bytes)
{
	struct libcuda_mapping m;
	CUresult result;
	int entered;

	if (!libcuda_is_host_reservation(r) && !libcuda_host_mapping_next(start, start + bytes, &m)) {
		result = vcuda_call_cuMemUnmap(start, bytes);
		if (result == CUDA_SUCCESS)
			libcuda_allocation_unmap(start, bytes);
		return result;
	}
	entered = memory_lock(&lock);
	return memory_unlock(&lock, entered, unmap_locked(r, start, bytes));
}

/* ---- access ---- */

static int protection(CUmemAccess_flags flags)
{
	switch (flags) {
	case CU_MEM_ACCESS_FLAGS_PROT_READ:
		return PROT_READ;
	case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
		return PROT_READ | PROT_WRITE;
	default:
		return PROT_NONE;
	}
}

/* Processors have no access to device memory, which can be said but not changed. */
static CUresult set_access_locked(uint64_t start, uint64_t bytes, CUmemAccess_flags flags)
{
	struct libcuda_mapping m;
	uint64_t end = start + bytes;

	for (uint64_t at = start; libcuda_mapping_next(at, end, &m); at = m.start + m.bytes) {
		if (!m.is_host && flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
			return CUDA_ERROR_NOT_SUPPORTED;
		if (m.is_host && mprotect((void *)m.start, m.bytes, protection(flags)))
			return CUDA_ERROR_OUT_OF_MEMORY;
		m.cpu = flags;
		libcuda_mapping_set(&m);
	}
	return CUDA_SUCCESS;
}

CUresult libcuda_host_set_access(uint64_t start, uint64_t bytes, CUmemAccess_flags flags)
{
	int entered = memory_lock(&lock);

	return memory_unlock(&lock, entered, set_access_locked(start, bytes, flags));
}

size_t libcuda_host_piece(uint64_t address, size_t bytes)
{
	struct libcuda_mapping m;
	uint64_t here;

	if (libcuda_host.features & VCUDA_FEATURE_PLACES || !libcuda_host_mapping_at(address, &m))
		return bytes;
	here = m.bytes - (address - m.start);
	return here < bytes ? here : bytes;
}

static CUresult set_device(struct libcuda_mapping *m, CUdevice device, CUmemAccess_flags flags)
{
	CUresult result =
		vcuda_call_vcudaMemHostAccess((void *)m->start, m->bytes, libcuda_device_host(device), (int)flags);

	if (result == CUDA_SUCCESS) {
		m->devices[device] = (uint8_t)flags;
		libcuda_mapping_set(m);
	}
	return result;
}

CUresult libcuda_host_set_device(uint64_t start, uint64_t bytes, CUdevice device, CUmemAccess_flags flags)
{
	struct libcuda_mapping m;
	CUresult result = CUDA_SUCCESS;
	int entered = memory_lock(&lock);

	if (device >= LIBCUDA_ACCESS_DEVICES || !libcuda_host_mappings_cover(start, bytes))
		return memory_unlock(&lock, entered, CUDA_ERROR_INVALID_VALUE);
	for (uint64_t at = start; result == CUDA_SUCCESS && libcuda_host_mapping_next(at, start + bytes, &m);
	     at = m.start + m.bytes)
		result = set_device(&m, device, flags);
	return memory_unlock(&lock, entered, result);
}
