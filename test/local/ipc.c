/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes of one guest that work on the same memory and wait for one another's events. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"
#include "send-file.h"

#define BYTES (4u << 20)
#define SMALL 4096u /* bytes of an allocation that shares its pages */

/* From the parent to the child, who answers with a byte. */
struct message {
	CUipcMemHandle memory;
	CUipcEventHandle event;
};

static uint32_t data[BYTES / 4];

static void expect(CUdeviceptr p, uint32_t value)
{
	OK(cuMemcpyDtoH_v2(data, p, BYTES));
	for (size_t n = 0; n < BYTES / 4; n++)
		CHECK(data[n] == value);
}

/* ---- mapped memory: a descriptor goes from process to process ---- */

static CUdeviceptr map(CUmemGenericAllocationHandle handle)
{
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr p;

	OK(cuMemAddressReserve(&p, BYTES, 0, 0, 0));
	OK(cuMemMap(p, BYTES, 0, handle, 0));
	OK(cuMemSetAccess(p, BYTES, &access, 1));
	return p;
}

static void *as_handle(int fd)
{
	return (void *)(intptr_t)fd;
}

/* As NCCL does where the kernel has it. Nothing where a security module keeps processes from one another. */
static void import_taken(int parent)
{
	int number, taken, owner = (int)syscall(SYS_pidfd_open, getppid(), 0);
	CUmemGenericAllocationHandle handle;
	CUdeviceptr p;

	CHECK(read(parent, &number, sizeof(number)) == sizeof(number));
	taken = (int)syscall(SYS_pidfd_getfd, owner, number, 0);
	CHECK(taken >= 0 || errno == EPERM || errno == ENOSYS);
	if (taken >= 0) {
		OK(cuMemImportFromShareableHandle(&handle, as_handle(taken), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
		close(taken);
		p = map(handle);
		OK(cuMemRelease(handle));
		expect(p, 7);
		OK(cuMemUnmap(p, BYTES));
		OK(cuMemAddressFree(p, BYTES));
	}
	close(owner);
}

static void import(int parent)
{
	const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	int fd = receive_file(parent), empty = open("/dev/null", O_RDONLY);
	CUmemGenericAllocationHandle handle;
	CUdeviceptr p;

	CHECK(fd >= 0);
	import_taken(parent);
	GIVES(cuMemImportFromShareableHandle(&handle, as_handle(empty), type), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemImportFromShareableHandle(&handle, as_handle(-1), type), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemImportFromShareableHandle(&handle, as_handle(fd), type));
	close(fd);
	close(empty);
	p = map(handle);
	OK(cuMemRelease(handle));
	expect(p, 7);
	OK(cuMemsetD32Async(p, 8, BYTES / 4, NULL));
	OK(cuCtxSynchronize());
	say(parent);
	hear(parent);
	/* the memory lives while a process maps it */
	expect(p, 9);
	OK(cuMemUnmap(p, BYTES));
	OK(cuMemAddressFree(p, BYTES));
}

static void export(int child)
{
	const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemGenericAllocationHandle handle, again;
	CUdeviceptr p, twice;
	int fd;

	OK(cuMemCreate(&handle, BYTES, &prop, 0));
	GIVES(cuMemExportToShareableHandle(&fd, handle, type, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemRelease(handle));
	prop.requestedHandleTypes = type;
	OK(cuMemCreate(&handle, BYTES, &prop, 0));
	p = map(handle);
	OK(cuMemsetD32Async(p, 7, BYTES / 4, NULL));
	OK(cuCtxSynchronize());
	OK(cuMemExportToShareableHandle(&fd, handle, type, 0));
	OK(cuMemImportFromShareableHandle(&again, as_handle(fd), type));
	twice = map(again);
	OK(cuMemRelease(again));
	CHECK(send_file(child, fd));
	CHECK(write(child, &fd, sizeof(fd)) == sizeof(fd));
	hear(child);
	close(fd);
	expect(p, 8);
	expect(twice, 8);
	OK(cuMemsetD32Async(twice, 9, BYTES / 4, NULL));
	OK(cuCtxSynchronize());
	OK(cuMemUnmap(twice, BYTES));
	OK(cuMemAddressFree(twice, BYTES));
	OK(cuMemUnmap(p, BYTES));
	OK(cuMemAddressFree(p, BYTES));
	OK(cuMemRelease(handle));
	say(child);
}

/* NCCL asks, and exports memory without a handle of this kind as that of cuMemCreate(). */
static bool has_handle(CUdeviceptr p)
{
	unsigned int capable = 2;

	OK(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p));
	CHECK(capable < 2);
	return capable;
}

/* As an H200 answers for each kind of memory. */
static void ask_handles(void)
{
	CUdeviceptr managed, ordered, rows;
	size_t pitch;
	void *host;

	OK(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemHostAlloc(&host, BYTES, 0));
	OK(cuMemAllocAsync(&ordered, BYTES, NULL));
	OK(cuMemAllocPitch_v2(&rows, &pitch, 1000, 10, 4));
	CHECK(!has_handle(managed));
	CHECK(!has_handle((CUdeviceptr)host));
	CHECK(!has_handle(ordered));
	CHECK(has_handle(rows));
	OK(cuMemFree_v2(managed));
	OK(cuMemFreeHost(host));
	OK(cuMemFreeAsync(ordered, NULL));
	OK(cuMemFree_v2(rows));
}

/* ---- pools, on devices that have such ---- */

static int shares_pools(void)
{
	int types;

	OK(cuDeviceGetAttribute(&types, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0));
	return types;
}

/* A pool of another process: a small allocation, freed in stream order, and the calls that an imported pool refuses. */
static void import_more(CUmemoryPool pool, const CUmemPoolPtrExportData *small, const CUmemPoolPtrExportData *other)
{
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemPoolPtrExportData copy = *small;
	cuuint64_t used;
	CUdeviceptr p;
	uint32_t word;
	int fd;

	OK(cuMemPoolSetAccess(pool, &access, 1));
	GIVES(cuMemAllocFromPoolAsync(&p, BYTES, pool, NULL), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	      CUDA_ERROR_INVALID_VALUE);
	copy = *other;
	GIVES(cuMemPoolImportPointer(&p, pool, &copy), CUDA_ERROR_INVALID_VALUE);
	copy = *small;
	OK(cuMemPoolImportPointer(&p, pool, &copy));
	OK(cuMemcpyDtoH_v2(&word, p, 4));
	CHECK(word == 23);
	GIVES(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemsetD32Async(p, 24, SMALL / 4, NULL));
	OK(cuMemFreeAsync(p, NULL));
	OK(cuCtxSynchronize());
	GIVES(cuMemcpyDtoH_v2(&word, p, 4), CUDA_ERROR_INVALID_VALUE);
}

static void import_pool(int parent)
{
	const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	int fd = receive_file(parent);
	CUmemPoolPtrExportData offered, wrong, others[2];
	CUmemoryPool pool;
	CUdeviceptr p;

	CHECK(fd >= 0);
	CHECK(read(parent, &offered, sizeof(offered)) == sizeof(offered));
	CHECK(read(parent, others, sizeof(others)) == sizeof(others));
	OK(cuMemPoolImportFromShareableHandle(&pool, as_handle(fd), type, 0));
	close(fd);
	wrong = offered;
	wrong.reserved[30] ^= 1;
	GIVES(cuMemPoolImportPointer(&p, pool, &wrong), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemPoolImportPointer(&p, pool, &offered));
	expect(p, 21);
	OK(cuMemsetD32Async(p, 22, BYTES / 4, NULL));
	OK(cuCtxSynchronize());
	GIVES(cuIpcCloseMemHandle(p), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(p));
	import_more(pool, &others[0], &others[1]);
	say(parent);
	/* memory that the parent freed */
	hear(parent);
	if (is_software())
		GIVES(cuMemPoolImportPointer(&p, pool, &offered), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemPoolDestroy(pool));
	say(parent);
}

static void export_pool(int child)
{
	const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.handleTypes = type,
				.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemPoolPtrExportData offered, others[2];
	CUmemoryPool pool, second, alone;
	CUdeviceptr p, small, of_second;
	uint32_t word;
	int fd, fd2, second_fd;

	if (!shares_pools()) {
		GIVES(cuMemPoolCreate(&pool, &props), CUDA_ERROR_NOT_SUPPORTED);
		return;
	}
	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemAllocFromPoolAsync(&p, BYTES, pool, NULL));
	OK(cuMemsetD32Async(p, 21, BYTES / 4, NULL));
	OK(cuCtxSynchronize());
	OK(cuMemPoolExportToShareableHandle(&fd, pool, type, 0));
	OK(cuMemPoolExportPointer(&offered, p));
	/* another one that is shared, and one that is not */
	OK(cuMemPoolCreate(&second, &props));
	OK(cuMemAllocFromPoolAsync(&of_second, BYTES, second, NULL));
	GIVES(cuMemPoolExportPointer(&others[1], of_second), CUDA_ERROR_INVALID_VALUE); /* before its pool */
	OK(cuMemPoolExportToShareableHandle(&second_fd, second, type, 0));
	close(second_fd);
	OK(cuMemPoolExportPointer(&others[1], of_second));
	props.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
	OK(cuMemPoolCreate(&alone, &props));
	GIVES(cuMemPoolExportToShareableHandle(&fd2, alone, type, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemPoolDestroy(alone));
	OK(cuMemAllocFromPoolAsync(&small, SMALL, pool, NULL));
	OK(cuMemsetD32Async(small, 23, SMALL / 4, NULL));
	OK(cuCtxSynchronize());
	OK(cuMemPoolExportPointer(&others[0], small));
	CHECK(send_file(child, fd));
	close(fd);
	CHECK(write(child, &offered, sizeof(offered)) == sizeof(offered));
	CHECK(write(child, others, sizeof(others)) == sizeof(others));
	hear(child);
	expect(p, 22);
	OK(cuMemcpyDtoH_v2(&word, small, 4));
	CHECK(word == 24);
	OK(cuMemFreeAsync(p, NULL));
	OK(cuMemFreeAsync(small, NULL));
	OK(cuMemFreeAsync(of_second, NULL));
	OK(cuCtxSynchronize());
	say(child);
	hear(child);
	OK(cuMemPoolDestroy(second));
	OK(cuMemPoolDestroy(pool));
}

/* A record of this process that is done does not stand for the other's that is waited for. */
static void records_beside(CUevent event, CUstream waiting, CUstream idle)
{
	OK(cuEventRecordWithFlags(event, idle, 0));
	OK(cuEventSynchronize(event));
	usleep(20000);
	GIVES(cuStreamQuery(waiting), CUDA_ERROR_NOT_READY);
}

static void child(int parent)
{
	CUipcMemHandle invented = {{0}};
	struct message m;
	CUdeviceptr p, again, other;
	CUstream stream, idle;
	CUevent event;

	CHECK(read(parent, &m, sizeof(m)) == sizeof(m));
	start();
	OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
	OK(cuStreamCreateWithPriority(&idle, CU_STREAM_NON_BLOCKING, 0));
	GIVES(cuIpcOpenMemHandle_v2(&p, invented, 1), CUDA_ERROR_INVALID_VALUE);
	invented = m.memory;
	invented.reserved[30] ^= 1;
	GIVES(cuIpcOpenMemHandle_v2(&p, invented, 1), CUDA_ERROR_INVALID_VALUE);
	memcpy(&invented, &m.event, sizeof(invented));
	GIVES(cuIpcOpenMemHandle_v2(&p, invented, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuIpcOpenMemHandle_v2(&p, m.memory, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuIpcOpenMemHandle_v2(&p, m.memory, 1));
	OK(cuIpcOpenMemHandle_v2(&again, m.memory, 1));
	CHECK(again == p);
	OK(cuMemAlloc_v2(&other, BYTES));
	CHECK(other >= p + BYTES || p >= other + BYTES);
	OK(cuIpcOpenEventHandle(&event, m.event));
	GIVES(cuIpcCloseMemHandle(other), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	/* a process does not export memory that it has imported */
	CHECK(!has_handle(p));
	GIVES(cuIpcGetMemHandle(&invented, p), CUDA_ERROR_INVALID_VALUE);
	expect(p, 1);
	/* the parent's work comes first: it waits until told, with its event recorded behind */
	OK(cuStreamWaitEvent(stream, event, 0));
	GIVES(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	GIVES(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	if (is_software()) /* NVIDIA does not say */
		records_beside(event, stream, idle);
	say(parent);
	OK(cuStreamSynchronize(stream));
	OK(cuEventSynchronize(event));
	expect(p, 2);
	OK(cuMemsetD32Async(p, 3, BYTES / 4, stream));
	OK(cuEventRecordWithFlags(event, stream, 0));
	say(parent);
	OK(cuStreamSynchronize(stream));
	OK(cuIpcCloseMemHandle(p));
	expect(p, 3);
	OK(cuIpcCloseMemHandle(p));
	GIVES(cuIpcCloseMemHandle(p), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemcpyDtoH_v2(data, p, 4), CUDA_ERROR_INVALID_VALUE);
	OK(cuEventDestroy_v2(event));
	/* freed memory cannot be opened */
	say(parent);
	hear(parent);
	GIVES(cuIpcOpenMemHandle_v2(&p, m.memory, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuIpcOpenEventHandle(&event, m.event), CUDA_ERROR_INVALID_VALUE);
	import(parent);
	if (shares_pools())
		import_pool(parent);
	exit(0);
}

static void wait_for_child(void *socket)
{
	hear(*(int *)socket);
}

static void parent(int other)
{
	CUdeviceptr p, own;
	CUevent event, plain;
	CUipcMemHandle none;
	CUstream stream;
	struct message m;

	start();
	OK(cuMemAlloc_v2(&p, BYTES));
	OK(cuMemsetD32Async(p, 1, BYTES / 4, NULL));
	CHECK(has_handle(p + 4));
	ask_handles();
	OK(cuIpcGetMemHandle(&m.memory, p + 4));
	GIVES(cuIpcGetMemHandle(&none, 4096), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuIpcOpenMemHandle_v2(&own, m.memory, 1), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
	GIVES(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	GIVES(cuIpcGetEventHandle(&m.event, plain), CUDA_ERROR_INVALID_VALUE);
	OK(cuIpcGetEventHandle(&m.event, event));
	OK(cuEventQuery(event));
	/* the stream goes on when the child says so */
	OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
	OK(cuLaunchHostFunc(stream, wait_for_child, &other));
	OK(cuMemsetD32Async(p, 2, BYTES / 4, stream));
	OK(cuEventRecordWithFlags(event, stream, 0));
	CHECK(write(other, &m, sizeof(m)) == sizeof(m));
	OK(cuStreamSynchronize(stream));
	hear(other);
	OK(cuStreamWaitEvent(stream, event, 0));
	OK(cuStreamSynchronize(stream));
	OK(cuEventQuery(event));
	expect(p, 3);
	hear(other);
	OK(cuMemFree_v2(p));
	OK(cuEventDestroy_v2(event));
	say(other);
	/* memory that was shared is like any other when it is used again */
	OK(cuMemAlloc_v2(&p, BYTES));
	OK(cuMemsetD32Async(p, 5, BYTES / 4, NULL));
	expect(p, 5);
	export(other);
	export_pool(other);
}

int main(void)
{
	int end, status;
	pid_t pid;

	pid = fork_pair(&end);
	if (!pid)
		child(end);
	parent(end);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	puts("ipc: passed");
	return 0;
}
