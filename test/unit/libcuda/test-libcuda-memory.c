/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, copies, pointer questions, against a worker that is a thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <stdlib.h>

#include "protocol/cuda-functions.h"
#include "guest/client/session.h"
#include "protocol/wire.h"
#include "test-libcuda-fake.h"

static char host[3 * 262144 + 17], back[sizeof(host)];

static int setup(void **state)
{
	CUcontext c;

	setenv("VCUDA_TRANSPORT", "local", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	for (size_t i = 0; i < sizeof(host); i++)
		host[i] = (char)(i * 31 + i / 251);
	return cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c);
}

static void bounds(void **state)
{
	CUdeviceptr p, base;
	size_t size;

	assert_int_equal(cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemAlloc_v2(&p, 1ull << 46), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuMemAlloc_v2(&p, 4), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyHtoD_v2(p, host, 4), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyHtoD_v2(p, host, 5), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyDtoH_v2(back, p + 1, 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemsetD32_v2(p, 1, 2), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemsetD32_v2(p + 2, 1, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyHtoD_v2((uintptr_t)back, host, 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyHtoD_v2(p, (void *)p, 4), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyHtoD_v2(p, (void *)p, 5), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyHtoD_v2(0, host, 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemGetAddressRange_v2(&base, &size, p + 3), CUDA_SUCCESS);
	assert_true(base == p && size == 4);
	assert_int_equal(cuMemFree_v2(p + 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFree_v2(0), CUDA_SUCCESS);
}

static void pageable(void **state)
{
	CUdeviceptr p;

	assert_int_equal(cuMemAlloc_v2(&p, sizeof(host)), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyHtoD_v2(p, host, sizeof(host)), CUDA_SUCCESS);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	assert_memory_equal(fake_memory(p), host, sizeof(host));
	assert_int_equal(cuMemcpyDtoH_v2(back, p, sizeof(host)), CUDA_SUCCESS);
	assert_memory_equal(back, host, sizeof(host));
	memset(back, 0, sizeof(back));
	assert_int_equal(cuMemcpy((uintptr_t)back, p, 1000), CUDA_SUCCESS);
	assert_memory_equal(back, host, 1000);
	assert_int_equal(cuMemcpy((uintptr_t)back, (uintptr_t)host, sizeof(host)), CUDA_SUCCESS);
	assert_memory_equal(back, host, sizeof(host));
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

/* Copies after other work (`busy`) or without, and checks how the copy was sent. */
static void copy_staged(CUdeviceptr p, size_t bytes, bool busy)
{
	uint64_t staged = fake.staged, behind = fake.behind;
	char *source = malloc(bytes);

	if (busy)
		assert_int_equal(cuMemsetD32Async(p, 0, 1, NULL), CUDA_SUCCESS);
	memcpy(source, host, bytes);
	assert_int_equal(cuMemcpyHtoD_v2(p, source, bytes), CUDA_SUCCESS);
	memset(source, 0xa5, bytes);
	free(source);
	assert_int_equal(cuMemcpyDtoH_v2(back, p, bytes), CUDA_SUCCESS);
	assert_memory_equal(back, host, bytes);
	assert_int_equal(fake.behind - behind, busy);
	assert_int_equal(fake.staged - staged, (bytes + 65535) / 65536);
}

static void staged(void **state)
{
	static const size_t sizes[] = {4, 4096, 4097, 65536, 65537, 200001, 512 * 1024};
	CUdeviceptr p;

	assert_int_equal(cuMemAlloc_v2(&p, sizeof(host)), CUDA_SUCCESS);
	for (fake.reads_late = 0; fake.reads_late < 4; fake.reads_late++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
			for (int busy = 0; busy < 2; busy++)
				copy_staged(p, sizes[i], busy);
	fake.reads_late = 0;
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

/* On another stream the copy waits for that stream alone: no piece is posted, which might wait for the default one. */
static void staged_on_stream(void **state)
{
	uint64_t staged = fake.staged;
	const size_t bytes = 200001;
	CUstream stream;
	CUdeviceptr p;

	assert_int_equal(cuMemAlloc_v2(&p, sizeof(host)), CUDA_SUCCESS);
	assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	for (int async = 0; async < 2; async++) {
		assert_int_equal(cuMemsetD32Async(p, 0, 1, NULL), CUDA_SUCCESS);
		assert_int_equal(cuMemsetD32Async(p, 0, 1, async ? stream : CU_STREAM_PER_THREAD), CUDA_SUCCESS);
		assert_int_equal(async ? cuMemcpyHtoDAsync_v2(p, host, bytes, stream)
				       : cuMemcpyHtoD_v2_ptds(p, host, bytes),
				 CUDA_SUCCESS);
		assert_int_equal(cuMemcpyDtoH_v2(back, p, bytes), CUDA_SUCCESS);
		assert_memory_equal(back, host, bytes);
	}
	/* A copy whose bytes fit the commands returns at once. */
	memset(back, 0, sizeof(back));
	assert_int_equal(cuMemcpyHtoDAsync_v2(p, host, 65536, stream), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoH_v2(back, p, 65536), CUDA_SUCCESS);
	assert_memory_equal(back, host, 65536);
	assert_int_equal(fake.staged, staged);
	assert_int_equal(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

/* Copies in a row, each of another size: none uses the place of one that the device has not read. */
static void staged_in_a_row(void **state)
{
	const size_t bytes = 500000;
	CUdeviceptr p;
	char *source = malloc(65536);

	assert_int_equal(cuMemAlloc_v2(&p, bytes), CUDA_SUCCESS);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	for (fake.reads_late = 0; fake.reads_late < 12; fake.reads_late++) {
		memset(fake_memory(p), 0, bytes);
		for (size_t at = 0, part = 5000; at < bytes; at += part, part = 5000 + (part + 7919) % 60000) {
			if (part > bytes - at)
				part = bytes - at;
			memcpy(source, host + at, part);
			assert_int_equal(cuMemcpyHtoD_v2(p + at, source, part), CUDA_SUCCESS);
			memset(source, 0xa5, part);
		}
		assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
		assert_memory_equal(fake_memory(p), host, bytes);
	}
	fake.reads_late = 0;
	free(source);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

/* The places of those that were lost are found again. */
static void staged_lost(void **state)
{
	CUdeviceptr p;

	assert_int_equal(cuMemAlloc_v2(&p, sizeof(host)), CUDA_SUCCESS);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	fake.loses_staged = true;
	for (int i = 0; i < 9; i++)
		assert_int_equal(cuMemcpyHtoD_v2(p, host, 65536), CUDA_SUCCESS);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	fake.loses_staged = false;
	copy_staged(p, 512 * 1024, false);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

static void pinned(void **state)
{
	uint64_t windows = fake.mappings, commands;
	CUdeviceptr p, q;
	void *h, *h2;

	assert_int_equal(cuMemAlloc_v2(&p, 10000), CUDA_SUCCESS);
	assert_int_equal(cuMemHostAlloc(&h, 10000, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemHostAlloc(&h2, 5 << 20, 0), CUDA_SUCCESS);
	assert_true((uintptr_t)h2 % (2 << 20) == 0);
	assert_int_equal(fake.mappings, windows + 2);
	memcpy(h, host, 10000);
	commands = fake.async_commands;
	assert_int_equal(cuMemcpyHtoDAsync_v2(p, h, 10000, NULL), CUDA_SUCCESS);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(fake.async_commands, commands + 1);
	assert_memory_equal(fake_memory(p), host, 10000);
	assert_int_equal(cuMemHostGetDevicePointer_v2(&q, (char *)h + 9, 0), CUDA_SUCCESS);
	assert_true(q == (uintptr_t)h + 9);
	assert_int_equal(cuMemHostGetDevicePointer_v2(&q, host, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemHostRegister_v2(h, 100, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeHost(h), CUDA_SUCCESS);
	assert_int_equal(cuMemFreeHost(h), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeHost(h2), CUDA_SUCCESS);
	assert_int_equal(cuMemFreeHost(NULL), CUDA_SUCCESS);
	assert_int_equal(fake.mappings, windows);
	/* Freed memory is used again. */
	assert_int_equal(cuMemHostAlloc(&h2, 1, 0), CUDA_SUCCESS);
	assert_ptr_equal(h2, h);
	assert_int_equal(cuMemFreeHost(h2), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

/* Whether the guest reads the memory itself. */
static bool reads_itself(CUdeviceptr p, char *pinned, size_t bytes)
{
	uint64_t staged = fake.staged;

	memcpy(pinned, host, bytes);
	assert_int_equal(cuMemcpyHtoD_v2(p, pinned, bytes), CUDA_SUCCESS);
	memset(pinned, 0xa5, bytes);
	assert_int_equal(cuMemcpyDtoH_v2(back, p, bytes), CUDA_SUCCESS);
	assert_memory_equal(back, host, bytes);
	return fake.staged - staged;
}

/* A copy of pinned memory is made when the function returns, or nothing runs that could tell. */
static void pinned_in_idle_context(void **state)
{
	static const size_t sizes[] = {1, 4096, 65536};
	CUstream apart, ordinary;
	CUdeviceptr p;
	void *h;

	assert_int_equal(cuMemAlloc_v2(&p, 70000), CUDA_SUCCESS);
	assert_int_equal(cuMemHostAlloc(&h, 70000, 0), CUDA_SUCCESS);
	assert_int_equal(cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	assert_int_equal(cuStreamCreate(&ordinary, 0), CUDA_SUCCESS);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
		assert_true(reads_itself(p, h, sizes[i]));
		assert_true(reads_itself(p, h, sizes[i]));
		assert_int_equal(cuMemsetD32Async(p, 0, 1, i ? ordinary : NULL), CUDA_SUCCESS);
		assert_false(reads_itself(p, h, sizes[i]));
		/* the copy before waited for the memset */
		assert_true(reads_itself(p, h, sizes[i]));
		assert_int_equal(cuMemsetD32Async(p, 0, 1, apart), CUDA_SUCCESS);
		assert_false(reads_itself(p, h, sizes[i]));
		assert_false(reads_itself(p, h, sizes[i]));
	}
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	assert_false(reads_itself(p, h, 65537));
	assert_int_equal(cuStreamDestroy_v2(apart), CUDA_SUCCESS);
	assert_int_equal(cuStreamDestroy_v2(ordinary), CUDA_SUCCESS);
	assert_int_equal(cuMemFreeHost(h), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

/* A program that wants it so has every copy made when the function returns. For all of the process: the last test. */
static void always_made(void **state)
{
	unsigned int on = 1;
	uint64_t staged;
	CUdeviceptr p;
	void *h;

	assert_int_equal(cuMemAlloc_v2(&p, 10000), CUDA_SUCCESS);
	assert_int_equal(cuMemHostAlloc(&h, 10000, 0), CUDA_SUCCESS);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	assert_true(reads_itself(p, h, 10000));
	assert_int_equal(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p), CUDA_SUCCESS);
	assert_false(reads_itself(p, h, 10000));
	staged = fake.staged;
	assert_int_equal(cuMemcpyHtoD_v2(p, host, 10000), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoH_v2(back, p, 10000), CUDA_SUCCESS);
	assert_int_equal(fake.staged, staged);
	assert_int_equal(cuMemFreeHost(h), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

static void registered(void **state)
{
	char *p = host + 100;
	uint64_t mappings = fake.mappings;

	assert_int_equal(cuMemHostRegister_v2(p, 5000, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemHostRegister_v2(p, 5000, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	/* Another buffer on the same page. */
	assert_int_equal(cuMemHostRegister_v2(p + 4999, 8, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	assert_int_equal(cuMemHostRegister_v2(p + 5000, 8, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemHostUnregister(p + 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemHostUnregister(p), CUDA_SUCCESS);
	assert_int_equal(cuMemHostUnregister(p), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	assert_int_equal(cuMemHostUnregister(p + 5000), CUDA_SUCCESS);
	assert_int_equal(fake.mappings, mappings);
	/* A host that takes one mapping for each. */
	client_session.transport->host_minor = 1;
	assert_int_equal(cuMemHostRegister_v2(p, 5000, 0), CUDA_SUCCESS);
	assert_int_equal(fake.mappings, mappings + 1);
	assert_int_equal(cuMemHostRegister_v2(p + 5000, 8, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	assert_int_equal(cuMemHostUnregister(p), CUDA_SUCCESS);
	client_session.transport->host_minor = VCUDA_PROTOCOL_MINOR;
	assert_int_equal(fake.mappings, mappings);
	assert_int_equal(cuMemHostRegister_v2(p, 5000, CU_MEMHOSTREGISTER_IOMEMORY), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(cuMemHostRegister_v2(NULL, 5000, 0), CUDA_ERROR_INVALID_VALUE);
}

static void pointers(void **state)
{
	CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
				       CU_POINTER_ATTRIBUTE_RANGE_SIZE};
	CUmemorytype type = 99;
	int ordinal = 99;
	size_t size = 99;
	void *data[] = {&type, &ordinal, &size};
	CUdeviceptr p;
	void *h;

	assert_int_equal(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)host),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuPointerGetAttributes(3, which, data, (uintptr_t)host), CUDA_SUCCESS);
	assert_true(type == 0 && ordinal == CU_DEVICE_INVALID && size == 0);
	assert_int_equal(cuMemAlloc_v2(&p, 77), CUDA_SUCCESS);
	assert_int_equal(cuPointerGetAttributes(3, which, data, p + 76), CUDA_SUCCESS);
	assert_true(type == CU_MEMORYTYPE_DEVICE && ordinal == 0 && size == 77);
	assert_int_equal(cuPointerGetAttribute(&h, CU_POINTER_ATTRIBUTE_HOST_POINTER, p), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 77),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemHostAlloc(&h, 10, 0), CUDA_SUCCESS);
	assert_int_equal(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)h), CUDA_SUCCESS);
	assert_int_equal(type, CU_MEMORYTYPE_HOST);
	assert_int_equal(cuMemFreeHost(h), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

/* Copies a box of host memory to the device and back, and compares with what plain loops make of it. */
static void rows(size_t width, size_t height, size_t host_pitch, size_t device_pitch)
{
	CUdeviceptr p;
	CUDA_MEMCPY2D c = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.srcPitch = host_pitch,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstPitch = device_pitch,
		.WidthInBytes = width,
		.Height = height,
	};

	assert_int_equal(cuMemAlloc_v2(&p, device_pitch * height), CUDA_SUCCESS);
	memset(fake_memory(p), 0x55, device_pitch * height);
	c.dstDevice = p;
	assert_int_equal(cuMemcpy2D_v2(&c), CUDA_SUCCESS);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	for (size_t y = 0; y < height; y++) {
		char *row = (char *)fake_memory(p) + y * device_pitch;

		assert_memory_equal(row, host + y * host_pitch, width);
		for (size_t x = width; x < device_pitch; x++)
			assert_int_equal(row[x], 0x55);
	}
	memset(back, 0x66, sizeof(back));
	c = (CUDA_MEMCPY2D){
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = p,
		.srcPitch = device_pitch,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = back,
		.dstPitch = host_pitch,
		.WidthInBytes = width,
		.Height = height,
	};
	assert_int_equal(cuMemcpy2D_v2(&c), CUDA_SUCCESS);
	for (size_t y = 0; y < height; y++) {
		assert_memory_equal(back + y * host_pitch, host + y * host_pitch, width);
		for (size_t x = width; x < host_pitch; x++)
			assert_int_equal(back[y * host_pitch + x], 0x66);
	}
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

static void boxes(void **state)
{
	rows(100, 30, 100, 100);
	rows(100, 30, 130, 100);
	rows(100, 30, 100, 130);
	rows(100, 30, 128, 130);
	rows(100, 1, 128, 130);
}

static void box_errors(void **state)
{
	CUDA_MEMCPY2D c = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.srcPitch = 10,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstPitch = 20,
		.WidthInBytes = 20,
		.Height = 4,
	};

	assert_int_equal(cuMemAlloc_v2(&c.dstDevice, 60), CUDA_SUCCESS);
	assert_int_equal(cuMemcpy2D_v2(&c), CUDA_ERROR_INVALID_VALUE);
	c.srcPitch = 20;
	assert_int_equal(cuMemcpy2D_v2(&c), CUDA_ERROR_INVALID_VALUE);
	c.Height = 3;
	assert_int_equal(cuMemcpy2D_v2(&c), CUDA_SUCCESS);
	c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	assert_int_equal(cuMemcpy2D_v2(&c), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuMemcpy2D_v2(NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFree_v2(c.dstDevice), CUDA_SUCCESS);
}

static void box_3d(void **state)
{
	CUDA_MEMCPY3D c = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.srcPitch = 64,
		.srcHeight = 10,
		.srcXInBytes = 3,
		.srcY = 2,
		.srcZ = 1,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstPitch = 32,
		.dstHeight = 6,
		.WidthInBytes = 20,
		.Height = 5,
		.Depth = 3,
	};

	assert_int_equal(cuMemAlloc_v2(&c.dstDevice, 32 * 6 * 3), CUDA_SUCCESS);
	assert_int_equal(cuMemcpy3D_v2(&c), CUDA_SUCCESS);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	for (size_t z = 0; z < 3; z++)
		for (size_t y = 0; y < 5; y++)
			assert_memory_equal((char *)fake_memory(c.dstDevice) + (z * 6 + y) * 32,
					    host + ((z + 1) * 10 + y + 2) * 64 + 3, 20);
	assert_int_equal(cuMemFree_v2(c.dstDevice), CUDA_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bounds),          cmocka_unit_test(pageable),
		cmocka_unit_test(staged),          cmocka_unit_test(staged_on_stream),
		cmocka_unit_test(staged_in_a_row), cmocka_unit_test(staged_lost),
		cmocka_unit_test(pinned),          cmocka_unit_test(pinned_in_idle_context),
		cmocka_unit_test(registered),      cmocka_unit_test(pointers),
		cmocka_unit_test(boxes),           cmocka_unit_test(box_errors),
		cmocka_unit_test(box_3d),          cmocka_unit_test(always_made),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
