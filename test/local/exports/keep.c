/* SPDX-License-Identifier: Apache-2.0 */
#include "exports.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../send-file.h"

/* ---- the exporter ends ---- */

static void export_filled(int to, uint32_t first)
{
	size_t bytes = 2 * granule();
	CUmemGenericAllocationHandle handle = make(bytes);
	int fd = export(handle);

	fill(map(handle, bytes, 0), bytes, first);
	CHECK(send_file(to, fd));
}

/* Checks that the descriptor's memory has these values. */
static void use(int fd, uint32_t first)
{
	size_t bytes = 2 * granule();
	CUmemGenericAllocationHandle handle = import(fd);
	CUdeviceptr p = map(handle, bytes, 0);

	expect(p, bytes, first);
	OK(cuMemRelease(handle));
	unmap(p, bytes);
}

static void exporter_ends(bool killed)
{
	int fds[1];

	in_another(export_filled, 11, killed, fds, 1);
	next();
	/* a process that is started now, another one that has it from its parent, and this one */
	CHECK(run_again("later", fds[0]) == 0);
	CHECK(run_again("later", fds[0]) == 0);
	start();
	use(fds[0], 11);
	close(fds[0]);
}

void exporter_exits(void)
{
	exporter_ends(false);
}

void exporter_is_killed(void)
{
	exporter_ends(true);
}

/* Without the exporter's help: from its table of descriptors. */
void taken_by_pidfd(void)
{
	uint32_t first = 20;
	int ends[2], theirs, pidfd, fd;
	pid_t pid;
	char c;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CUmemGenericAllocationHandle handle;

		start();
		handle = make(2 * granule());
		theirs = export(handle);
		fill(map(handle, 2 * granule(), 0), 2 * granule(), first);
		CHECK(write(ends[1], &theirs, sizeof(theirs)) == sizeof(theirs));
		CHECK(read(ends[1], &c, 1) == 1);
		raise(SIGKILL);
	}
	CHECK(read(ends[0], &theirs, sizeof(theirs)) == sizeof(theirs));
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	CHECK(pidfd >= 0);
	fd = (int)syscall(SYS_pidfd_getfd, pidfd, theirs, 0);
	CHECK(fd >= 0 || errno == EPERM);
	CHECK(write(ends[0], "x", 1) == 1);
	CHECK(waitpid(pid, NULL, 0) == pid);
	if (fd < 0) {
		fprintf(stderr, "pidfd_getfd() is not allowed here: not tried\n");
		return;
	}
	next();
	start();
	use(fd, first);
	close(fd);
}

void taken_later(const char *fd)
{
	start();
	use(atoi(fd), 11);
}

/* ---- names of one allocation ---- */

void exported_twice(void)
{
	size_t bytes;
	CUmemGenericAllocationHandle handle, again[2];
	CUdeviceptr p, q;
	int fds[2];

	start();
	bytes = granule();
	handle = make(bytes);
	fds[0] = export(handle);
	fds[1] = export(handle);
	CHECK(fds[0] != fds[1]);
	p = map(handle, bytes, 0);
	fill(p, bytes, 12);
	close(fds[0]);
	/* the second one holds it by itself, and may be imported as often as one likes */
	again[0] = import(fds[1]);
	again[1] = import(fds[1]);
	q = map(again[1], bytes, 0);
	expect(q, bytes, 12);
	fill(q, bytes, 13);
	expect(p, bytes, 13);
	OK(cuMemRelease(again[0]));
	OK(cuMemRelease(again[1]));
	unmap(q, bytes);
	unmap(p, bytes);
	OK(cuMemRelease(handle));
	close(fds[1]);
}

void exporter_released(void)
{
	size_t bytes;
	CUmemGenericAllocationHandle handle;
	CUdeviceptr p;
	int fd;

	start();
	bytes = granule();
	handle = make(bytes);
	fd = export(handle);
	p = map(handle, bytes, 0);
	fill(p, bytes, 14);
	unmap(p, bytes);
	OK(cuMemRelease(handle));
	/* nothing but the descriptor has it */
	handle = import(fd);
	p = map(handle, bytes, 0);
	expect(p, bytes, 14);
	unmap(p, bytes);
	OK(cuMemRelease(handle));
	handle = import(fd);
	OK(cuMemRelease(handle));
	close(fd);
}

void another_device(void)
{
	size_t bytes;
	CUmemGenericAllocationHandle handle;
	int fds[1], count, can = 0;
	CUcontext context;
	CUdeviceptr p;

	in_another(export_filled, 15, false, fds, 1);
	start();
	OK(cuDeviceGetCount(&count));
	if (count > 1)
		OK(cuDeviceCanAccessPeer(&can, 1, 0));
	if (can) {
		bytes = 2 * granule();
		OK(cuDevicePrimaryCtxRetain(&context, 1));
		OK(cuCtxSetCurrent(context));
		handle = import(fds[0]);
		p = map(handle, bytes, 1);
		expect(p, bytes, 15);
		OK(cuMemRelease(handle));
		unmap(p, bytes);
	}
	close(fds[0]);
}

/* ---- pools ---- */

static void export_pool(int to, uint32_t first)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.handleTypes = TYPE,
				.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	const size_t bytes[2] = {1 << 20, 4096};
	CUmemPoolPtrExportData data[2];
	CUmemoryPool pool;
	CUdeviceptr p;
	int fd, ends[2];

	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemPoolExportToShareableHandle(&fd, pool, TYPE, 0));
	for (int n = 0; n < 2; n++) {
		OK(cuMemAllocFromPoolAsync(&p, bytes[n], pool, NULL));
		OK(cuCtxSynchronize());
		fill(p, bytes[n], first + (uint32_t)n);
		OK(cuMemPoolExportPointer(&data[n], p));
	}
	CHECK(send_file(to, fd));
	CHECK(pipe(ends) == 0);
	CHECK(write(ends[1], data, sizeof(data)) == sizeof(data));
	CHECK(send_file(to, ends[0]));
}

static bool shares_pools(void)
{
	int pools = 0;

	OK(cuDeviceGetAttribute(&pools, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0));
	return pools & TYPE;
}

static void check_pools(int to, uint32_t unused)
{
	int ends[2];

	CHECK(pipe(ends) == 0);
	CHECK(write(ends[1], shares_pools() ? "y" : "n", 1) == 1);
	CHECK(send_file(to, ends[0]));
}

void pool_exporter_exits(void)
{
	const size_t bytes[2] = {1 << 20, 4096};
	CUmemPoolPtrExportData data[2];
	CUmemoryPool pool;
	CUdeviceptr p[2];
	int fds[2];
	char c;

	in_another(check_pools, 0, false, fds, 1);
	CHECK(read(fds[0], &c, 1) == 1);
	close(fds[0]);
	if (c == 'n')
		return;
	in_another(export_pool, 16, false, fds, 2);
	CHECK(read(fds[1], data, sizeof(data)) == sizeof(data));
	close(fds[1]);
	next();
	start();
	OK(cuMemPoolImportFromShareableHandle(&pool, as_handle(fds[0]), TYPE, 0));
	for (uint32_t n = 0; n < 2; n++) {
		OK(cuMemPoolImportPointer(&p[n], pool, &data[n]));
		expect(p[n], bytes[n], 16 + n);
	}
	close(fds[0]);
	for (uint32_t n = 0; n < 2; n++) {
		expect(p[n], bytes[n], 16 + n);
		OK(cuMemFree_v2(p[n]));
	}
	OK(cuMemPoolDestroy(pool));
}

/* ---- the end ---- */

#define COUNTED_GRANULES 32

static void export_large(int to, uint32_t first)
{
	size_t bytes = COUNTED_GRANULES * granule();
	CUmemGenericAllocationHandle handle = make(bytes);
	CUdeviceptr p = map(handle, bytes, 0);

	fill(p, bytes, first);
	CHECK(send_file(to, export(handle)));
}

static size_t free_memory(void)
{
	size_t bytes, total;

	OK(cuMemGetInfo_v2(&bytes, &total));
	return bytes;
}

/* The host hears of the last close, and does what follows from it, after close() has returned. */
static void wait_for(size_t least)
{
	while (free_memory() < least)
		usleep(1000);
}

void last_close(void)
{
	size_t bytes, before;
	int fds[1], copy;

	in_another(export_large, 17, false, fds, 1);
	copy = dup(fds[0]);
	start();
	bytes = COUNTED_GRANULES * granule();
	close(fds[0]);
	next();
	before = free_memory();
	close(copy);
	wait_for(before + bytes);
}

void last_mapping(void)
{
	CUmemGenericAllocationHandle handle;
	size_t bytes, before;
	CUdeviceptr p;
	int fds[1];

	in_another(export_large, 18, true, fds, 1);
	start();
	bytes = COUNTED_GRANULES * granule();
	handle = import(fds[0]);
	p = map(handle, bytes, 0);
	OK(cuMemRelease(handle));
	close(fds[0]);
	next();
	/* the mapping alone has it */
	before = free_memory();
	expect(p, bytes, 18);
	unmap(p, bytes);
	wait_for(before + bytes);
}

/* For a vcudad that shows what counts: 64 MiB and a descriptor, then nothing. */
void counted(void)
{
	int fds[1];

	in_another(export_large, 19, true, fds, 1);
	next();
	close(fds[0]);
	next();
}
