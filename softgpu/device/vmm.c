/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapped memory. An allocation is a file in memory, and a reservation is a part of the device's address space. Mapping
 * puts an allocation into a reservation. Kernels and copies may touch only memory with access rights, as everywhere. A
 * part of a reservation can also be a place of guest memory, which the worker maps there (memory/mapping.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/arena.h"
#include "device/device.h"
#include "common/list.h"
#include "device/memory.h"
#include "device/registry.h"
#include "device/ipc.h"
#include "common/share.h"
#include "device/stream.h"

#define GRANULARITY (2u << 20)

/*
 * The memory of an allocation, of this or another process. One struct serves all imports, and the device counts the
 * memory once.
 */
struct file {
	unsigned int refs; /* each handle and each mapping */
	uint64_t size;
	CUdevice device;
	int fd;
	bool offered; /* this process has exported the allocation */
	bool named;   /* processes know it by `name` */
	struct vcuda_share_handle name;
	struct vcuda_list node;
};

/* The object of an allocation handle. */
struct allocation {
	struct file *file;
	bool shareable;
};

struct mapping {
	uint64_t start, size;
	struct file *file;     /* NULL: a place of guest memory, or `leaves` */
	uint8_t reads, writes; /* devices with access, a bit each; none: it has no range in the table */
	bool leaves; /* unmapped, but guest memory remains there, or remains in a place that was unmapped with it */
	struct mapping *next;
};

struct reservation {
	uint64_t start, size;
	uint64_t block, block_size; /* block of the arena, larger than the memory if the alignment is wide */
	struct mapping *mappings;
	struct reservation *next;
};

/* With the scheduler's lock. */
static struct reservation *reservations;
static struct vcuda_list files = VCUDA_LIST_INIT(files);

static bool in_granules(uint64_t n)
{
	return n && n % GRANULARITY == 0;
}

static struct reservation *find_reservation(uint64_t start, uint64_t size)
{
	struct reservation *r;

	for (r = reservations; r; r = r->next)
		if (start >= r->start && start - r->start < r->size && size <= r->size - (start - r->start))
			return r;
	return NULL;
}

CUresult softgpu_cuMemGetAllocationGranularity(size_t *granularity, void *prop, int option)
{
	if (!granularity || !prop || (unsigned int)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = GRANULARITY;
	return CUDA_SUCCESS;
}

/* ---- addresses ---- */

CUresult softgpu_cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, uint64_t flags)
{
	struct reservation *r;
	uint64_t block_size;

	(void)addr; /* a wish */
	if (!ptr || !in_granules(size) || flags || (alignment & (alignment - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	if (alignment < GRANULARITY)
		alignment = GRANULARITY;
	if (__builtin_add_overflow(size, alignment, &block_size) || block_size > UINT64_MAX / 2)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = calloc(1, sizeof(*r));
	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	softgpu_lock();
	r->block = softgpu_arena_alloc(block_size, false);
	r->block_size = block_size;
	r->start = (r->block + alignment - 1) & ~(alignment - 1);
	r->size = size;
	if (!r->block) {
		free(r);
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	r->next = reservations;
	reservations = r;
	*ptr = r->start;
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	struct reservation **at, *r;

	softgpu_lock();
	for (at = &reservations; *at && ((*at)->start != ptr || (*at)->size != size); at = &(*at)->next)
		continue;
	r = *at;
	if (!r || r->mappings)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	*at = r->next;
	softgpu_arena_free(r->block, r->block_size);
	free(r);
	return softgpu_leave(CUDA_SUCCESS);
}

/* ---- allocations ---- */

static void put(struct file *f)
{
	if (--f->refs)
		return;
	/* Where descriptors hold it, it counts there before it counts here no more. */
	if (f->offered)
		vcuda_share_withdraw(&f->name);
	softgpu_memory_in_files(-(int64_t)f->size);
	softgpu_memory_uncount(f->device, f->size);
	vcuda_list_remove(&f->node);
	close(f->fd);
	free(f);
}

/* Takes ownership of the descriptor. NULL: the device has too little memory left. With the lock. */
static struct file *make_file(CUdevice dev, int fd, uint64_t size)
{
	struct file *f = softgpu_memory_count(dev, size) ? calloc(1, sizeof(*f)) : NULL;

	if (!f) {
		close(fd);
		return NULL;
	}
	softgpu_memory_in_files((int64_t)size);
	*f = (struct file){.refs = 1, .size = size, .device = dev, .fd = fd};
	vcuda_list_add(&f->node, &files);
	return f;
}

static struct file *find_file(const struct vcuda_share_handle *name)
{
	vcuda_list_for_each (node, &files) {
		struct file *f = container_of(node, struct file, node);

		if (f->named && !memcmp(&f->name, name, sizeof(*name)))
			return f;
	}
	return NULL;
}

/* Takes the reference over. NULL: no memory. */
static struct allocation *make_allocation(struct file *f)
{
	struct allocation *a = calloc(1, sizeof(*a));

	if (a && softgpu_registry_add(a, SOFTGPU_MAPPABLE)) {
		a->file = f;
		return a;
	}
	free(a);
	put(f);
	return NULL;
}

/* NULL: released; another thread of the guest may have done that while this call was on its way. With the lock. */
static struct allocation *find_allocation(uint64_t handle)
{
	struct allocation *a = (struct allocation *)(uintptr_t)handle;

	return softgpu_registry_has(a, SOFTGPU_MAPPABLE) ? a : NULL;
}

CUresult softgpu_cuMemCreate(uint64_t *handle, size_t size, void *prop, uint64_t flags)
{
	const CUmemAllocationProp *p = prop;
	struct allocation *a;
	struct file *f;
	int fd;

	if (!handle || !in_granules(size) || flags || !p || p->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    p->location.type != CU_MEM_LOCATION_TYPE_DEVICE || softgpu_device_check(p->location.id) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->requestedHandleTypes & ~(unsigned int)CU_MEM_HANDLE_TYPE_FABRIC)
		return CUDA_ERROR_NOT_SUPPORTED;
	fd = vcuda_share_file(size);
	if (fd < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	softgpu_lock();
	f = make_file(p->location.id, fd, size);
	a = f ? make_allocation(f) : NULL;
	if (!a)
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	a->shareable = p->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
	*handle = (uint64_t)(uintptr_t)a;
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuMemRelease(uint64_t handle)
{
	struct allocation *a;

	softgpu_lock();
	a = find_allocation(handle);
	if (!a)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	softgpu_registry_remove(a);
	put(a->file);
	free(a);
	return softgpu_leave(CUDA_SUCCESS);
}

/* ---- of several processes: the handles of 64 bytes are called fabric handles ---- */

_Static_assert(sizeof(struct vcuda_share_handle) == sizeof(CUmemFabricHandle), "CUDA says how large handles are");

static bool offer(struct file *f)
{
	struct vcuda_share_kept what = {
		.kind = VCUDA_SHARE_ALLOCATION,
		.part = {0, f->size},
		.fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 0),
		.device = (unsigned int)f->device,
		.bytes = f->size,
	};

	softgpu_ipc_set_device(&f->name, f->device);
	f->offered = what.fd >= 0 && !vcuda_share_keep(&what, &f->name);
	f->named |= f->offered;
	return f->offered;
}

CUresult softgpu_cuMemExportToShareableHandle(void *shareableHandle, uint64_t handle, int handleType, uint64_t flags)
{
	struct allocation *a;

	if (!shareableHandle || handleType != CU_MEM_HANDLE_TYPE_FABRIC || flags)
		return CUDA_ERROR_INVALID_VALUE;
	softgpu_lock();
	a = find_allocation(handle);
	if (!a || !a->shareable)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	if (!a->file->offered && !offer(a->file))
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	memcpy(shareableHandle, &a->file->name, sizeof(a->file->name));
	return softgpu_leave(CUDA_SUCCESS);
}

/* The memory of that name; takes ownership of the descriptor. NULL: the device has too little memory left. */
static struct file *import(const struct vcuda_share_handle *name, int fd, uint64_t size)
{
	struct file *f = find_file(name);

	if (f) {
		close(fd);
		f->refs++;
		return f;
	}
	f = make_file(softgpu_ipc_device(name), fd, size);
	if (f) {
		f->named = true;
		f->name = *name;
	}
	return f;
}

CUresult softgpu_cuMemImportFromShareableHandle(uint64_t *handle, void *osHandle, int shHandleType)
{
	struct vcuda_share_handle shared;
	struct allocation *a;
	struct vcuda_share_part part;
	struct file *f;
	CUresult result;
	int fd;

	if (!handle || !osHandle || shHandleType != CU_MEM_HANDLE_TYPE_FABRIC)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&shared, osHandle, sizeof(shared));
	if (softgpu_device_check(softgpu_ipc_device(&shared)) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	result = softgpu_ipc_result(vcuda_share_take(&shared, VCUDA_SHARE_ALLOCATION, &part, &fd));
	if (result != CUDA_SUCCESS)
		return result;
	if (part.offset || !in_granules(part.bytes)) {
		close(fd);
		return CUDA_ERROR_INVALID_VALUE;
	}
	softgpu_lock();
	f = import(&shared, fd, part.bytes);
	a = f ? make_allocation(f) : NULL;
	if (!a)
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	*handle = (uint64_t)(uintptr_t)a;
	return softgpu_leave(CUDA_SUCCESS);
}

/* ---- mappings ---- */

static const struct mapping *find_mapping(const struct reservation *r, uint64_t address)
{
	const struct mapping *m;

	for (m = r->mappings; m && (m->leaves || address - m->start >= m->size); m = m->next)
		continue;
	return m;
}

/* NULL: there is none. */
static const struct mapping *mapping_at(uint64_t address)
{
	const struct reservation *r = find_reservation(address, 1);

	return r ? find_mapping(r, address) : NULL;
}

bool softgpu_mapped_is_shared(uint64_t address)
{
	const struct mapping *m = mapping_at(address);

	return !m || !m->file || m->file->named;
}

bool softgpu_mapped_is_guest(uint64_t address)
{
	const struct mapping *m = mapping_at(address);

	return m && !m->file;
}

uint64_t softgpu_mapped_data(uint64_t address)
{
	const struct mapping *m = mapping_at(address);
	off_t data;

	if (!m || !m->file)
		return address;
	data = lseek(m->file->fd, (off_t)(address - m->start), SEEK_DATA);
	if (data >= 0)
		return m->start + (uint64_t)data;
	return errno == ENXIO ? m->start + m->size : address;
}

/* `f` NULL: of guest memory. */
static CUresult map(struct reservation *r, uint64_t start, uint64_t size, struct file *f)
{
	struct mapping *m;

	for (m = r->mappings; m; m = m->next)
		if (start < m->start + m->size && m->start < start + size)
			return CUDA_ERROR_INVALID_VALUE;
	m = calloc(1, sizeof(*m));
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (f && mmap((void *)(uintptr_t)start, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, f->fd, 0) ==
			 MAP_FAILED) {
		free(m);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*m = (struct mapping){.start = start, .size = size, .file = f, .next = r->mappings};
	if (f)
		f->refs++;
	r->mappings = m;
	return CUDA_SUCCESS;
}

CUresult softgpu_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, uint64_t handle, uint64_t flags)
{
	struct allocation *a;
	struct reservation *r;

	softgpu_lock();
	a = find_allocation(handle);
	r = find_reservation(ptr, size);
	/* All of an allocation from its start, as the driver wants it. */
	if (!a || !r || flags || !in_granules(size) || ptr % GRANULARITY || offset || size != a->file->size)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	return softgpu_leave(map(r, ptr, size, a->file));
}

CUresult softgpu_hostPlace(CUdeviceptr ptr, size_t size)
{
	struct reservation *r;

	softgpu_lock();
	r = find_reservation(ptr, size);
	if (!r || !in_granules(size) || ptr % GRANULARITY)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	return softgpu_leave(map(r, ptr, size, NULL));
}

/*
 * Whether the mappings cover [start, start + size), which is not empty, without gaps and each as a whole. `leaving`:
 * also unmapped places that still hold guest memory.
 */
static bool covered(const struct reservation *r, uint64_t start, uint64_t size, bool leaving)
{
	uint64_t sum = 0;

	for (const struct mapping *m = r->mappings; m; m = m->next) {
		if ((m->leaves && !leaving) || m->start >= start + size || start >= m->start + m->size)
			continue;
		if (m->start < start || m->start + m->size > start + size)
			return false;
		sum += m->size;
	}
	return size && sum == size;
}

/* Takes the access to all mappings in there away. */
static void hide(struct reservation *r, uint64_t start, uint64_t size)
{
	for (struct mapping *m = r->mappings; m; m = m->next) {
		if (m->start < start || m->start >= start + size || !m->reads)
			continue;
		softgpu_range_remove(m->start);
		m->reads = m->writes = 0;
	}
}

/* One device's access to a mapping. False: no memory, and no device has access. */
static bool set_access(struct mapping *m, const CUmemAccessDesc *d)
{
	uint8_t bit = (uint8_t)(1u << d->location.id);
	uint8_t reads = m->reads & (uint8_t)~bit, writes = m->writes & (uint8_t)~bit;

	if (d->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
		reads |= bit;
	if (d->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		writes |= bit;
	if (m->reads)
		softgpu_range_remove(m->start);
	m->reads = m->writes = 0;
	if (reads && !softgpu_range_add(&(struct softgpu_range){
			     .start = m->start,
			     .size = m->size,
			     .kind = SOFTGPU_MAPPED,
			     .device = m->file ? m->file->device : 0,
			     .reads = reads,
			     .writes = writes,
			     .copy_writes = writes,
		     }))
		return false;
	m->reads = reads;
	m->writes = writes;
	return true;
}

CUresult softgpu_cuMemSetAccess(CUdeviceptr ptr, size_t size, void *desc, size_t count)
{
	const CUmemAccessDesc *d = desc;
	CUresult result = CUDA_SUCCESS;
	struct reservation *r;

	softgpu_lock();
	r = find_reservation(ptr, size);
	if (!r || !d || count != 1 || d->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    softgpu_device_check(d->location.id) != CUDA_SUCCESS || !covered(r, ptr, size, false))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	for (struct mapping *m = r->mappings; m; m = m->next)
		if (!m->leaves && m->start >= ptr && m->start < ptr + size && !set_access(m, d))
			result = CUDA_ERROR_OUT_OF_MEMORY;
	return softgpu_leave(result);
}

/* Memory of pools has it too; other memory is not asked about. The host reaches none of it. */
CUresult softgpu_cuMemGetAccess(uint64_t *flags, void *location, CUdeviceptr ptr)
{
	const CUmemLocation *l = location;
	const struct softgpu_range *range;
	const struct reservation *r;

	if (!flags || !l || (l->type != CU_MEM_LOCATION_TYPE_DEVICE && l->type != CU_MEM_LOCATION_TYPE_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	if (l->type == CU_MEM_LOCATION_TYPE_DEVICE && softgpu_device_check(l->id) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_DEVICE;
	softgpu_lock();
	r = find_reservation(ptr, 1);
	range = softgpu_range_find(ptr, 1);
	if (!(r && find_mapping(r, ptr)) && !(range && range->pool))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	*flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	if (range && l->type == CU_MEM_LOCATION_TYPE_DEVICE && range->reads >> l->id & 1)
		*flags =
			range->writes >> l->id & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
	return softgpu_leave(CUDA_SUCCESS);
}

/* Takes a mapping with `leaves` set out of the list; NULL: there is none left. */
static struct mapping *take_leaving(struct reservation *r, uint64_t start, uint64_t size)
{
	for (struct mapping **at = &r->mappings, *m; (m = *at); at = &m->next) {
		if (m->start < start || m->start >= start + size || !m->leaves)
			continue;
		*at = m->next;
		return m;
	}
	return NULL;
}

static bool has_place(const struct reservation *r, uint64_t start, uint64_t size)
{
	const struct mapping *m;

	for (m = r->mappings; m && (m->file || m->start < start || m->start >= start + size); m = m->next)
		continue;
	return m;
}

/* The address space stays the device's. */
static void unmap_file(struct mapping *m)
{
	if (mmap((void *)(uintptr_t)m->start, m->size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED)
		put(m->file);
	m->file = NULL;
}

/* All in there leaves. */
static void leave(struct reservation *r, uint64_t start, uint64_t size)
{
	for (struct mapping *m = r->mappings; m; m = m->next) {
		if (m->start < start || m->start >= start + size)
			continue;
		if (m->file)
			unmap_file(m);
		m->leaves = true;
	}
}

static void remove_leaving(struct reservation *r, uint64_t start, uint64_t size)
{
	struct mapping *m;

	while ((m = take_leaving(r, start, size)))
		free(m);
}

CUresult softgpu_cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	struct softgpu_scope scope = {0};
	struct reservation *r;
	bool has_places;

	softgpu_lock();
	/* Queued kernels look at the table when they start, so they come first. */
	scope.last = softgpu_submitted();
	softgpu_wait(&scope);
	r = find_reservation(ptr, size);
	/* The guest comes again, for all at once, where its memory could not be taken out of a place. */
	if (!r || !covered(r, ptr, size, true))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	has_places = has_place(r, ptr, size);
	hide(r, ptr, size);
	leave(r, ptr, size);
	if (!has_places)
		remove_leaving(r, ptr, size);
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_hostLeave(CUdeviceptr ptr, size_t size)
{
	struct reservation *r;

	softgpu_lock();
	r = find_reservation(ptr, size);
	if (r)
		remove_leaving(r, ptr, size);
	return softgpu_leave(CUDA_SUCCESS);
}
