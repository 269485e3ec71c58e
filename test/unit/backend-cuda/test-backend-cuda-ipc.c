/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cuda back end's handles of memory, events and pools, which replace the driver's: over a driver of the test's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/backend-cuda/ipc.h"
#include "common/share.h"

#define BASE 0x700000000
#define BYTES 0x200000
#define EVENT ((CUevent)0x1000)
#define POOL ((CUmemoryPool)0x2000)
#define OPENED 0x900000000 /* the address of an import in another process */

/* ---- the driver: its handles name a process and an object, so that anybody could make one up ---- */

struct note {
	char what[8];
	pid_t pid;
	uint64_t object;
	unsigned int made; /* an object of the same name may be made again */
	char rest[36];
};

static unsigned int made, asked_types;

static struct note note_of(const char *what, uint64_t object)
{
	struct note n = {.pid = getpid(), .object = object, .made = made};

	strcpy(n.what, what);
	return n;
}

static CUresult range(CUdeviceptr *base, size_t *bytes, CUdeviceptr p)
{
	*base = BASE;
	*bytes = BYTES;
	return p - BASE < BYTES ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult get_memory(CUipcMemHandle *handle, CUdeviceptr p)
{
	struct note n = note_of("memory", p);

	memcpy(handle, &n, sizeof(n));
	return p == BASE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult open_note(const void *handle, const char *what, CUdeviceptr *object)
{
	struct note n;

	memcpy(&n, handle, sizeof(n));
	*object = n.object + OPENED;
	/* worse than an error: what was not given to it must not reach the driver */
	if (strcmp(n.what, what) || n.pid == getpid())
		abort();
	return CUDA_SUCCESS;
}

static CUresult open_memory(CUdeviceptr *p, CUipcMemHandle handle, unsigned int flags)
{
	return open_note(&handle, "memory", p);
}

static CUresult get_event(CUipcEventHandle *handle, CUevent event)
{
	struct note n = note_of("event", (uintptr_t)event);

	memcpy(handle, &n, sizeof(n));
	return CUDA_SUCCESS;
}

static CUresult open_event(CUevent *event, CUipcEventHandle handle)
{
	CUdeviceptr object;
	CUresult result = open_note(&handle, "event", &object);

	*event = (CUevent)(uintptr_t)object;
	return result;
}

static CUresult export_pointer(void *data, CUdeviceptr p)
{
	struct note n = note_of("pointer", p);

	memcpy(data, &n, sizeof(n));
	return CUDA_SUCCESS;
}

static CUresult import_pointer(CUdeviceptr *p, CUmemoryPool pool, void *data)
{
	return open_note(data, "pointer", p);
}

static CUresult ends(CUdeviceptr p)
{
	return CUDA_SUCCESS;
}

static CUresult allocation_ends(uint64_t handle)
{
	return CUDA_SUCCESS;
}

static CUresult event_ends(CUevent event)
{
	return CUDA_SUCCESS;
}

static CUresult pool_ends(CUmemoryPool pool)
{
	return CUDA_SUCCESS;
}

static CUresult create(uint64_t *handle, size_t size, void *prop, uint64_t flags)
{
	asked_types = ((CUmemAllocationProp *)prop)->requestedHandleTypes;
	*handle = 5;
	return CUDA_SUCCESS;
}

/* The fake driver's descriptors hold the object's number. */
static CUresult export(void *to, uint64_t handle, int type, uint64_t flags)
{
	int fd = memfd_create("driver", MFD_CLOEXEC);

	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || write(fd, &handle, sizeof(handle)) != sizeof(handle))
		return CUDA_ERROR_INVALID_VALUE;
	*(int *)to = fd;
	return CUDA_SUCCESS;
}

static CUresult import(uint64_t *handle, void *from, int type)
{
	int fd = (int)(intptr_t)from;

	return pread(fd, handle, sizeof(*handle), 0) == sizeof(*handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult export_pool(void *to, CUmemoryPool pool, int type, uint64_t flags)
{
	return export(to, (uintptr_t)pool, type, flags);
}

static CUresult import_pool(CUmemoryPool *pool, void *from, int type, uint64_t flags)
{
	uint64_t handle;
	CUresult result = import(&handle, from, type);

	*pool = (CUmemoryPool)(uintptr_t)handle;
	return result;
}

static CUresult pool_of(void *value, int attribute, CUdeviceptr p)
{
	*(CUmemoryPool *)value = POOL;
	return attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static struct vcuda_backend_ops ops = {
	.cuPointerGetAttribute = pool_of,
	.cuMemGetAddressRange_v2 = range,
	.cuIpcGetMemHandle = get_memory,
	.cuIpcOpenMemHandle_v2 = open_memory,
	.cuMemFree_v2 = ends,
	.cuIpcGetEventHandle = get_event,
	.cuIpcOpenEventHandle = open_event,
	.cuEventDestroy_v2 = event_ends,
	.cuMemCreate = create,
	.cuMemExportToShareableHandle = export,
	.cuMemImportFromShareableHandle = import,
	.cuMemRelease = allocation_ends,
	.cuMemPoolExportToShareableHandle = export_pool,
	.cuMemPoolImportFromShareableHandle = import_pool,
	.cuMemPoolDestroy = pool_ends,
	.cuMemPoolExportPointer = export_pointer,
	.cuMemPoolImportPointer = import_pointer,
};

/* ---- another worker ---- */

struct request {
	enum { MEMORY, EVENT_OF, ALLOCATION, POOL_OF, POINTER, FRIENDS, STRANGERS } what;
	uint8_t handle[64];
};

struct reply {
	CUresult result;
	uint64_t object;
};

static int peer;

static bool nobody(pid_t worker)
{
	return false;
}

static struct reply act(struct request *q)
{
	struct reply r = {CUDA_SUCCESS, 0};
	CUipcMemHandle memory;
	CUipcEventHandle event;
	CUdeviceptr p = 0;

	memcpy(&memory, q->handle, sizeof(memory));
	memcpy(&event, q->handle, sizeof(event));
	if (q->what == MEMORY)
		r.result = ops.cuIpcOpenMemHandle_v2(&p, memory, 1);
	else if (q->what == EVENT_OF)
		r.result = ops.cuIpcOpenEventHandle((CUevent *)&r.object, event);
	else if (q->what == ALLOCATION)
		r.result = ops.cuMemImportFromShareableHandle(&r.object, q->handle, CU_MEM_HANDLE_TYPE_FABRIC);
	else if (q->what == POOL_OF)
		r.result = ops.cuMemPoolImportFromShareableHandle((CUmemoryPool *)&r.object, q->handle, 8, 0);
	else if (q->what == POINTER)
		r.result = ops.cuMemPoolImportPointer(&p, POOL, q->handle);
	else
		vcuda_share_scope(q->what == FRIENDS ? NULL : nobody);
	if (p)
		r.object = p;
	return r;
}

static struct reply elsewhere(int what, const void *handle)
{
	struct request q = {.what = what};
	struct reply r = {CUDA_ERROR_UNKNOWN, 0};

	if (handle)
		memcpy(q.handle, handle, sizeof(q.handle));
	assert_int_equal(write(peer, &q, sizeof(q)), sizeof(q));
	assert_int_equal(read(peer, &r, sizeof(r)), sizeof(r));
	return r;
}

static void opens(int what, const void *handle, uint64_t object)
{
	struct reply r = elsewhere(what, handle);

	assert_int_equal(r.result, CUDA_SUCCESS);
	assert_int_equal(r.object, object);
}

static void refuses(int what, const void *handle)
{
	assert_int_equal(elsewhere(what, handle).result, CUDA_ERROR_INVALID_VALUE);
}

static int start(void **state)
{
	struct request q;
	struct reply r;
	int ends_of[2];

	backend_share(&ops);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends_of))
		return -1;
	peer = ends_of[0];
	if (fork())
		return close(ends_of[1]);
	close(ends_of[0]);
	while (read(ends_of[1], &q, sizeof(q)) == sizeof(q)) {
		r = act(&q);
		if (write(ends_of[1], &r, sizeof(r)) != sizeof(r))
			break;
	}
	_exit(0);
}

/* ---- tests ---- */

static void memory_opens_elsewhere(void **state)
{
	struct note raw = note_of("memory", BASE);
	CUipcMemHandle handle, again;
	CUdeviceptr p;

	assert_int_equal(ops.cuIpcGetMemHandle(&handle, BASE + 4), CUDA_SUCCESS);
	assert_int_equal(ops.cuIpcGetMemHandle(&again, BASE), CUDA_SUCCESS);
	assert_memory_equal(&handle, &again, sizeof(handle));
	opens(MEMORY, &handle, BASE + OPENED);
	assert_int_equal(ops.cuIpcOpenMemHandle_v2(&p, handle, 1), CUDA_ERROR_INVALID_CONTEXT);
	/* the driver's own, made up, and a wrong key */
	refuses(MEMORY, &raw);
	refuses(EVENT_OF, &handle);
	handle.reserved[30] ^= 1;
	refuses(MEMORY, &handle);
	handle.reserved[30] ^= 1;
	assert_int_equal(ops.cuMemFree_v2(BASE), CUDA_SUCCESS);
	refuses(MEMORY, &handle);
}

/* Memory that its context took along, and what was made in its place. */
static void new_memory_has_a_new_handle(void **state)
{
	CUipcMemHandle before, after;

	assert_int_equal(ops.cuIpcGetMemHandle(&before, BASE), CUDA_SUCCESS);
	made++;
	assert_int_equal(ops.cuIpcGetMemHandle(&after, BASE), CUDA_SUCCESS);
	assert_memory_not_equal(&before, &after, sizeof(before));
	refuses(MEMORY, &before);
	opens(MEMORY, &after, BASE + OPENED);
	ops.cuMemFree_v2(BASE);
}

static void events_open_elsewhere(void **state)
{
	CUipcEventHandle handle;

	assert_int_equal(ops.cuIpcGetEventHandle(&handle, EVENT), CUDA_SUCCESS);
	opens(EVENT_OF, &handle, (uintptr_t)EVENT + OPENED);
	refuses(MEMORY, &handle);
	ops.cuEventDestroy_v2(EVENT);
	refuses(EVENT_OF, &handle);
}

static void allocations_go_as_descriptors(void **state)
{
	CUmemAllocationProp prop = {.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC};
	uint64_t allocation, same;
	uint8_t shared[64];

	assert_int_equal(ops.cuMemCreate(&allocation, BYTES, &prop, 0), CUDA_SUCCESS);
	assert_int_equal(asked_types, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	assert_int_equal(ops.cuMemExportToShareableHandle(shared, allocation, CU_MEM_HANDLE_TYPE_FABRIC, 0),
			 CUDA_SUCCESS);
	opens(ALLOCATION, shared, allocation);
	refuses(POOL_OF, shared);
	refuses(MEMORY, shared);
	assert_int_equal(ops.cuMemImportFromShareableHandle(&same, shared, CU_MEM_HANDLE_TYPE_FABRIC), CUDA_SUCCESS);
	assert_int_equal(same, allocation);
	ops.cuMemRelease(same);
	opens(ALLOCATION, shared, allocation);
	ops.cuMemRelease(allocation);
	refuses(ALLOCATION, shared);
}

static void pools_and_what_is_of_them(void **state)
{
	uint8_t shared[64], pointer[64];

	assert_int_equal(ops.cuMemPoolExportToShareableHandle(shared, POOL, CU_MEM_HANDLE_TYPE_FABRIC, 0), CUDA_SUCCESS);
	assert_int_equal(ops.cuMemPoolExportPointer(pointer, BASE), CUDA_SUCCESS);
	opens(POOL_OF, shared, (uintptr_t)POOL);
	opens(POINTER, pointer, BASE + OPENED);
	refuses(POINTER, shared);
	ops.cuMemFree_v2(BASE);
	refuses(POINTER, pointer);
	ops.cuMemPoolDestroy(POOL);
	refuses(POOL_OF, shared);
}

/* A worker of another VM that knows the handle: neither end has to do with it. */
static void others_get_nothing(void **state)
{
	CUipcMemHandle handle;

	assert_int_equal(ops.cuIpcGetMemHandle(&handle, BASE), CUDA_SUCCESS);
	vcuda_share_scope(nobody);
	refuses(MEMORY, &handle);
	vcuda_share_scope(NULL);
	opens(MEMORY, &handle, BASE + OPENED);
	elsewhere(STRANGERS, NULL);
	refuses(MEMORY, &handle);
	elsewhere(FRIENDS, NULL);
	opens(MEMORY, &handle, BASE + OPENED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_opens_elsewhere),
		cmocka_unit_test(new_memory_has_a_new_handle),
		cmocka_unit_test(events_open_elsewhere),
		cmocka_unit_test(allocations_go_as_descriptors),
		cmocka_unit_test(pools_and_what_is_of_them),
		cmocka_unit_test(others_get_nothing),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
