/* SPDX-License-Identifier: Apache-2.0 */
#include "device/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "device/arena.h"
#include "device/device.h"
#include "device/ipc.h"
#include "device/pool.h"

static struct softgpu_range *table;
static size_t count, capacity;
static uint64_t used[SOFTGPU_MOST_DEVICES]; /* of each device's memory, bytes */
static _Atomic uint64_t *told; /* NULL, or where others read these numbers */
static const struct vcuda_meter *meter; /* NULL: the devices alone limit memory */
static uint64_t version;

static void account(CUdevice dev, uint64_t change)
{
	used[dev] += change;
	if (told)
		atomic_store_explicit(&told[dev], used[dev], memory_order_relaxed);
}

__attribute__((visibility("default"))) void vcuda_cpu_count_memory(_Atomic uint64_t *to);

/* For the worker: to[] holds the used memory of each device from now on, as cuMemGetInfo counts it. */
__attribute__((visibility("default"))) void vcuda_cpu_count_memory(_Atomic uint64_t *to)
{
	softgpu_lock();
	told = to;
	for (unsigned int i = 0; i < softgpu_device()->count; i++)
		account((CUdevice)i, 0);
	softgpu_unlock();
}

const struct vcuda_meter *softgpu_meter(void)
{
	return meter;
}

bool softgpu_host_room(uint64_t bytes)
{
	return !meter || meter->host_room(bytes);
}

__attribute__((visibility("default"))) void vcuda_cpu_share_scope(bool (*same_guest)(pid_t worker));

/* For the worker: only memory and events that the function accepts are offered and opened. */
__attribute__((visibility("default"))) void vcuda_cpu_share_scope(bool (*same_guest)(pid_t worker))
{
	vcuda_share_scope(same_guest);
}

__attribute__((visibility("default"))) void vcuda_cpu_share_keeper(vcuda_share_exchange *exchange);

/* For the worker: the connection to the keeper, which outlives the worker. */
__attribute__((visibility("default"))) void vcuda_cpu_share_keeper(vcuda_share_exchange *exchange)
{
	vcuda_share_set_keeper(exchange);
}

void softgpu_memory_in_files(int64_t bytes)
{
	if (meter)
		meter->in_files(bytes);
}

static bool take_charge(uint64_t bytes)
{
	return meter->take(SOFTGPU_BLOCK_DEVICE, bytes);
}

static void give_charge(uint64_t bytes)
{
	meter->give(SOFTGPU_BLOCK_DEVICE, bytes);
}

__attribute__((visibility("default"))) void vcuda_cpu_meter(const struct vcuda_meter *to);

/* For the worker, before the first allocation: the meter that also decides on memory, besides the device. */
__attribute__((visibility("default"))) void vcuda_cpu_meter(const struct vcuda_meter *to)
{
	meter = to;
	ptx_charge_memory(take_charge, give_charge);
	ptx_ask_for_memory(to->host_room);
}

/* Finished blocks keep memory, and the program's allocation has priority over it. */
static void make_room(CUdevice dev, uint64_t bytes)
{
	uint64_t limit, left;

	if (ptx_memory_is_charged() && meter->limit((unsigned int)dev, &limit, &left) && bytes > left)
		ptx_release_memory();
}

bool softgpu_memory_count(CUdevice dev, uint64_t bytes)
{
	if (bytes > softgpu_device()->memory - used[dev])
		return false;
	if (meter) {
		make_room(dev, bytes);
		if (!meter->take((unsigned int)dev, bytes))
			return false;
	}
	account(dev, bytes);
	return true;
}

void softgpu_memory_uncount(CUdevice dev, uint64_t bytes)
{
	account(dev, -bytes);
	if (meter)
		meter->give((unsigned int)dev, bytes);
}

uint64_t softgpu_memory_size(CUdevice dev, uint64_t *left)
{
	uint64_t size = softgpu_device()->memory, limit, more;

	*left = size - used[dev];
	if (meter && meter->limit((unsigned int)dev, &limit, &more)) {
		size = limit < size ? limit : size;
		*left = more < *left ? more : *left;
		*left = *left < size ? *left : size;
	}
	return size;
}

/* The index of the first range that ends behind `address`. */
static size_t first_behind(uint64_t address)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (table[middle].start + table[middle].size <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct softgpu_range *softgpu_range_find(uint64_t address, uint64_t bytes)
{
	size_t i = first_behind(address);

	if (i == count || address < table[i].start || bytes > table[i].size - (address - table[i].start))
		return NULL;
	return &table[i];
}

const struct softgpu_range *softgpu_range_behind(uint64_t address)
{
	size_t i = first_behind(address);

	return i < count ? &table[i] : NULL;
}

const struct softgpu_range *softgpu_range_before(uint64_t address)
{
	size_t i = first_behind(address);

	return i ? &table[i - 1] : NULL;
}

/* As softgpu_range_spans(); `*reached`: the bytes up to the first gap, or all. */
static bool spans(uint64_t address, uint64_t bytes, bool write, uint64_t *reached)
{
	*reached = 0;
	for (size_t i = first_behind(address); i < count && address >= table[i].start; i++) {
		uint64_t here = table[i].start + table[i].size - address;

		if (table[i].kind == SOFTGPU_ARRAY_MEMORY || (write && !table[i].copy_writes))
			return false;
		*reached += bytes < here ? bytes : here;
		if (bytes <= here)
			return true;
		if (table[i].kind != SOFTGPU_MAPPED || i + 1 == count || table[i + 1].kind != SOFTGPU_MAPPED)
			return false;
		address += here;
		bytes -= here;
	}
	return false;
}

bool softgpu_range_spans(uint64_t address, uint64_t bytes, bool write)
{
	uint64_t reached;

	return spans(address, bytes, write, &reached);
}

uint64_t softgpu_range_reach(uint64_t address, uint64_t bytes)
{
	uint64_t reached;

	spans(address, bytes, false, &reached);
	return reached;
}

bool softgpu_is_memory(uint64_t address, uint64_t bytes, bool write)
{
	while (bytes) {
		const struct softgpu_range *range = softgpu_range_find(address, 1);
		uint64_t here;

		if (!range || range->kind == SOFTGPU_ARRAY_MEMORY || (write && !range->writes))
			return false;
		here = range->start + range->size - address;
		if (here >= bytes)
			return true;
		address += here;
		bytes -= here;
	}
	return true;
}

bool softgpu_range_overlaps(uint64_t address, uint64_t bytes)
{
	size_t i = first_behind(address);

	return i < count && (table[i].start <= address || table[i].start - address < bytes);
}

uint64_t softgpu_memory_version(void)
{
	return __atomic_load_n(&version, __ATOMIC_ACQUIRE);
}

void softgpu_memory_changed(void)
{
	softgpu_maps_drop();
	__atomic_store_n(&version, version + 1, __ATOMIC_RELEASE);
}

const struct softgpu_range *softgpu_ranges(size_t *n)
{
	*n = count;
	return table;
}

bool softgpu_range_add(const struct softgpu_range *range)
{
	size_t i;

	if (count == capacity) {
		size_t want = capacity ? capacity * 2 : 64;
		struct softgpu_range *bigger = realloc(table, want * sizeof(*table));

		if (!bigger)
			return false;
		table = bigger;
		capacity = want;
	}
	i = first_behind(range->start);
	memmove(&table[i + 1], &table[i], (count - i) * sizeof(*table));
	table[i] = *range;
	count++;
	softgpu_memory_changed();
	return true;
}

void softgpu_range_remove(uint64_t start)
{
	size_t i = first_behind(start);

	count--;
	memmove(&table[i], &table[i + 1], (count - i) * sizeof(*table));
	softgpu_memory_changed();
}

/* Makes memory for a range that has all but its address. */
static CUresult allocate(struct softgpu_range *range, uint64_t align, uint64_t *address)
{
	uint64_t slot, start;

	if (range->size > softgpu_device()->memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range->taken = range->size + (align > SOFTGPU_ALIGNMENT ? align - SOFTGPU_ALIGNMENT : 0);
	slot = softgpu_arena_slot(range->taken);
	if (!softgpu_memory_count(range->device, slot))
		return CUDA_ERROR_OUT_OF_MEMORY;
	start = softgpu_arena_alloc(range->taken, meter && meter->limited());
	if (!start)
		goto uncount;
	range->lead = -start & (align - 1);
	range->start = start + range->lead;
	if (!softgpu_range_add(range))
		goto free;
	*address = range->start;
	return CUDA_SUCCESS;
free:
	softgpu_arena_free(start, range->taken);
uncount:
	softgpu_memory_uncount(range->device, slot);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult softgpu_memory_alloc(struct CUctx_st *context, uint64_t bytes, enum softgpu_range_kind kind, uint64_t *address)
{
	return softgpu_memory_alloc_aligned(context, bytes, SOFTGPU_ALIGNMENT, kind, address);
}

CUresult softgpu_memory_alloc_aligned(struct CUctx_st *context, uint64_t bytes, uint64_t align,
				      enum softgpu_range_kind kind, uint64_t *address)
{
	struct softgpu_range range = {
		.size = bytes,
		.context = context,
		.kind = kind,
		.device = context->device,
		.reads = (uint8_t)(1u << context->device),
		.writes = (uint8_t)(1u << context->device),
		.copy_writes = true,
	};

	return allocate(&range, align, address);
}

CUresult softgpu_memory_alloc_pooled(struct CUctx_st *context, uint64_t bytes, struct CUmemPoolHandle_st *pool,
				     uint64_t *address)
{
	struct softgpu_range range = {
		.size = bytes,
		.context = context,
		.kind = SOFTGPU_ALLOCATION,
		.device = pool->device,
		.reads = pool->access,
		.writes = pool->access,
		.copy_writes = true,
		.pool = pool,
	};

	return allocate(&range, SOFTGPU_ALIGNMENT, address);
}

/* Returns the memory of a range that is off the table. Drops the lock where it takes long. */
static void give_back(const struct softgpu_range *range)
{
	if (range->kind == SOFTGPU_IMPORTED) {
		softgpu_ipc_closed(range->start);
		if (range->pool)
			softgpu_pool_freed(range->pool, range->size);
		return;
	}
	softgpu_ipc_freed(range->start);
	if (range->size >= 1u << 20) {
		softgpu_unlock();
		softgpu_arena_discard(range->start, range->size);
		softgpu_lock();
	} else {
		softgpu_arena_discard(range->start, range->size);
	}
	softgpu_arena_free(range->start - range->lead, range->taken);
	softgpu_memory_uncount(range->device, softgpu_arena_slot(range->taken));
	if (range->pool)
		softgpu_pool_freed(range->pool, range->size);
}

/* Takes a range off the table and gives its memory back once no work uses it. Drops the lock meanwhile. */
static void release(const struct softgpu_range *found)
{
	struct softgpu_range range = *found;
	struct softgpu_scope scope = {.context = range.context, .last = softgpu_submitted()};

	softgpu_range_remove(range.start);
	/* Work that is submitted from now on cannot use the memory. */
	softgpu_wait(&scope);
	give_back(&range);
}

void softgpu_memory_drop(struct CUctx_st *context, uint64_t address)
{
	const struct softgpu_range *found = softgpu_range_find(address, 1);
	struct softgpu_range range;

	if (!found || found->start != address || found->context != context ||
	    (found->kind != SOFTGPU_VARIABLE && found->kind != SOFTGPU_ARRAY_MEMORY))
		return;
	range = *found;
	softgpu_range_remove(range.start);
	give_back(&range);
}

/* The index behind a range of this context, or 0. */
static size_t find_last(const struct CUctx_st *context)
{
	size_t i = count;

	while (i > 0 && table[i - 1].context != context)
		i--;
	return i;
}

void softgpu_memory_release(struct CUctx_st *context)
{
	size_t i;

	/* Looked for anew each time: the lock may have been dropped. */
	while ((i = find_last(context)) != 0) {
		if (table[i - 1].kind == SOFTGPU_HOST)
			softgpu_range_remove(table[i - 1].start);
		else
			release(&table[i - 1]);
	}
}

CUresult softgpu_cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);
	uint64_t size, left;

	if (result != CUDA_SUCCESS)
		return result;
	size = softgpu_memory_size(c->device, &left);
	if (total)
		*total = size;
	if (free_bytes)
		*free_bytes = left;
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	const struct softgpu_range *range;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	range = softgpu_range_find(dptr, 1);
	if (!range)
		return softgpu_leave(CUDA_ERROR_NOT_FOUND);
	if (pbase)
		*pbase = range->start;
	if (psize)
		*psize = range->size;
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	struct CUctx_st *c;
	uint64_t address;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr || bytesize == 0)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	result = softgpu_memory_alloc(c, bytesize, SOFTGPU_ALLOCATION, &address);
	if (result == CUDA_SUCCESS)
		*dptr = address;
	return softgpu_leave(result);
}

CUresult softgpu_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
				unsigned ElementSizeBytes)
{
	size_t pitch, bytes;
	CUresult result;

	if (!dptr || !pPitch || WidthInBytes == 0 || Height == 0 ||
	    (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
		return CUDA_ERROR_INVALID_VALUE;
	if (WidthInBytes > SOFTGPU_MAX_PITCH)
		return CUDA_ERROR_INVALID_VALUE;
	pitch = (WidthInBytes + SOFTGPU_PITCH_ALIGNMENT - 1) / SOFTGPU_PITCH_ALIGNMENT * SOFTGPU_PITCH_ALIGNMENT;
	if (__builtin_mul_overflow(pitch, Height, &bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = softgpu_cuMemAlloc_v2(dptr, bytes);
	if (result == CUDA_SUCCESS)
		*pPitch = pitch;
	return result;
}

static const struct softgpu_range *find_allocation(CUdeviceptr dptr)
{
	const struct softgpu_range *range = softgpu_range_find(dptr, 1);

	return range && range->start == dptr && softgpu_range_is_freed(range) ? range : NULL;
}

void softgpu_memory_pool_access(const struct CUmemPoolHandle_st *pool)
{
	for (size_t i = 0; i < count; i++)
		if (table[i].pool == pool)
			table[i].reads = table[i].writes = pool->access;
	softgpu_memory_changed();
}

void softgpu_memory_free_now(struct CUctx_st *context, uint64_t address)
{
	const struct softgpu_range *found = find_allocation(address);
	struct softgpu_range range;

	if (!found || found->context != context)
		return;
	range = *found;
	softgpu_range_remove(range.start);
	give_back(&range);
}

CUresult softgpu_cuMemFree_v2(CUdeviceptr dptr)
{
	const struct softgpu_range *range;
	struct softgpu_scope scope = {0};
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (dptr == 0)
		return softgpu_leave(CUDA_SUCCESS);
	range = find_allocation(dptr);
	if (!range)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	/* Queued kernels look at the table when they start, so they come first. */
	scope.context = range->context;
	scope.last = softgpu_submitted();
	result = softgpu_context_wait(c, &scope);
	if (result != CUDA_SUCCESS)
		return softgpu_leave(result);
	range = find_allocation(dptr);
	if (!range)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	release(range);
	return softgpu_leave(CUDA_SUCCESS);
}
