/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory of two processes, by a file descriptor, as NCCL's transport over shared memory has it. */
#include "hostmem.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/local/send-file.h"

#define NUMA CU_MEM_LOCATION_TYPE_HOST_NUMA
#define N 1000u

static void *as_handle(int fd)
{
	return (void *)(intptr_t)fd;
}

static void say(int to)
{
	EXPECT(write(to, "x", 1) == 1);
}

static void hear(int from)
{
	char c;

	EXPECT(read(from, &c, 1) == 1);
}

int share_child(int socket)
{
	CUmemGenericAllocationHandle handle = 0;
	CUmemAllocationProp prop;
	uint32_t wrong = 0;
	CUdeviceptr p;
	int fd;

	probe_begin("share", "the other process");
	fd = receive_file(socket);
	EXPECT(fd >= 0);
	OK(cuMemImportFromShareableHandle(&handle, as_handle(fd), BY_FILE));
	close(fd);
	OK(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
	EXPECT(prop.location.type == NUMA && prop.location.id == 0 &&
	       prop.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE);
	p = map(handle, 2 * granule);
	OK(cuMemRelease(handle));
	for (uint32_t i = 0; i < N; i++)
		wrong += words(p)[i] != i;
	EXPECT(!wrong);
	step(p, 3, N);
	words(p)[granule / 4] = 4711;
	say(socket);
	hear(socket);
	/* The memory lives as long as one process has it. */
	EXPECT(words(p)[7] == 44);
	step(p, 1, N);
	EXPECT(words(p)[7] == 45);
	unmap(p, 2 * granule);
	return probe_failed() ? 1 : 0;
}

static pid_t start_child(int *socket)
{
	int ends[2];
	char number[12];
	pid_t child;

	EXPECT(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	*socket = ends[0];
	child = fork();
	if (child)
		close(ends[1]);
	if (child)
		return child;
	fcntl(ends[1], F_SETFD, 0);
	snprintf(number, sizeof(number), "%d", ends[1]);
	execl("/proc/self/exe", "hostmem", has_places ? "cpu" : "cuda", number, (char *)NULL);
	_exit(127);
}

static void with_another_process(void)
{
	CUmemAllocationProp prop = properties(NUMA, 0, BY_FILE);
	CUmemGenericAllocationHandle handle = 0;
	int socket, fd = -1, status = -1;
	uint32_t wrong = 0;
	pid_t child;
	CUdeviceptr p;

	probe_begin("share", "with another process");
	OK(cuMemCreate(&handle, 2 * granule, &prop, 0));
	p = map(handle, 2 * granule);
	for (uint32_t i = 0; i < N; i++)
		words(p)[i] = i;
	OK(cuMemExportToShareableHandle(&fd, handle, BY_FILE, 0));
	OK(cuMemRelease(handle));
	child = start_child(&socket);
	EXPECT(send_file(socket, fd));
	close(fd);
	hear(socket);
	for (uint32_t i = 0; i < N; i++)
		wrong += words(p)[i] != 3 * i + 1;
	EXPECT(!wrong && words(p)[granule / 4] == 4711);
	step(p, 2, N);
	EXPECT(words(p)[7] == 45);
	words(p)[7] = 44;
	unmap(p, 2 * granule);
	say(socket);
	EXPECT(waitpid(child, &status, 0) == child && status == 0);
	close(socket);
}

static void with_itself(void)
{
	CUmemAllocationProp prop = properties(NUMA, 0, BY_FILE);
	CUmemGenericAllocationHandle handle = 0, again = 0;
	CUdeviceptr p, q;
	int fd = -1;

	probe_begin("share", "with the same process");
	OK(cuMemCreate(&handle, granule, &prop, 0));
	p = map(handle, granule);
	OK(cuMemExportToShareableHandle(&fd, handle, BY_FILE, 0));
	EXPECT(fcntl(fd, F_GETFD) >= 0);
	OK(cuMemImportFromShareableHandle(&again, as_handle(fd), BY_FILE));
	q = map(again, granule);
	*words(p) = 8;
	step(q, 2, 1);
	EXPECT(*words(p) == 17 && *words(q) == 17);
	unmap(p, granule);
	OK(cuMemRelease(handle));
	EXPECT(*words(q) == 17);

	probe_begin("share", "what was exported is all that is left");
	unmap(q, granule);
	OK(cuMemRelease(again));
	OK(cuMemImportFromShareableHandle(&again, as_handle(fd), BY_FILE));
	q = map(again, granule);
	EXPECT(*words(q) == 17);
	unmap(q, granule);
	OK(cuMemRelease(again));
	close(fd);
}

static void codes(void)
{
	CUmemAllocationProp prop = properties(NUMA, 0, BY_FILE);
	CUmemGenericAllocationHandle handle = 0, other;
	int fd = -1, null = open("/dev/null", O_RDWR), file = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	probe_begin("share", "codes");
	OK(cuMemCreate(&handle, granule, &prop, 0));
	GIVES(cuMemExportToShareableHandle(NULL, handle, BY_FILE, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemExportToShareableHandle(&fd, handle, BY_FILE, 1), CUDA_ERROR_INVALID_VALUE);
	other = create(NUMA, 1);
	GIVES(cuMemExportToShareableHandle(&fd, other, BY_FILE, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemRelease(other));
	GIVES(cuMemImportFromShareableHandle(&other, as_handle(null), BY_FILE), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemImportFromShareableHandle(&other, as_handle(-1), BY_FILE), CUDA_ERROR_INVALID_VALUE);
	EXPECT(!ftruncate(file, (off_t)granule + 4096));
	EXPECT(!fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
	GIVES(cuMemImportFromShareableHandle(&other, as_handle(file), BY_FILE), CUDA_ERROR_INVALID_VALUE);
	close(file);
	close(null);
	OK(cuMemRelease(handle));
}

/* The page behind the memory, which says what it is. */
struct description {
	char magic[24];
	int32_t type, id;
	uint64_t bytes;
};

/* A file of so many bytes with such a description, written nowhere else. */
static int describe(struct description d, size_t bytes, int seals)
{
	int file = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	EXPECT(!ftruncate(file, (off_t)bytes + 4096));
	EXPECT(pwrite(file, &d, sizeof(d), (off_t)bytes) == sizeof(d));
	EXPECT(!fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | seals));
	return file;
}

static void refuse_sealed(struct description d, size_t bytes, int seals)
{
	CUmemGenericAllocationHandle handle;
	int file = describe(d, bytes, seals);

	GIVES(cuMemImportFromShareableHandle(&handle, as_handle(file), BY_FILE), CUDA_ERROR_INVALID_VALUE);
	close(file);
}

static void refuse(struct description d, size_t bytes)
{
	refuse_sealed(d, bytes, F_SEAL_SEAL);
}

/* Nothing that another process wrote is taken for true. */
static void import_strange_files(void)
{
	CUmemAllocationProp prop = properties(NUMA, 0, BY_FILE);
	CUmemGenericAllocationHandle handle = 0;
	struct description good = {0}, d;
	struct stat file;
	int fd = -1;

	probe_begin("share", "files that say what no such memory is");
	OK(cuMemCreate(&handle, granule, &prop, 0));
	OK(cuMemExportToShareableHandle(&fd, handle, BY_FILE, 0));
	OK(cuMemRelease(handle));
	EXPECT(pread(fd, &good, sizeof(good), (off_t)granule) == sizeof(good) && good.bytes == granule);
	close(fd);
	d = good;
	d.type = CU_MEM_LOCATION_TYPE_DEVICE;
	refuse(d, granule);
	d.type = CU_MEM_LOCATION_TYPE_HOST;
	refuse(d, granule);
	d = good;
	d.id = -1;
	refuse(d, granule);
	d.id = 1 << 30;
	refuse(d, granule);
	d = good;
	d.bytes = granule + 4096;
	refuse(d, granule);
	refuse(d, d.bytes);
	/* files that cannot be mapped for writing, or may become so */
	refuse_sealed(good, granule, F_SEAL_SEAL | F_SEAL_FUTURE_WRITE);
	refuse_sealed(good, granule, 0);

	probe_begin("share", "a file without pages");
	fd = describe(good, granule, F_SEAL_SEAL);
	OK(cuMemImportFromShareableHandle(&handle, as_handle(fd), BY_FILE));
	EXPECT(!fstat(fd, &file) && (uint64_t)file.st_blocks * 512 >= granule);
	OK(cuMemRelease(handle));
	close(fd);
}

void probe_share(void)
{
	codes();
	import_strange_files();
	with_itself();
	with_another_process();
}
