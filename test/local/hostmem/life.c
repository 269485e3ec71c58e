/* SPDX-License-Identifier: Apache-2.0 */
/* The lifetime of the memory, and memory beside it. */
#include "hostmem.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOST CU_MEM_LOCATION_TYPE_HOST

static void release_first(void)
{
	CUmemGenericAllocationHandle handle = create(HOST, 1), again = 0, third = 0;
	CUdeviceptr p, q;

	probe_begin("life", "the handle is released before the mapping");
	OK(cuMemAddressReserve(&q, granule, 0, 0, 0));
	p = map(handle, granule);
	*words(p) = 1;
	OK(cuMemRelease(handle));
	GIVES(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
	step(p, 5, 1);
	EXPECT(*words(p) == 6);

	probe_begin("life", "the handle comes back from an address");
	OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(p + 4096)));
	EXPECT(again == handle);
	OK(cuMemRetainAllocationHandle(&third, (void *)(uintptr_t)p));
	OK(cuMemRelease(third));
	OK(cuMemMap(q, granule, 0, again, 0));
	OK(give(q, granule, HOST, 0, RW));
	EXPECT(*words(q) == 6);
	OK(cuMemUnmap(p, granule));
	GIVES(cuMemRetainAllocationHandle(&third, (void *)(uintptr_t)p), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAddressFree(p, granule));
	OK(cuMemRelease(again));
	EXPECT(*words(q) == 6);
	unmap(q, granule);
	GIVES(cuMemRelease(again), CUDA_ERROR_INVALID_VALUE);
}

static unsigned int open_files(void)
{
	DIR *all = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (all && readdir(all))
		n++;
	if (all)
		closedir(all);
	return n;
}

static void many(void)
{
	enum { MANY = 40 };
	CUmemGenericAllocationHandle handles[MANY];
	unsigned int before = open_files();
	CUdeviceptr p[MANY];

	probe_begin("life", "many, and nothing is left of them");
	for (int i = 0; i < MANY; i++) {
		handles[i] = create(i % 2 ? HOST : CU_MEM_LOCATION_TYPE_HOST_NUMA, 1);
		p[i] = map(handles[i], granule);
		*words(p[i]) = (uint32_t)i;
	}
	for (int i = 0; i < MANY; i++)
		step(p[i], 1, 1);
	for (int i = 0; i < MANY; i++) {
		EXPECT(*words(p[i]) == (uint32_t)i + 1);
		unmap(p[i], granule);
		OK(cuMemRelease(handles[i]));
	}
	EXPECT(open_files() == before);
}

/* The library's descriptor of the only such memory; -1: there is none. */
static int find_file(void)
{
	char name[300], file[300];

	for (int fd = 3; fd < 1100; fd++) {
		ssize_t n;

		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		n = readlink(name, file, sizeof(file) - 1);
		if (n > 0 && !strncmp(file, "/memfd:vcuda-host", strlen("/memfd:vcuda-host")))
			return fd;
	}
	return -1;
}

/* Mappings go on. A new mapping fails, and the log says so once. */
static void close_descriptor(void)
{
	CUmemAllocationProp prop = properties(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, BY_FILE);
	CUmemGenericAllocationHandle handle = 0;
	CUdeviceptr p, q;
	int fd;

	probe_begin("life", "the program closes the descriptor");
	OK(cuMemCreate(&handle, granule, &prop, 0));
	OK(cuMemAddressReserve(&q, granule, 0, 0, 0));
	p = map(handle, granule);
	EXPECT(!close(find_file()));
	GIVES(cuMemMap(q, granule, 0, handle, 0), CUDA_ERROR_OPERATING_SYSTEM);
	GIVES(cuMemExportToShareableHandle(&fd, handle, BY_FILE, 0), CUDA_ERROR_OPERATING_SYSTEM);
	*words(p) = 10;
	step(p, 2, 1);
	EXPECT(*words(p) == 21);
	unmap(p, granule);
	OK(cuMemAddressFree(q, granule));
	OK(cuMemRelease(handle));
}

/* A parent's pages stay its own: neither its writes nor its kernels' go to copies. */
static void fork_meanwhile(void)
{
	CUmemGenericAllocationHandle handle = create(HOST, 1);
	CUdeviceptr p = map(handle, granule);
	int ends[2], status = -1;
	char c;
	pid_t child;

	probe_begin("life", "a fork");
	*words(p) = 3;
	EXPECT(find_file() >= 0 && !read_faults(p));
	EXPECT(!pipe(ends));
	child = fork();
	if (!child) {
		CUmemGenericAllocationHandle mine;
		CUmemAllocationProp prop = properties(HOST, 0, CU_MEM_HANDLE_TYPE_NONE);

		close(ends[1]);
		if (find_file() >= 0 || !read_faults(p))
			_exit(2);
		/* Until the parent is done. */
		while (read(ends[0], &c, 1) > 0)
			continue;
		_exit(cuMemCreate(&mine, granule, &prop, 0) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
	}
	close(ends[0]);
	*words(p) = 4;
	step(p, 10, 1);
	EXPECT(*words(p) == 41);
	close(ends[1]);
	EXPECT(waitpid(child, &status, 0) == child && status == 0);
	step(p, 1, 1);
	EXPECT(*words(p) == 42);
	unmap(p, granule);
	OK(cuMemRelease(handle));
}

struct end {
	CUmemGenericAllocationHandle handle;
	CUresult result;
};

static void *release_cancelled(void *argument)
{
	struct end *e = argument;

	pthread_cancel(pthread_self());
	e->result = cuMemRelease(e->handle);
	pthread_testcancel();
	return NULL;
}

/* The end of the memory closes a file, where a thread could end with the library's lock. */
static void cancel_meanwhile(void)
{
	struct end e = {create(HOST, 1), CUDA_ERROR_UNKNOWN};
	void *ended = NULL;
	pthread_t thread;

	probe_begin("life", "a cancelled thread");
	EXPECT(!pthread_create(&thread, NULL, release_cancelled, &e) && !pthread_join(thread, &ended));
	EXPECT(ended == PTHREAD_CANCELED);
	OK(e.result);
	GIVES(cuMemRelease(e.handle), CUDA_ERROR_INVALID_VALUE);
}

/* The memory belongs to no context. */
static void end_context(void)
{
	CUmemGenericAllocationHandle handle = create(HOST, 1);
	CUcontext before, context;
	CUdeviceptr p, out;

	probe_begin("life", "a context ends");
	OK(cuCtxGetCurrent(&before));
	OK(cuCtxCreate_v2(&context, 0, 0));
	p = map(handle, granule);
	OK(cuMemAlloc_v2(&out, 16));
	*words(p) = 77;
	OK(cuMemcpyHtoD_v2(out, (void *)(uintptr_t)p, 4));
	OK(cuCtxDestroy_v2(context));
	OK(cuCtxSetCurrent(before));
	EXPECT(*words(p) == 77);
	step(p, 1, 1);
	EXPECT(*words(p) == 78);
	unmap(p, granule);
	OK(cuMemRelease(handle));
}

static bool is_active(void)
{
	unsigned int flags;
	int active = -1;

	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	return active;
}

static void retain(void)
{
	CUcontext context;

	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
}

static void fill(CUdeviceptr p, uint32_t value)
{
	OK(cuMemsetD32_v2(p, value, 100));
	EXPECT(words(p)[0] == value && words(p)[99] == value);
}

/* Access is of no context: it is there again with the next one. */
void probe_reset(void)
{
	CUmemGenericAllocationHandle handle = create(HOST, 1);
	CUdeviceptr p = map(handle, granule);

	probe_begin("life", "the primary context is reset");
	fill(p, 3);
	OK(cuDevicePrimaryCtxReset_v2(0));
	EXPECT(!is_active());
	EXPECT(words(p)[99] == 3);
	retain();
	fill(p, 4);

	probe_begin("life", "the primary context is released");
	OK(cuDevicePrimaryCtxRelease_v2(0));
	EXPECT(!is_active());
	*words(p) = 9;
	retain();
	fill(p, 5);
	OK(give(p, granule, CU_MEM_LOCATION_TYPE_DEVICE, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE));
	OK(give(p, granule, CU_MEM_LOCATION_TYPE_DEVICE, 0, RW));
	fill(p, 6);

	probe_begin("life", "the mapping ends after the primary context");
	OK(cuDevicePrimaryCtxReset_v2(0));
	EXPECT(words(p)[99] == 6);
	unmap(p, granule);
	OK(cuMemRelease(handle));
	EXPECT(!is_active());
	retain();
	handle = create(HOST, 1);
	p = map(handle, granule);
	fill(p, 7);
	unmap(p, granule);
	OK(cuMemRelease(handle));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	EXPECT(!is_active());
}

void probe_life(void)
{
	release_first();
	many();
	close_descriptor();
	fork_meanwhile();
	cancel_meanwhile();
	end_context();
}
