/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned host memory: mappings, which the worker maps at the same address and registers with its device. So the device
 * pointer of such memory is its host pointer.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "core/arena.h"
#include "core/capture.h"
#include "core/hooks.h"
#include "core/request.h"
#include "protocol/guest-calls.h"
#include "common/log.h"
#include "memory/host-pool.h"
#include "memory/memory.h"
#include "memory/range.h"
#include "guest/client/registration.h"
#include "guest/client/session.h"
#include "core/thread.h"

#define PAGE 4096ull

#define ALLOC_FLAGS (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                                                                 \
	(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY |                    \
	 CU_MEMHOSTREGISTER_READ_ONLY)

CUresult libcuda_pinned_error(int err, uint64_t address, uint64_t bytes)
{
	unsigned long long from = address, to = address + bytes;

	switch (-err) {
	case EINVAL:
	case EFAULT:
		return CUDA_ERROR_INVALID_VALUE;
	case EEXIST:
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	case ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case EPERM:
		vcuda_log("cannot pin %llu bytes: the limit of pinned memory is reached; raise RLIMIT_MEMLOCK (ulimit "
			  "-l) or the module's "
			  "max_pinned_mib",
			  (unsigned long long)bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	case EADDRNOTAVAIL:
		vcuda_log("memory at 0x%llx-0x%llx cannot be registered: the host uses these addresses itself; use "
			  "cudaHostAlloc",
			  from, to);
		return CUDA_ERROR_NOT_SUPPORTED;
	case EOPNOTSUPP:
		vcuda_log(
			"memory at 0x%llx-0x%llx cannot be registered over the %s transport: it is a stack or part of "
			"a file, or not all of one kind, or shared memory whose file this process can no longer "
			"open; use cudaHostAlloc",
			from, to, client_session.transport->ops->name);
		return CUDA_ERROR_NOT_SUPPORTED;
	case EPIPE:
	case ECONNRESET:
	case ENODEV:
	case EBADF:
		return (CUresult)client_session_check(err);
	case EMFILE:
	case ENFILE:
		vcuda_log_once("this process has no descriptor left to share memory with the host: raise RLIMIT_NOFILE "
			       "(ulimit -n)");
		return CUDA_ERROR_OPERATING_SYSTEM;
	default:
		vcuda_log("cannot share memory at 0x%llx-0x%llx with the host: %s", from, to, strerror(-err));
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
}

/* The transport, whose operations on mappings wait for another process or the kernel. */
static struct client_transport *waited_for(void)
{
	libcuda_thread()->calls.waits++;
	return client_session.transport;
}

/* Hosts before minor 2 take no memory that is mapped in several parts. */
static bool in_parts(const struct libcuda_range *r)
{
	return r->kind == LIBCUDA_RANGE_REGISTERED && client_session.transport->host_minor >= 2;
}

static int mapping_release(const struct libcuda_range *r)
{
	struct client_transport *t = waited_for();
	struct client_registration registered = {r->start, r->bytes, r->pages};
	int err = in_parts(r) ? client_registration_unmap(t, &registered)
			      : t->ops->mapping_release(t, (void *)r->mapping, r->mapping_bytes, r->pages);

	/* A range that could not be released is not used again. */
	if (!err && r->pages == CLIENT_MAPPING_REMOVE_PAGES)
		libcuda_arena_give((void *)r->mapping, r->mapping_bytes);
	return err;
}

CUresult libcuda_pinned_release(const struct libcuda_range *r)
{
	const struct call_options in = libcuda_context_options(r->context);
	CUresult result =
		r->kind == LIBCUDA_RANGE_VARIABLE
			? vcuda_call_vcudaManagedDrop_with(&in, (void *)r->mapping)
			: vcuda_call_cuMemHostUnregister_with(&in, (void *)(in_parts(r) ? r->start : r->mapping));
	int err = mapping_release(r);

	if (result == CUDA_SUCCESS && err)
		result = libcuda_pinned_error(err, r->mapping, r->mapping_bytes);
	return result;
}

/* Makes the worker's device use the mapping. `how`: a registration's flags; of a variable its index. */
static CUresult attach(const struct libcuda_range *r, unsigned int how)
{
	const struct call_options in = libcuda_context_options(r->context);

	if (r->kind == LIBCUDA_RANGE_VARIABLE)
		return vcuda_call_vcudaManagedPlace_with(&in, (vcuda_code)r->owner, how, (void *)r->mapping,
							 r->mapping_bytes);
	if (in_parts(r))
		return vcuda_call_cuMemHostRegister_v2_with(&in, (void *)r->start, r->bytes, how);
	return vcuda_call_cuMemHostRegister_v2_with(&in, (void *)r->mapping, r->mapping_bytes, how);
}

/* The mapping is there: attaches it to the device and records it; undoes the mapping otherwise. */
static CUresult finish(struct libcuda_range *r, unsigned int how)
{
	CUresult result = attach(r, how);

	if (result != CUDA_SUCCESS) {
		mapping_release(r);
		return result;
	}
	if (libcuda_range_add(r))
		return CUDA_SUCCESS;
	libcuda_pinned_release(r);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* New memory of r->bytes for a range whose place is to be found. */
static CUresult create(struct libcuda_range *r, unsigned int how)
{
	struct client_transport *t = waited_for();
	void *address;
	int err;

	if (r->bytes > SIZE_MAX - PAGE)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r->mapping_bytes = (r->bytes + PAGE - 1) & ~(PAGE - 1);
	err = libcuda_arena_take(r->mapping_bytes, &address);
	if (err)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r->start = r->mapping = (uintptr_t)address;
	err = t->ops->mapping_create(t, address, r->mapping_bytes);
	if (err) {
		libcuda_arena_give(address, r->mapping_bytes);
		return libcuda_pinned_error(err, r->mapping, r->mapping_bytes);
	}
	return finish(r, how);
}

CUresult libcuda_pinned_create(struct libcuda_range *r)
{
	return create(r, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
}

CUresult libcuda_pinned_alloc(struct libcuda_context *context, void **pp, size_t bytes, enum libcuda_range_kind kind,
			      unsigned int flags)
{
	struct libcuda_range r = {.bytes = bytes, .kind = kind, .flags = flags, .context = context};
	CUresult result = libcuda_pinned_create(&r);

	if (result == CUDA_SUCCESS)
		*pp = (void *)r.start;
	return result;
}

static CUresult alloc_for_room(struct libcuda_context *context, void **memory, size_t bytes)
{
	return libcuda_pinned_alloc(context, memory, bytes, LIBCUDA_RANGE_PINNED, 0);
}

__attribute__((constructor)) static void start(void)
{
	libcuda_hook_pinned = alloc_for_room;
}

CUresult libcuda_pinned_variable(const void *owner, uint32_t index, size_t bytes, struct libcuda_context *context)
{
	return create(&(struct libcuda_range){.bytes = bytes,
					      .kind = LIBCUDA_RANGE_VARIABLE,
					      .flags = CU_MEM_ATTACH_GLOBAL,
					      .owner = (uintptr_t)owner,
					      .context = context},
		      index);
}

VCUDA_EXPORT CUresult cuMemHostAlloc(void **pp, size_t bytes, unsigned int flags)
{
	CUresult result = libcuda_require_context();

	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (!pp || flags & ~(unsigned int)ALLOC_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	if (!bytes) {
		*pp = NULL;
		return CUDA_SUCCESS;
	}
	return libcuda_pinned_alloc(libcuda_context_current(), pp, bytes, LIBCUDA_RANGE_PINNED,
				    flags | CU_MEMHOSTALLOC_DEVICEMAP);
}

VCUDA_EXPORT CUresult cuMemAllocHost_v2(void **pp, size_t bytes)
{
	return cuMemHostAlloc(pp, bytes, 0);
}

/* Takes a host range out of the table and gives its mapping back. */
static CUresult release_range(uint64_t address, enum libcuda_range_kind kind, CUresult not_found)
{
	struct libcuda_range r;

	if (!libcuda_range_remove(address, kind, &r))
		return not_found;
	return libcuda_pinned_release(&r);
}

VCUDA_EXPORT CUresult cuMemFreeHost(void *p)
{
	CUresult result = libcuda_require_context_or(NULL);

	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	return p ? release_range((uintptr_t)p, LIBCUDA_RANGE_PINNED, CUDA_ERROR_INVALID_VALUE) : CUDA_SUCCESS;
}

/* Shares the memory with the worker. */
static int map_registered(struct libcuda_range *r)
{
	bool writable = !(r->flags & CU_MEMHOSTREGISTER_READ_ONLY);
	struct client_registration registered = {.start = r->start, .bytes = r->bytes};
	struct client_transport *t = waited_for();
	int err;

	if (!in_parts(r))
		return t->ops->mapping_register(t, (void *)r->mapping, r->mapping_bytes, writable, &r->pages);
	err = client_registration_map(t, &registered, writable);
	r->pages = registered.pages;
	return err;
}

/* With the memory claimed. */
static CUresult register_claimed(struct libcuda_range *r)
{
	int err = map_registered(r);

	if (err)
		return libcuda_pinned_error(err, r->mapping, r->mapping_bytes);
	return finish(r, r->flags | CU_MEMHOSTREGISTER_DEVICEMAP);
}

static CUresult host_register(void *p, size_t bytes, unsigned int flags)
{
	CUresult result = libcuda_require_context();
	struct libcuda_range r = {
		.start = (uintptr_t)p, .bytes = bytes, .kind = LIBCUDA_RANGE_REGISTERED, .flags = flags};
	struct libcuda_range there;
	struct libcuda_claim claim;

	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (!p || !bytes || flags & ~(unsigned int)REGISTER_FLAGS || bytes > UINT64_MAX - PAGE - r.start)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & CU_MEMHOSTREGISTER_IOMEMORY) {
		vcuda_log_once("memory of other devices (CU_MEMHOSTREGISTER_IOMEMORY) cannot be registered");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	r.context = libcuda_context_current();
	r.mapping = r.start & ~(PAGE - 1);
	r.mapping_bytes = ((r.start + bytes + PAGE - 1) & ~(PAGE - 1)) - r.mapping;
	if (libcuda_range_find(r.start, &there) && there.kind != LIBCUDA_RANGE_REGISTERED)
		return CUDA_ERROR_INVALID_VALUE;
	claim = in_parts(&r) ? (struct libcuda_claim){r.start, r.bytes, NULL}
			     : (struct libcuda_claim){r.mapping, r.mapping_bytes, NULL};
	if (!libcuda_range_claim(&claim, !in_parts(&r)))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	result = register_claimed(&r);
	libcuda_range_unclaim(&claim);
	return result;
}

static CUresult host_unregister(void *p)
{
	CUresult result = libcuda_require_context_or(NULL);
	struct libcuda_mapping mapping;
	struct libcuda_range r;

	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (libcuda_memory_is_mapped((uintptr_t)p, &mapping))
		return CUDA_ERROR_INVALID_VALUE;
	if (!libcuda_range_find((uintptr_t)p, &r) || !(r.kind & LIBCUDA_RANGE_ON_HOST))
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	return release_range((uintptr_t)p, LIBCUDA_RANGE_REGISTERED, CUDA_ERROR_INVALID_VALUE);
}

/* A thread that were cancelled between claims and mappings would leave them behind. */
VCUDA_EXPORT CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags)
{
	CUresult result;
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	result = host_register(p, bytes, flags);
	pthread_setcancelstate(cancel_state, NULL);
	return result;
}

VCUDA_EXPORT CUresult cuMemHostUnregister(void *p)
{
	CUresult result;
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	result = host_unregister(p);
	pthread_setcancelstate(cancel_state, NULL);
	return result;
}

/* Also of device memory of cuMemMap(), as with NVIDIA's driver. */
static bool has_device_pointer(const struct libcuda_range *r, uint64_t address)
{
	struct libcuda_mapping mapping;

	if (r->kind == LIBCUDA_RANGE_RESERVED)
		return libcuda_memory_is_mapped(address, &mapping);
	if (r->kind == LIBCUDA_RANGE_POOLED)
		return libcuda_host_pool_is_open(r);
	return r->kind & LIBCUDA_RANGE_ON_HOST;
}

VCUDA_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *dptr, void *p, unsigned int flags)
{
	CUresult result = libcuda_require_context();
	struct libcuda_range r;

	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr || flags || !libcuda_range_find((uintptr_t)p, &r) || !has_device_pointer(&r, (uintptr_t)p))
		return CUDA_ERROR_INVALID_VALUE;
	*dptr = (uintptr_t)p;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuMemHostGetFlags(unsigned int *flags, void *p)
{
	CUresult result = libcuda_require_context();
	struct libcuda_mapping mapping;
	struct libcuda_range r;

	if (result != CUDA_SUCCESS)
		return result;
	if (!flags || !libcuda_range_find((uintptr_t)p, &r))
		return CUDA_ERROR_INVALID_VALUE;
	if (libcuda_memory_is_mapped((uintptr_t)p, &mapping)) {
		*flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
		return CUDA_SUCCESS;
	}
	if (!(r.kind & (LIBCUDA_RANGE_PINNED | LIBCUDA_RANGE_REGISTERED)))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = r.kind == LIBCUDA_RANGE_PINNED ? r.flags
						: (r.flags & CU_MEMHOSTALLOC_PORTABLE) | CU_MEMHOSTALLOC_DEVICEMAP;
	return CUDA_SUCCESS;
}

VCUDA_SAME(cuMemHostRegister, cuMemHostRegister_v2);
