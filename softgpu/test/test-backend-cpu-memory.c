/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the software GPU: allocations, copies, memsets, the host's, and what kernels allocate. */
#include "softgpu/test/backend-cpu-test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void test_memory(void **state)
{
	CUdeviceptr p[64], big;
	size_t free_before, free_after, total, pitch;

	assert_int_equal(cuda->cuMemGetInfo_v2(&free_before, &total), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemAlloc_v2(&big, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemAlloc_v2(NULL, 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemAlloc_v2(&big, 1ull << 46), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuda->cuMemAlloc_v2(&big, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 64; i++) {
			p[i] = alloc(1 + (size_t)i * i * 37);
			assert_int_equal(cuda->cuMemsetD8_v2(p[i], (uint8_t)i, 1 + (size_t)i * i * 37), CUDA_SUCCESS);
		}
		for (int i = 0; i < 64; i++) {
			uint8_t last;

			assert_int_equal(cuda->cuMemcpyDtoH_v2(&last, p[i] + (size_t)i * i * 37, 1), CUDA_SUCCESS);
			assert_int_equal(last, i);
		}
		for (int i = 0; i < 64; i++)
			assert_int_equal(cuda->cuMemFree_v2(p[i * 13 % 64]), CUDA_SUCCESS);
	}
	/* All of it in one piece again. */
	big = alloc(total - (1 << 20));
	assert_int_equal(cuda->cuMemAlloc_v2(&p[0], 1 << 20), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuda->cuMemFree_v2(big), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemFree_v2(big), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemFree_v2(0x1234), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemFree_v2(0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemAllocPitch_v2(&big, &pitch, 100, 10, 4), CUDA_SUCCESS);
	assert_int_equal(pitch, 512);
	assert_int_equal(cuda->cuMemFree_v2(big + 512), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemFree_v2(big), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemGetInfo_v2(&free_after, &total), CUDA_SUCCESS);
	assert_int_equal(free_before, free_after);
}

static void test_copies(void **state)
{
	const size_t n = 9u << 20;
	unsigned char *from = malloc(n), *to = calloc(1, n);
	CUdeviceptr a = alloc(n), b = alloc(n);

	for (size_t i = 0; i < n; i++)
		from[i] = (unsigned char)(i * 2654435761u >> 13);
	assert_int_equal(cuda->cuMemcpyHtoD_v2(a, from, n), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoDAsync_v2(b, a, n, NULL), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(to, b, n), CUDA_SUCCESS);
	assert_memory_equal(from, to, n);
	/* Overlapping parts. */
	assert_int_equal(cuda->cuMemcpyDtoD_v2(b + 1, b, n - 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(to, b, n), CUDA_SUCCESS);
	assert_memory_equal(from, to + 1, n - 1);

	assert_int_equal(cuda->cuMemcpyHtoD_v2(a, from, n + 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemcpyHtoD_v2(a + n, from, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemcpyHtoD_v2(a - 1, from, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemcpyHtoD_v2(a, NULL, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemcpyHtoD_v2(a, (void *)(uintptr_t)(a + (60u << 20)), 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(to, a + 1, SIZE_MAX), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemcpyDtoHAsync_v2(to, a, n + 1, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)to, from, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemcpyHtoD_v2(0, from, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoHAsync_v2(to, a, 4, (CUstream)0x7777), CUDA_ERROR_INVALID_HANDLE);
	free(from);
	free(to);
}

static void test_memsets(void **state)
{
	uint16_t half[8];
	uint32_t word[64];
	CUdeviceptr p = alloc(1024);

	assert_int_equal(cuda->cuMemsetD8_v2(p, 0, 1024), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemsetD16_v2(p + 2, 0x1234, 2), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(half, p, sizeof(half)), CUDA_SUCCESS);
	assert_int_equal(half[0], 0);
	assert_int_equal(half[1], 0x1234);
	assert_int_equal(half[2], 0x1234);
	assert_int_equal(half[3], 0);
	/* Four rows of three words. */
	assert_int_equal(cuda->cuMemsetD2D32Async(p, 64, 0xdeadbeef, 3, 4, NULL), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(word, p, sizeof(word)), CUDA_SUCCESS);
	for (int i = 0; i < 64; i++) {
		if (i > 3)
			assert_int_equal(word[i], i % 16 < 3 ? 0xdeadbeef : 0);
	}
	assert_int_equal(cuda->cuMemsetD32_v2(p, 1, 257), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemsetD32_v2(p + 2, 1, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemsetD32_v2(p, 1, SIZE_MAX / 2), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemsetD2D8Async(p, SIZE_MAX / 2, 1, 1, 3, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemsetD2D8Async(p, 512, 1, 512, 2, NULL), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemsetD2D8Async(p, 512, 1, 513, 2, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void test_host_memory(void **state)
{
	CUmodule module = load();
	CUfunction store = function(module, "store");
	uint32_t *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUdeviceptr device;

	assert_int_equal(cuda->cuMemHostRegister_v2((void *)0x1001, 4096, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemHostRegister_v2(p, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemHostRegister_v2(p, 4096, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemHostRegister_v2(p + 1, 4, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	assert_int_equal(cuda->cuMemHostRegister_v2(p + 1024, 4096, CU_MEMHOSTREGISTER_READ_ONLY), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemHostGetDevicePointer_v2(&device, p, 0), CUDA_SUCCESS);
	assert_true(device == (CUdeviceptr)(uintptr_t)p);
	assert_int_equal(launch_store(store, NULL, device + 8, 99), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(p[2], 99);
	assert_int_equal(cuda->cuMemsetD32_v2(device, 5, 1024), CUDA_SUCCESS);
	assert_int_equal(p[1023], 5);
	assert_int_equal(cuda->cuMemsetD32_v2(device + 4096, 5, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemHostUnregister(p), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemHostUnregister(p), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	/* A store to memory that is read-only to kernels faults. */
	assert_int_equal(launch_store(store, NULL, device + 4096, 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	munmap(p, 8192);
}

/* cuBLAS asks any context whether it is one for graphics, and is of no use where that fails. */
static void test_limits(void **state)
{
	size_t value = 1;

	assert_int_equal(cuda->cuCtxGetLimit(&value, CU_LIMIT_CIG_ENABLED), CUDA_SUCCESS);
	assert_int_equal(value, 0);
	assert_int_equal(cuda->cuCtxSetLimit(CU_LIMIT_CIG_ENABLED, 1), CUDA_ERROR_NOT_PERMITTED);
	assert_int_equal(cuda->cuCtxGetLimit(&value, CU_LIMIT_MAX_L2_FETCH_GRANULARITY), CUDA_SUCCESS);
	assert_int_equal(value, 64);
	assert_int_equal(cuda->cuCtxGetLimit(&value, CU_LIMIT_PERSISTING_L2_CACHE_SIZE), CUDA_ERROR_UNSUPPORTED_LIMIT);
	assert_int_equal(cuda->cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 12345), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxGetLimit(&value, CU_LIMIT_PRINTF_FIFO_SIZE), CUDA_SUCCESS);
	assert_int_equal(value, 12345);
}

/* One of the two may be left out. */
static void test_info(void **state)
{
	size_t left = 0, total = 0, both[2];

	assert_int_equal(cuda->cuMemGetInfo_v2(&both[0], &both[1]), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemGetInfo_v2(&left, NULL), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemGetInfo_v2(NULL, &total), CUDA_SUCCESS);
	assert_int_equal(left, both[0]);
	assert_int_equal(total, both[1]);
}

/* Memory that was freed is out of bounds to a kernel, and freeing waits for the kernel that uses it. */
static void test_use_after_free(void **state)
{
	CUmodule module = load();
	CUfunction store = function(module, "store");
	CUdeviceptr p = alloc(8 << 20);

	/* in a granule of 2 MiB that has nothing else */
	assert_int_equal(launch_store(store, NULL, p + (4 << 20), 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemFree_v2(p), CUDA_SUCCESS);
	assert_int_equal(launch_store(store, NULL, p + (4 << 20), 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* Parts of three large arrays that blocks side by side use are in different places of a cache of 128 KiB a way. */
static void test_apart(void **state)
{
	CUdeviceptr p[3];

	(void)state;
	for (int n = 0; n < 3; n++)
		p[n] = alloc(4 << 20);
	for (int n = 0; n < 3; n++) {
		uint64_t distance = (p[n] - p[(n + 1) % 3]) % (128 << 10);

		assert_in_range(distance, 16 << 10, 112 << 10);
	}
	for (int n = 0; n < 3; n++)
		assert_int_equal(cuda->cuMemFree_v2(p[n]), CUDA_SUCCESS);
}

/* Variables are where they want to be, and their memory comes back. */
static void test_alignment(void **state)
{
	static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
				   ".global .align 65536 .b8 large[100] = {7};\n.global .align 2 .b8 small[3];\n"
				   ".const .align 4096 .b8 page[4];\n.visible .entry k()\n{\nret;\n}\n";
	size_t bytes, before, after, total;
	CUmodule module;
	CUdeviceptr p;
	char first;

	(void)state;
	assert_int_equal(cuda->cuMemGetInfo_v2(&before, &total), CUDA_SUCCESS);
	for (unsigned n = 0; n < 20; n++) {
		assert_int_equal(cuda->cuModuleLoadData(&module, text), CUDA_SUCCESS);
		assert_int_equal(cuda->cuModuleGetGlobal_v2(&p, &bytes, module, "large"), CUDA_SUCCESS);
		assert_int_equal(p % 65536, 0);
		assert_int_equal(bytes, 100);
		assert_int_equal(cuda->cuMemcpyDtoH_v2(&first, p, 1), CUDA_SUCCESS);
		assert_int_equal(first, 7);
		assert_int_equal(cuda->cuModuleGetGlobal_v2(&p, &bytes, module, "page"), CUDA_SUCCESS);
		assert_int_equal(p % 4096, 0);
		assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	}
	assert_int_equal(cuda->cuMemGetInfo_v2(&after, &total), CUDA_SUCCESS);
	assert_int_equal(after, before);
}

#define LOCAL_KERNEL(name, bytes)                                                                                      \
	".visible .entry " name "()\n{\n.local .align 8 .b8 d[" bytes "];\n.reg .b32 %r<2>;\n.reg .b64 %l<4>;\n"       \
	"mov.u64 %l1, d;\nmov.u32 %r1, %tid.x;\ncvt.u64.u32 %l2, %r1;\nadd.s64 %l1, %l1, %l2;\n"                       \
	"st.local.u8 [%l1], %r1;\nret;\n}\n"

/* The blocks have 64 MiB, of which one is never to have more. */
static void test_local_memory(void **state)
{
	static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n" LOCAL_KERNEL("large", "100000")
		LOCAL_KERNEL("largest", "524288") LOCAL_KERNEL("beyond", "524289");
	CUmodule module;
	CUfunction f;
	int blocks;

	(void)state;
	assert_int_equal(cuda->cuModuleLoadData(&module, text), CUDA_SUCCESS);
	f = function(module, "large");
	assert_int_equal(launch(f, 1, 1024, NULL, NULL), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	assert_int_equal(launch(f, 20, 512, NULL, NULL), CUDA_SUCCESS);
	assert_int_equal(cuda->cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, f, 32, 0, 0),
			 CUDA_SUCCESS);
	/* by half of it, on three multiprocessors */
	assert_int_equal(blocks, (64 << 20) / 2 / 3 / (32 * 100000));
	/* two of them fit on three multiprocessors */
	assert_int_equal(cuda->cuLaunchCooperativeKernel(f, 3, 1, 1, 256, 1, 1, 0, NULL, NULL),
			 CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	assert_int_equal(cuda->cuLaunchCooperativeKernel(f, 2, 1, 1, 256, 1, 1, 0, NULL, NULL), CUDA_SUCCESS);
	assert_int_equal(launch(function(module, "largest"), 1, 32, NULL, NULL), CUDA_SUCCESS);
	assert_int_equal(launch(function(module, "beyond"), 1, 1, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
}

/* ---- released and restored ---- */

static bool is_resident(CUdeviceptr page)
{
	unsigned char here;

	assert_int_equal(mincore((void *)(uintptr_t)(page & ~(uint64_t)4095), 4096, &here), 0);
	return here & 1;
}

/* Small ones share pages, the last one is large; every other one has values, the rest is new. */
static size_t size_of(int i)
{
	return i == 15 ? 5u << 20 : 300u * (unsigned int)(i * i * i) + 1;
}

static void check_values(const CUdeviceptr *p)
{
	for (int i = 0; i < 16; i++) {
		uint8_t *to = calloc(1, size_of(i));

		assert_int_equal(cuda->cuMemcpyDtoH_v2(to, p[i], size_of(i)), CUDA_SUCCESS);
		for (size_t k = 0; i % 2 && k < size_of(i); k++)
			assert_int_equal(to[k], i + 1);
		free(to);
	}
}

static CUdeviceptr map_memory(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	uint64_t handle;
	CUdeviceptr p;

	assert_int_equal(cuda->cuMemCreate(&handle, 2 << 20, &prop, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemAddressReserve(&p, 2 << 20, 0, 0, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemMap(p, 2 << 20, 0, handle, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemSetAccess(p, 2 << 20, &access, 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemRelease(handle), CUDA_SUCCESS);
	return p;
}

/* A place of guest memory in a reservation: it stays taken until it holds no guest memory. */
static void test_host_place(void **state)
{
	const size_t granule = 2 << 20;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	uint64_t handle, flags;
	uint32_t value = 7;
	CUdeviceptr p;

	assert_int_equal(cuda->cuMemCreate(&handle, granule, &prop, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemAddressReserve(&p, 2 * granule, 0, 0, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->hostPlace(p + 4096, granule), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->hostPlace(p + granule, 2 * granule), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->hostPlace(p, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->hostPlace(p, granule), CUDA_SUCCESS);
	assert_int_equal(cuda->hostPlace(p, granule), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemMap(p, granule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemcpyHtoD_v2(p, &value, 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemSetAccess(p, granule, &access, 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyHtoD_v2(p, &value, 4), CUDA_SUCCESS);
	assert_int_equal(*(uint32_t *)(uintptr_t)p, 7);
	assert_int_equal(cuda->cuMemUnmap(p, granule), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyHtoD_v2(p, &value, 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemGetAccess(&flags, &access.location, p), CUDA_ERROR_INVALID_VALUE);
	/* The guest's memory could not be taken out of the place: once more. */
	assert_int_equal(cuda->cuMemUnmap(p, granule), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemSetAccess(p, granule, &access, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemMap(p, granule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemAddressFree(p, 2 * granule), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->hostLeave(p, granule), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemUnmap(p, granule), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemMap(p, granule, 0, handle, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemUnmap(p, granule), CUDA_SUCCESS);
	/* The same beside device memory, which is gone after the first try. */
	assert_int_equal(cuda->hostPlace(p, granule), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemMap(p + granule, granule, 0, handle, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemUnmap(p, 2 * granule), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemUnmap(p, 2 * granule), CUDA_SUCCESS);
	assert_int_equal(cuda->hostLeave(p, 2 * granule), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemUnmap(p, 2 * granule), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemMap(p + granule, granule, 0, handle, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemUnmap(p + granule, granule), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemAddressFree(p, 2 * granule), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemRelease(handle), CUDA_SUCCESS);
}

static void release_and_restore(const CUdeviceptr *p, int count)
{
	FILE *file = tmpfile();
	int fd = dup(fileno(file));

	assert_int_equal(vcuda_cpu_release(fd), 0);
	assert_int_equal(vcuda_cpu_release(fd), -EALREADY);
	for (int i = 9; i < count; i++)
		assert_false(is_resident(p[i] + 4096));
	assert_int_equal(vcuda_cpu_restore(), 0);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	fclose(file);
	check_values(p);
}

static void test_release(void **state)
{
	CUdeviceptr p[17];
	uint8_t last;

	assert_int_equal(vcuda_cpu_restore(), 0);
	for (int i = 0; i < 16; i++) {
		p[i] = alloc(size_of(i));
		if (i % 2)
			assert_int_equal(cuda->cuMemsetD8_v2(p[i], (uint8_t)(i + 1), size_of(i)), CUDA_SUCCESS);
	}
	p[16] = map_memory();
	assert_int_equal(cuda->cuMemsetD8_v2(p[16], 77, 2 << 20), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	for (int round = 0; round < 2; round++)
		release_and_restore(p, 17);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&last, p[16] + (2 << 20) - 1, 1), CUDA_SUCCESS);
	assert_int_equal(last, 77);
	assert_int_equal(cuda->cuMemUnmap(p[16], 2 << 20), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemAddressFree(p[16], 2 << 20), CUDA_SUCCESS);
	for (int i = 0; i < 16; i++)
		assert_int_equal(cuda->cuMemFree_v2(p[i]), CUDA_SUCCESS);
}

/* Without room nothing is lost. */
static void test_release_without_room(void **state)
{
	int fd = open("/dev/full", O_RDWR | O_CLOEXEC);
	CUdeviceptr p = alloc(1 << 20), mapped = map_memory();
	uint8_t last;

	assert_int_equal(cuda->cuMemsetD8_v2(p, 5, 1 << 20), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemsetD8_v2(mapped, 6, 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(vcuda_cpu_release(fd), -ENOSPC);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&last, p + (1 << 20) - 1, 1), CUDA_SUCCESS);
	assert_int_equal(last, 5);
	/* A look at memory that has no contents yet takes none. */
	assert_false(is_resident(mapped + (1 << 20)));
	assert_int_equal(cuda->cuMemUnmap(mapped, 2 << 20), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemAddressFree(mapped, 2 << 20), CUDA_SUCCESS);
	assert_int_equal(vcuda_cpu_restore(), 0);
	assert_int_equal(cuda->cuMemFree_v2(p), CUDA_SUCCESS);
	close(fd);
}

/* Memory that other processes may open stays. */
static void test_release_of_shared_memory(void **state)
{
	CUdeviceptr large = alloc(1 << 20), small = alloc(100);
	FILE *file = tmpfile();
	CUipcMemHandle handle;

	assert_int_equal(cuda->cuMemsetD8_v2(large, 5, 1 << 20), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemsetD8_v2(small, 6, 100), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(cuda->cuIpcGetMemHandle(&handle, large), CUDA_SUCCESS);
	assert_int_equal(cuda->cuIpcGetMemHandle(&handle, small), CUDA_SUCCESS);
	assert_int_equal(vcuda_cpu_release(dup(fileno(file))), 0);
	assert_int_equal(*(volatile uint8_t *)(uintptr_t)large, 5);
	assert_int_equal(*(volatile uint8_t *)(uintptr_t)small, 6);
	*(volatile uint8_t *)(uintptr_t)large = 7; /* as another process does */
	assert_int_equal(vcuda_cpu_restore(), 0);
	assert_int_equal(*(volatile uint8_t *)(uintptr_t)large, 7);
	fclose(file);
	assert_int_equal(cuda->cuMemFree_v2(large), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemFree_v2(small), CUDA_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_CONTEXT(test_memory),
		IN_CONTEXT(test_copies),
		IN_CONTEXT(test_memsets),
		IN_CONTEXT(test_host_memory),
		IN_CONTEXT(test_limits),
		IN_CONTEXT(test_info),
		IN_CONTEXT(test_use_after_free),
		IN_CONTEXT(test_apart),
		IN_CONTEXT(test_local_memory),
		IN_CONTEXT(test_alignment),
		IN_CONTEXT(test_host_place),
		IN_CONTEXT(test_release),
		IN_CONTEXT(test_release_without_room),
		IN_CONTEXT(test_release_of_shared_memory),
	};

	init_device();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
