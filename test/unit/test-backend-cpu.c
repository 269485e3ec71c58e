/* SPDX-License-Identifier: Apache-2.0 */
/* The software GPU through its table of driver functions: what a program of one process sees of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend-cpu.h"
#include "backend.h"

static const struct vcuda_backend_ops *cuda;

static const char ptx[] = ".version 7.0\n"
			  ".target sm_70\n"
			  ".address_size 64\n"
			  ".visible .global .align 4 .u32 counter = 7;\n"
			  ".const .align 4 .f32 scale = 0f3FC00000;\n"
			  /* a[i] += b[i] for i < n */
			  ".visible .entry add(.param .u64 add_a, .param .u64 add_b, .param .u32 add_n)\n"
			  "{\n"
			  "	.reg .pred %p; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %rd<8>;\n"
			  "	ld.param.u64 %rd1, [add_a];\n"
			  "	ld.param.u64 %rd2, [add_b];\n"
			  "	ld.param.u32 %r2, [add_n];\n"
			  "	mov.u32 %r3, %ctaid.x;\n"
			  "	mov.u32 %r4, %ntid.x;\n"
			  "	mov.u32 %r5, %tid.x;\n"
			  "	mad.lo.s32 %r1, %r3, %r4, %r5;\n"
			  "	setp.ge.s32 %p, %r1, %r2;\n"
			  "	@%p bra DONE;\n"
			  "	cvta.to.global.u64 %rd3, %rd1;\n"
			  "	cvta.to.global.u64 %rd4, %rd2;\n"
			  "	mul.wide.s32 %rd5, %r1, 4;\n"
			  "	add.s64 %rd6, %rd3, %rd5;\n"
			  "	add.s64 %rd7, %rd4, %rd5;\n"
			  "	ld.global.f32 %f1, [%rd6];\n"
			  "	ld.global.f32 %f2, [%rd7];\n"
			  "	add.f32 %f3, %f1, %f2;\n"
			  "	st.global.f32 [%rd6], %f3;\n"
			  "DONE:\n"
			  "	ret;\n"
			  "}\n"
			  /* *p = v */
			  ".visible .entry store(.param .u64 store_p, .param .u32 store_v)\n"
			  "{\n"
			  "	.reg .b32 %r<2>; .reg .b64 %rd<2>;\n"
			  "	ld.param.u64 %rd1, [store_p];\n"
			  "	ld.param.u32 %r1, [store_v];\n"
			  "	st.volatile.global.u32 [%rd1], %r1;\n"
			  "	ret;\n"
			  "}\n"
			  /* counter++ in each thread */
			  ".visible .entry count()\n"
			  "{\n"
			  "	.reg .b32 %r<2>;\n"
			  "	atom.global.add.u32 %r1, [counter], 1;\n"
			  "	ret;\n"
			  "}\n"
			  /* while (!*p) */
			  ".visible .entry spin(.param .u64 spin_p)\n"
			  "{\n"
			  "	.reg .pred %p; .reg .b32 %r<2>; .reg .b64 %rd<2>;\n"
			  "	ld.param.u64 %rd1, [spin_p];\n"
			  "AGAIN:\n"
			  "	ld.volatile.global.u32 %r1, [%rd1];\n"
			  "	setp.eq.u32 %p, %r1, 0;\n"
			  "	@%p bra AGAIN;\n"
			  "	ret;\n"
			  "}\n";

/* Each test has a context of its own, so one that makes it fail disturbs no other. */
static int make_context(void **state)
{
	CUcontext context;

	assert_int_equal(cuda->cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
	*state = context;
	return 0;
}

static int destroy_context(void **state)
{
	assert_int_equal(cuda->cuCtxDestroy_v2(*state), CUDA_SUCCESS);
	return 0;
}

static CUdeviceptr alloc(size_t bytes)
{
	CUdeviceptr p = 0;

	assert_int_equal(cuda->cuMemAlloc_v2(&p, bytes), CUDA_SUCCESS);
	assert_int_equal(p % 256, 0);
	return p;
}

static CUmodule load(void)
{
	CUmodule module;

	assert_int_equal(cuda->cuModuleLoadData(&module, ptx), CUDA_SUCCESS);
	return module;
}

static CUfunction function(CUmodule module, const char *name)
{
	CUfunction f;

	assert_int_equal(cuda->cuModuleGetFunction(&f, module, name), CUDA_SUCCESS);
	return f;
}

static CUstream stream(unsigned int flags)
{
	CUstream s;

	assert_int_equal(cuda->cuStreamCreateWithPriority(&s, flags, 0), CUDA_SUCCESS);
	return s;
}

static CUresult launch(CUfunction f, unsigned int grid, unsigned int block, CUstream s, void **params)
{
	return cuda->cuLaunchKernel(f, grid, 1, 1, block, 1, 1, 0, s, params, NULL);
}

static CUresult launch_store(CUfunction f, CUstream s, uint64_t address, uint32_t value)
{
	void *params[] = {&address, &value};

	return launch(f, 1, 1, s, params);
}

static void test_before_init(void **state)
{
	CUdeviceptr p;
	int n;

	assert_int_equal(cuda->cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
	assert_int_equal(cuda->cuMemAlloc_v2(&p, 4), CUDA_ERROR_NOT_INITIALIZED);
	assert_int_equal(cuda->cuDriverGetVersion(&n), CUDA_SUCCESS);
	assert_int_equal(n, 13000);
	assert_int_equal(cuda->cuInit(1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuInit(0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemAlloc_v2(&p, 4), CUDA_ERROR_INVALID_CONTEXT);
}

static void test_device(void **state)
{
	uint64_t start, length;
	size_t total;
	char name[64];
	int value;

	assert_int_equal(cuda->cuDeviceGetCount(&value), CUDA_SUCCESS);
	assert_int_equal(value, 1);
	assert_int_equal(cuda->cuDeviceGetName(name, sizeof(name), 0), CUDA_SUCCESS);
	assert_string_equal(name, "vCUDA Software GPU (3 cores)");
	assert_int_equal(cuda->cuDeviceGetName(name, sizeof(name), 1), CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(cuda->cuDeviceTotalMem_v2(&total, 0), CUDA_SUCCESS);
	assert_int_equal(total, 64 << 20);
	assert_int_equal(cuda->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0), CUDA_SUCCESS);
	assert_int_equal(value, 3);
	assert_int_equal(cuda->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0),
			 CUDA_SUCCESS);
	assert_int_equal(value, 13);
	assert_int_equal(cuda->cuDeviceGetAttribute(&value, 9999, 0), CUDA_ERROR_INVALID_VALUE);
	vcuda_cpu_address_range(&start, &length);
	assert_true(start && length >= total);
}

static void test_contexts(void **state)
{
	CUcontext first = *state, second, c;
	int active;

	assert_int_equal(cuda->cuCtxCreate_v2(&second, 0, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxGetCurrent(&c), CUDA_SUCCESS);
	assert_ptr_equal(c, second);
	assert_int_equal(cuda->cuCtxDestroy_v2(second), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxGetCurrent(&c), CUDA_SUCCESS);
	assert_ptr_equal(c, first);
	assert_int_equal(cuda->cuCtxDestroy_v2(second), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuda->cuCtxSetCurrent((CUcontext)0x1234), CUDA_ERROR_INVALID_CONTEXT);

	assert_int_equal(cuda->cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuda->cuDevicePrimaryCtxRetain(&second, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuDevicePrimaryCtxRetain(&c, 0), CUDA_SUCCESS);
	assert_ptr_equal(c, second);
	assert_int_equal(cuda->cuCtxSetCurrent(c), CUDA_SUCCESS);
	alloc(100);
	assert_int_equal(cuda->cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(cuda->cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuDevicePrimaryCtxGetState(0, NULL, &active), CUDA_SUCCESS);
	assert_false(active);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_int_equal(cuda->cuDevicePrimaryCtxRetain(&c, 0), CUDA_SUCCESS);
	assert_ptr_equal(c, second);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(cuda->cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSetCurrent(first), CUDA_SUCCESS);
}

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
	/* What is read-only to kernels faults. */
	assert_int_equal(launch_store(store, NULL, device + 4096, 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	munmap(p, 8192);
}

static void test_module(void **state)
{
	CUmodule module = load(), same;
	CUfunction f = function(module, "add");
	size_t bytes, offset, size;
	CUdeviceptr p;
	uint32_t word;
	float scale;
	int value;

	assert_int_equal(cuda->cuModuleGetFunction(&f, module, "subtract"), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuda->cuModuleGetGlobal_v2(&p, &bytes, module, "counter"), CUDA_SUCCESS);
	assert_int_equal(bytes, 4);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&word, p, 4), CUDA_SUCCESS);
	assert_int_equal(word, 7);
	assert_int_equal(cuda->cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(launch(function(module, "count"), 5, 64, NULL, NULL), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&word, p, 4), CUDA_SUCCESS);
	assert_int_equal(word, 7 + 5 * 64);
	/* A static variable is found as well. */
	assert_int_equal(cuda->cuModuleGetGlobal_v2(&p, NULL, module, "scale"), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&scale, p, 4), CUDA_SUCCESS);
	assert_true(scale == 1.5f);
	assert_int_equal(cuda->cuModuleGetGlobal_v2(&p, NULL, module, "nothing"), CUDA_ERROR_NOT_FOUND);

	assert_int_equal(cuda->cuFuncGetParamInfo(f, 2, &offset, &size), CUDA_SUCCESS);
	assert_int_equal(offset, 16);
	assert_int_equal(size, 4);
	assert_int_equal(cuda->cuFuncGetParamInfo(f, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuFuncGetModule(&same, f), CUDA_SUCCESS);
	assert_ptr_equal(same, module);
	assert_int_equal(cuda->cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f), CUDA_SUCCESS);
	assert_int_equal(value, 1024);
	assert_int_equal(cuda->cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 300000),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000),
			 CUDA_SUCCESS);
	assert_int_equal(cuda->cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&value, f, 256, 100000, 0),
			 CUDA_SUCCESS);
	assert_int_equal(value, 2);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(launch(f, 1, 1, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
}

/* Kernels' malloc() and free(): kept from launch to launch, limited, and whatever is no block of it faults. */
static const char heap_ptx[] =
	".version 8.0\n.target sm_75\n.address_size 64\n"
	".extern .func (.param .b64 r) malloc(.param .b64 n);\n.extern .func free(.param .b64 p);\n"
	".visible .entry take(.param .u64 out, .param .u64 bytes)\n{\n.reg .b32 %r<4>;\n.reg .b64 %l<8>;\n.reg .pred %p;\n"
	"ld.param.u64 %l1, [out];\nld.param.u64 %l2, [bytes];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %l3, %r1, 8;\n"
	"add.s64 %l3, %l1, %l3;\n{\n.param .b64 a;\n.param .b64 b;\nst.param.b64 [a], %l2;\ncall (b), malloc, (a);\n"
	"ld.param.b64 %l4, [b];\n}\nst.global.u64 [%l3], %l4;\nsetp.eq.u64 %p, %l4, 0;\n@%p bra $end;\n"
	"add.s64 %l5, %l4, %l2;\nst.u32 [%l4], %r1;\nst.u8 [%l5+-1], %r1;\n$end:\nret;\n}\n"
	".visible .entry give(.param .u64 in)\n{\n.reg .b32 %r<4>;\n.reg .b64 %l<8>;\n"
	"ld.param.u64 %l1, [in];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %l3, %r1, 8;\n"
	"add.s64 %l3, %l1, %l3;\nld.global.u64 %l4, [%l3];\n{\n.param .b64 a;\nst.param.b64 [a], %l4;\n"
	"call free, (a);\n}\nret;\n}\n";

static unsigned int taken(CUfunction take, CUdeviceptr out, uint64_t bytes, uint64_t *pointers)
{
	void *params[] = {&out, &bytes};
	unsigned int count = 0;

	assert_int_equal(launch(take, 1, 64, NULL, params), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(pointers, out, 512), CUDA_SUCCESS);
	for (unsigned int n = 0; n < 64; n++) {
		count += pointers[n] != 0;
		assert_int_equal(pointers[n] % 16, 0);
		for (unsigned int other = 0; other < n; other++)
			assert_true(!pointers[n] || !pointers[other] || pointers[n] >= pointers[other] + bytes ||
				    pointers[other] >= pointers[n] + bytes);
	}
	return count;
}

static void test_heap(void **state)
{
	uint64_t pointers[64];
	CUfunction take, give;
	CUdeviceptr out = alloc(sizeof(pointers));
	void *params[] = {&out};
	CUmodule module;

	assert_int_equal(cuda->cuModuleLoadData(&module, heap_ptx), CUDA_SUCCESS);
	take = function(module, "take");
	give = function(module, "give");
	assert_int_equal(cuda->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 4 << 20), CUDA_SUCCESS);
	assert_int_equal(taken(take, out, 40, pointers), 64);
	/* it is there now */
	assert_int_equal(cuda->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 << 20), CUDA_ERROR_INVALID_VALUE);
	for (unsigned int round = 0; round < 3; round++) {
		assert_int_equal(launch(give, 1, 64, NULL, params), CUDA_SUCCESS);
		assert_int_equal(taken(take, out, 100000, pointers), (4 << 20) / 100000);
	}
	assert_int_equal(launch(give, 1, 64, NULL, params), CUDA_SUCCESS);
	assert_int_equal(taken(take, out, 1ull << 40, pointers), 0);
	assert_int_equal(launch(give, 1, 64, NULL, params), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	pointers[0] = out;
	assert_int_equal(cuda->cuMemcpyHtoD_v2(out, pointers, 8), CUDA_SUCCESS);
	assert_int_equal(launch(give, 1, 1, NULL, params), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void test_images(void **state)
{
	static const char elf[64] = "\177ELF";
	uint64_t fatbin[16 + sizeof(ptx) / 8] = {0xba55ed50ull | 1ull << 32 | 16ull << 48,
						 64 + (sizeof(ptx) + 7) / 8 * 8};
	uint32_t *entry = (uint32_t *)&fatbin[2];
	size_t bytes = 16 + (size_t)fatbin[1];
	CUlibrary library;
	CUmodule module;
	CUkernel kernel;

	assert_int_equal(cuda->cuModuleLoadData(&module, elf), CUDA_ERROR_NO_BINARY_FOR_GPU);
	assert_int_equal(cuda->cuModuleLoadData(&module, "hello, this is no program\n"), CUDA_ERROR_INVALID_PTX);
	assert_int_equal(cuda->cuModuleLoadData(&module, NULL), CUDA_ERROR_INVALID_VALUE);
	/* A bound cuts a text off: what is left is not PTX. */
	vcuda_cpu_set_image_bound(20);
	assert_int_equal(cuda->cuModuleLoadData(&module, "hello, this is no program\n"), CUDA_ERROR_INVALID_PTX);

	entry[0] = 1 | 0x101 << 16;
	entry[1] = 64;
	entry[2] = (uint32_t)(fatbin[1] - 64);
	entry[7] = 75;
	memcpy(&fatbin[10], ptx, sizeof(ptx));
	assert_int_equal(cuda->cuModuleLoadData(&module, fatbin), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	vcuda_cpu_set_image_bound(bytes - 1);
	assert_int_equal(cuda->cuModuleLoadData(&module, fatbin), CUDA_ERROR_INVALID_IMAGE);
	vcuda_cpu_set_image_bound(bytes);
	assert_int_equal(cuda->cuLibraryLoadData(&library, fatbin, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLibraryGetKernel(&kernel, library, "nothing"), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuda->cuLibraryUnload(library), CUDA_SUCCESS);
	entry[7] = 131; /* newer than the device */
	assert_int_equal(cuda->cuModuleLoadData(&module, fatbin), CUDA_ERROR_NO_BINARY_FOR_GPU);
	entry[7] = 75;
	entry[0] = 2 | 0x101 << 16;
	assert_int_equal(cuda->cuModuleLoadData(&module, fatbin), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

/* A container with one entry, as nvcc makes them. */
struct container {
	uint64_t magic, bytes;
	uint32_t entry[16];
	char text[(sizeof(ptx) + 8) & ~(size_t)7];
};

static struct container container(unsigned int kind, const char *text)
{
	struct container c = {.magic = 0xba55ed50ull | 1ull << 32 | 16ull << 48, .bytes = sizeof(c) - 16};

	c.entry[0] = kind | 0x101 << 16;
	c.entry[1] = 64;
	c.entry[2] = sizeof(c.text);
	c.entry[7] = 75;
	strcpy(c.text, text);
	return c;
}

/* Code that a device linker made, with what it was made from behind it. */
static void test_linked_images(void **state)
{
	struct container image[2] = {container(2, "\177ELF"), container(1, ptx)};
	CUmodule module;
	CUdeviceptr p;

	vcuda_cpu_set_image_bound(sizeof(image[0]));
	assert_int_equal(cuda->cuModuleLoadData(&module, image), CUDA_ERROR_NO_BINARY_FOR_GPU);
	vcuda_cpu_set_image_bound(sizeof(image));
	assert_int_equal(cuda->cuModuleLoadData(&module, image), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleGetGlobal_v2(&p, NULL, module, "counter"), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	/* if that is PTX, what it was made from does not count */
	image[0] = container(1, ".version 8.0\n.target sm_75\n.address_size 64\n.visible .global .u32 other;\n");
	vcuda_cpu_set_image_bound(sizeof(image));
	assert_int_equal(cuda->cuModuleLoadData(&module, image), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleGetGlobal_v2(&p, NULL, module, "other"), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleGetGlobal_v2(&p, NULL, module, "counter"), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
}

static void test_library(void **state)
{
	CUdeviceptr p, q;
	CUlibrary library;
	CUkernel kernel;
	CUmodule module;
	CUfunction f;
	CUcontext other;
	uint32_t word;
	int value;

	assert_int_equal(cuda->cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLibraryGetKernel(&kernel, library, "count"), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLibraryGetGlobal(&p, NULL, library, "counter"), CUDA_SUCCESS);
	assert_int_equal(launch((CUfunction)kernel, 2, 32, NULL, NULL), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&word, p, 4), CUDA_SUCCESS);
	assert_int_equal(word, 7 + 64);
	assert_int_equal(cuda->cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536, kernel, 0),
			 CUDA_SUCCESS);
	assert_int_equal(cuda->cuLibraryGetModule(&module, library), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_ERROR_NOT_PERMITTED);

	/* Another context has variables of its own, and the kernel's attribute. */
	assert_int_equal(cuda->cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLibraryGetGlobal(&q, NULL, library, "counter"), CUDA_SUCCESS);
	assert_true(p != q);
	assert_int_equal(launch((CUfunction)kernel, 1, 1, NULL, NULL), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&word, q, 4), CUDA_SUCCESS);
	assert_int_equal(word, 8);
	assert_int_equal(cuda->cuKernelGetFunction(&f, kernel), CUDA_SUCCESS);
	assert_int_equal(cuda->cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f),
			 CUDA_SUCCESS);
	assert_int_equal(value, 65536);
	assert_int_equal(cuda->cuCtxDestroy_v2(other), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&word, p, 4), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLibraryUnload(library), CUDA_SUCCESS);
	assert_int_equal(launch((CUfunction)kernel, 1, 1, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&word, p, 4), CUDA_ERROR_INVALID_VALUE);
}

static void test_launch(void **state)
{
	enum { N = 100000 };
	static float a[N], b[N];
	CUmodule module = load();
	CUfunction add = function(module, "add");
	CUdeviceptr da = alloc(sizeof(a)), db = alloc(sizeof(b));
	int n = N;
	void *params[] = {&da, &db, &n};
	struct {
		CUdeviceptr a, b;
		int n;
	} packed = {da, db, N};
	size_t bytes = sizeof(packed);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			 CU_LAUNCH_PARAM_END};

	for (int i = 0; i < N; i++) {
		a[i] = (float)i;
		b[i] = 2.0f * (float)i;
	}
	assert_int_equal(cuda->cuMemcpyHtoD_v2(da, a, sizeof(a)), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyHtoD_v2(db, b, sizeof(b)), CUDA_SUCCESS);
	assert_int_equal(launch(add, (N + 255) / 256, 256, NULL, params), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLaunchKernel(add, (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, NULL, extra),
			 CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(a, da, sizeof(a)), CUDA_SUCCESS);
	for (int i = 0; i < N; i++)
		assert_true(a[i] == 5.0f * (float)i);

	assert_int_equal(launch(add, 1, 4096, NULL, params), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(launch(add, 0, 32, NULL, params), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuLaunchKernel(add, 1, 70000, 1, 32, 1, 1, 0, NULL, params, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuLaunchKernel(add, 1, 1, 1, 32, 33, 1, 0, NULL, params, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuLaunchKernel(add, 1, 1, 1, 1, 1, 65, 0, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 300000, NULL, params, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, params, extra),
			 CUDA_ERROR_INVALID_VALUE);
	bytes = 12;
	assert_int_equal(cuda->cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(launch((CUfunction)(uintptr_t)&make_context, 1, 32, NULL, params), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(launch(add, 1, 32, (CUstream)0x2, params), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
}

/* A word that the host and kernels share. */
static uint32_t *shared_word(void)
{
	uint32_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_int_equal(cuda->cuMemHostRegister_v2(p, 4096, 0), CUDA_SUCCESS);
	return p;
}

static CUresult launch_spin(CUfunction f, CUstream s, uint32_t *word)
{
	uint64_t address = (uint64_t)(uintptr_t)word;
	void *params[] = {&address};

	return launch(f, 1, 1, s, params);
}

static void open_gate(uint32_t *word)
{
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
}

static void test_streams(void **state)
{
	CUmodule module = load();
	CUfunction spin = function(module, "spin"), store = function(module, "store");
	CUstream a = stream(CU_STREAM_DEFAULT), b = stream(CU_STREAM_NON_BLOCKING);
	uint32_t *gate = shared_word(), value;
	CUdeviceptr p = alloc(16);
	unsigned int flags;
	int priority;

	assert_int_equal(cuda->cuStreamGetFlags(b, &flags), CUDA_SUCCESS);
	assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
	assert_int_equal(cuda->cuStreamGetPriority(a, &priority), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemsetD32_v2(p, 0, 4), CUDA_SUCCESS);
	/*
	 * `a` is blocked: what follows in it and in the NULL stream waits, another stream that does not block goes on.
	 */
	assert_int_equal(launch_spin(spin, a, gate), CUDA_SUCCESS);
	assert_int_equal(launch_store(store, a, p, 1), CUDA_SUCCESS);
	assert_int_equal(launch_store(store, NULL, p, 2), CUDA_SUCCESS);
	assert_int_equal(launch_store(store, a, p, 3), CUDA_SUCCESS);
	assert_int_equal(launch_store(store, b, p + 4, 4), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoHAsync_v2(&value, p + 4, 4, b), CUDA_SUCCESS);
	assert_int_equal(cuda->cuStreamSynchronize(b), CUDA_SUCCESS);
	assert_int_equal(value, 4);
	assert_int_equal(cuda->cuStreamQuery(b), CUDA_SUCCESS);
	assert_int_equal(cuda->cuStreamQuery(a), CUDA_ERROR_NOT_READY);
	assert_int_equal(cuda->cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	assert_int_equal(cuda->cuMemcpyDtoHAsync_v2(&value, p, 4, b), CUDA_SUCCESS);
	assert_int_equal(cuda->cuStreamSynchronize(b), CUDA_SUCCESS);
	assert_int_equal(value, 0);
	open_gate(gate);
	assert_int_equal(cuda->cuStreamSynchronize(a), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&value, p, 4), CUDA_SUCCESS);
	assert_int_equal(value, 3);
	assert_int_equal(cuda->cuStreamDestroy_v2(a), CUDA_SUCCESS);
	assert_int_equal(cuda->cuStreamDestroy_v2(a), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuda->cuStreamSynchronize(a), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuda->cuStreamDestroy_v2(NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuda->cuMemHostUnregister(gate), CUDA_SUCCESS);
	munmap(gate, 4096);
}

static void test_events(void **state)
{
	CUmodule module = load();
	CUfunction spin = function(module, "spin"), store = function(module, "store");
	CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream(CU_STREAM_NON_BLOCKING);
	uint32_t *gate = shared_word(), value;
	CUdeviceptr p = alloc(4);
	CUevent start, end, untimed;
	float ms = -1;

	assert_int_equal(cuda->cuEventCreate(&start, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventCreate(&end, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventQuery(start), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventSynchronize(start), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventElapsedTime_v2(&ms, start, end), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuda->cuEventRecordWithFlags((CUevent)0x99, a, 0), CUDA_ERROR_INVALID_HANDLE);

	assert_int_equal(cuda->cuMemsetD32_v2(p, 0, 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventRecordWithFlags(start, a, 0), CUDA_SUCCESS);
	assert_int_equal(launch_spin(spin, a, gate), CUDA_SUCCESS);
	assert_int_equal(launch_store(store, a, p, 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventRecordWithFlags(end, a, 0), CUDA_SUCCESS);
	/* `b` overtakes unless it waits for `end`; the wait outlives the event's next recording. */
	assert_int_equal(cuda->cuStreamWaitEvent(b, end, 0), CUDA_SUCCESS);
	assert_int_equal(launch_store(store, b, p, 2), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventSynchronize(start), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventQuery(end), CUDA_ERROR_NOT_READY);
	assert_int_equal(cuda->cuEventElapsedTime_v2(&ms, start, end), CUDA_ERROR_NOT_READY);
	assert_int_equal(cuda->cuStreamQuery(b), CUDA_ERROR_NOT_READY);
	usleep(20000);
	open_gate(gate);
	assert_int_equal(cuda->cuEventSynchronize(end), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventElapsedTime_v2(&ms, start, end), CUDA_SUCCESS);
	assert_true(ms >= 19.0f && ms < 20000.0f);
	assert_int_equal(cuda->cuEventRecordWithFlags(untimed, b, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventSynchronize(untimed), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventElapsedTime_v2(&ms, start, untimed), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&value, p, 4), CUDA_SUCCESS);
	assert_int_equal(value, 2);
	assert_int_equal(cuda->cuEventDestroy_v2(end), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventQuery(end), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuda->cuMemHostUnregister(gate), CUDA_SUCCESS);
	munmap(gate, 4096);
}

/*
 * A fault is reported when something waits, then by every call; what was queued behind it does not run; another context
 * lives.
 */
static void test_fault(void **state)
{
	CUmodule module = load();
	CUfunction store = function(module, "store"), spin = function(module, "spin");
	uint32_t *gate = shared_word(), *never = gate + 1;
	CUstream a = stream(0), b = stream(0);
	CUcontext other;
	CUdeviceptr p = alloc(4), q;
	CUevent e;

	assert_int_equal(cuda->cuEventCreate(&e, 0), CUDA_SUCCESS);
	assert_int_equal(launch_spin(spin, a, gate), CUDA_SUCCESS);
	assert_int_equal(launch_spin(spin, b, never), CUDA_SUCCESS); /* ends only because the context fails */
	assert_int_equal(launch_store(store, a, p + 4, 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventRecordWithFlags(e, a, 0), CUDA_SUCCESS);
	open_gate(gate);
	assert_int_equal(cuda->cuStreamSynchronize(a), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(cuda->cuEventQuery(e), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(cuda->cuMemAlloc_v2(&q, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(cuda->cuMemFree_v2(p), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(launch_store(store, NULL, p, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(cuda->cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
	q = alloc(4);
	assert_int_equal(cuda->cuMemsetD32_v2(q, 1, 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxDestroy_v2(other), CUDA_SUCCESS);
	/* Says the context's error, and that no kernel uses the memory any more. */
	assert_int_equal(cuda->cuMemHostUnregister(gate), CUDA_ERROR_ILLEGAL_ADDRESS);
	munmap(gate, 4096);
}

/* Memory that was freed is out of bounds to a kernel, and freeing waits for the kernel that uses it. */
static void test_use_after_free(void **state)
{
	CUmodule module = load();
	CUfunction store = function(module, "store");
	CUdeviceptr p = alloc(1 << 20);

	assert_int_equal(launch_store(store, NULL, p, 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemFree_v2(p), CUDA_SUCCESS);
	assert_int_equal(launch_store(store, NULL, p, 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void test_refused_instruction(void **state)
{
	static const char strange[] =
		".version 7.0\n.target sm_70\n.address_size 64\n"
		".visible .entry strange()\n{\n\t.reg .b32 %r<9>;\n"
		"\tmultimem.ld_reduce.relaxed.gpu.global.add.u32 %r0, [%r8];\n"
		"\tret;\n}\n";
	CUmodule module;
	CUresult result = cuda->cuModuleLoadData(&module, strange);

	/* At the load or at the launch, never with a wrong result. */
	if (result == CUDA_SUCCESS)
		result = launch(function(module, "strange"), 1, 32, NULL, NULL);
	assert_true(result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_INVALID_PTX);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
}

struct job {
	pthread_t thread;
	CUcontext context;
	CUfunction add;
	unsigned int number;
	bool ok;
};

/* Copies, kernels, events and allocations of one thread in a stream of its own. */
static void *run_job(void *argument)
{
	enum { N = 1000, ROUNDS = 60 };
	struct job *job = argument;
	float a[N], b[N], out[N];
	CUstream s;
	CUevent e;
	bool ok = cuda->cuCtxSetCurrent(job->context) == CUDA_SUCCESS;

	ok = ok && cuda->cuStreamCreateWithPriority(&s, job->number % 2, -(int)job->number) == CUDA_SUCCESS;
	ok = ok && cuda->cuEventCreate(&e, 0) == CUDA_SUCCESS;
	for (int round = 0; ok && round < ROUNDS; round++) {
		CUdeviceptr da = 0, db = 0;
		int n = N;
		void *params[] = {&da, &db, &n};

		for (int i = 0; i < N; i++) {
			a[i] = (float)(i + round);
			b[i] = (float)job->number;
		}
		ok = ok && cuda->cuMemAlloc_v2(&da, sizeof(a)) == CUDA_SUCCESS;
		ok = ok && cuda->cuMemAlloc_v2(&db, sizeof(b)) == CUDA_SUCCESS;
		ok = ok && cuda->cuMemcpyHtoDAsync_v2(da, a, sizeof(a), s) == CUDA_SUCCESS;
		ok = ok && cuda->cuMemcpyHtoDAsync_v2(db, b, sizeof(b), s) == CUDA_SUCCESS;
		for (int i = 0; i < 3; i++)
			ok = ok && launch(job->add, 8, 128, s, params) == CUDA_SUCCESS;
		ok = ok && cuda->cuEventRecordWithFlags(e, s, 0) == CUDA_SUCCESS;
		ok = ok && cuda->cuMemcpyDtoHAsync_v2(out, da, sizeof(out), s) == CUDA_SUCCESS;
		ok = ok && cuda->cuEventSynchronize(e) == CUDA_SUCCESS;
		ok = ok && cuda->cuStreamSynchronize(s) == CUDA_SUCCESS;
		for (int i = 0; ok && i < N; i++)
			ok = out[i] == (float)(i + round + 3 * (int)job->number);
		ok = ok && cuda->cuMemFree_v2(da) == CUDA_SUCCESS;
		ok = ok && cuda->cuMemFree_v2(db) == CUDA_SUCCESS;
	}
	ok = ok && cuda->cuEventDestroy_v2(e) == CUDA_SUCCESS;
	ok = ok && cuda->cuStreamDestroy_v2(s) == CUDA_SUCCESS;
	job->ok = ok;
	return NULL;
}

static void test_threads(void **state)
{
	CUfunction add = function(load(), "add");
	struct job jobs[4];

	for (unsigned int i = 0; i < 4; i++) {
		jobs[i] = (struct job){.context = *state, .add = add, .number = i};
		assert_int_equal(pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]), 0);
	}
	for (unsigned int i = 0; i < 4; i++) {
		pthread_join(jobs[i].thread, NULL);
		assert_true(jobs[i].ok);
	}
}

/* Two kernels that need each other: one waits for what the other stores, from streams of two threads. */
struct storer {
	CUcontext context;
	CUfunction store;
	uint32_t *word;
	bool ok;
};

static void *run_store(void *argument)
{
	struct storer *storer = argument;
	CUstream s;

	storer->ok = cuda->cuCtxSetCurrent(storer->context) == CUDA_SUCCESS &&
		     cuda->cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS &&
		     launch_store(storer->store, s, (uint64_t)(uintptr_t)storer->word, 1) == CUDA_SUCCESS &&
		     cuda->cuStreamSynchronize(s) == CUDA_SUCCESS;
	return NULL;
}

static void test_concurrent_kernels(void **state)
{
	CUmodule module = load();
	struct storer storer = {*state, function(module, "store"), shared_word(), false};
	CUstream s = stream(CU_STREAM_NON_BLOCKING);
	pthread_t thread;

	assert_int_equal(launch_spin(function(module, "spin"), s, storer.word), CUDA_SUCCESS);
	assert_int_equal(pthread_create(&thread, NULL, run_store, &storer), 0);
	pthread_join(thread, NULL);
	assert_true(storer.ok);
	assert_int_equal(cuda->cuStreamSynchronize(s), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemHostUnregister(storer.word), CUDA_SUCCESS);
	munmap(storer.word, 4096);
}

/* More kernels wait than the device has cores, for one that comes last; the host does not help. */
static void test_more_kernels_than_workers(void **state)
{
	enum { KERNELS = 9 };
	CUmodule module = load();
	CUfunction spin = function(module, "spin"), store = function(module, "store");
	uint32_t *gate = shared_word(), seen = 0;
	CUstream streams[KERNELS], last = stream(CU_STREAM_NON_BLOCKING);
	CUresult result = CUDA_ERROR_NOT_READY;

	for (int n = 0; n < KERNELS; n++) {
		streams[n] = stream(CU_STREAM_NON_BLOCKING);
		assert_int_equal(launch_spin(spin, streams[n], gate), CUDA_SUCCESS);
	}
	assert_int_equal(cuda->cuMemcpyDtoHAsync_v2(&seen, alloc(4), 4, last), CUDA_SUCCESS);
	assert_int_equal(launch_store(store, last, (uint64_t)(uintptr_t)gate, 1), CUDA_SUCCESS);
	for (int n = 0; n < KERNELS; n++) {
		for (int ms = 0; ms < 60000 && (result = cuda->cuStreamQuery(streams[n])) == CUDA_ERROR_NOT_READY; ms++)
			usleep(1000);
		assert_int_equal(result, CUDA_SUCCESS);
	}
	assert_int_equal(cuda->cuMemHostUnregister(gate), CUDA_SUCCESS);
	munmap(gate, 4096);
}

/* All that a block can have, if the function says so first: 227 KiB, of which each byte is there and the next is not. */
static void test_dynamic_shared(void **state)
{
	static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
				   ".extern .shared .align 16 .b8 room[];\n"
				   ".visible .entry last(.param .u64 last_p, .param .u32 last_at)\n{\n"
				   "	.reg .b32 %r<6>; .reg .b64 %rd<2>;\n	ld.param.u64 %rd1, [last_p];\n"
				   "	ld.param.u32 %r1, [last_at];\n	mov.u32 %r2, room;\n	add.s32 %r2, %r2, %r1;\n"
				   "	st.shared.u32 [%r2], %r1;\n	bar.sync 0;\n	ld.shared.u32 %r3, [%r2];\n"
				   "	mov.u32 %r4, %dynamic_smem_size;\n	add.s32 %r3, %r3, %r4;\n"
				   "	st.global.u32 [%rd1], %r3;\n	ret;\n}\n";
	CUdeviceptr p = alloc(4);
	unsigned int most, usual, at, value;
	void *params[] = {&p, &at};
	CUmodule module;
	CUfunction f;
	size_t room;
	int blocks;

	assert_int_equal(cuda->cuDeviceGetAttribute((int *)&usual, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 0),
			 CUDA_SUCCESS);
	assert_int_equal(
		cuda->cuDeviceGetAttribute((int *)&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0),
		CUDA_SUCCESS);
	assert_int_equal(usual, 48 << 10);
	assert_int_equal(most, 227 << 10);
	assert_int_equal(cuda->cuModuleLoadData(&module, text), CUDA_SUCCESS);
	f = function(module, "last");
	at = usual - 4;
	assert_int_equal(cuda->cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, usual, NULL, params, NULL), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, usual + 1, NULL, params, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)most + 1),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)most),
			 CUDA_SUCCESS);
	assert_int_equal(
		cuda->cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, f, 64, most, 0), CUDA_SUCCESS);
	assert_int_equal(blocks, 1);
	assert_int_equal(cuda->cuOccupancyAvailableDynamicSMemPerBlock(&room, f, 1, 64), CUDA_SUCCESS);
	assert_int_equal(room, most);
	at = most - 4;
	assert_int_equal(cuda->cuLaunchKernel(f, 5, 1, 1, 64, 1, 1, most, NULL, params, NULL), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&value, p, 4), CUDA_SUCCESS);
	assert_int_equal(value, at + most);
	at = most;
	assert_int_equal(cuda->cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, most, NULL, params, NULL), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static int attribute(CUdevice_attribute which)
{
	int value = -1;

	assert_int_equal(cuda->cuDeviceGetAttribute(&value, which, 0), CUDA_SUCCESS);
	return value;
}

/* What the device says fits together, and a cooperative launch of just as many blocks as it says is one that ends. */
static void test_cooperative(void **state)
{
	static const char text[] =
		".version 7.0\n.target sm_70\n.address_size 64\n"
		".visible .entry meet(.param .u64 meet_p)\n{\n"
		"	.reg .pred %p; .reg .b32 %r<8>; .reg .b64 %rd<4>;\n	ld.param.u64 %rd1, [meet_p];\n"
		"	mov.u32 %r1, %envreg1;\n	mov.u32 %r2, %envreg2;\n	mov.b64 %rd2, {%r2, %r1};\n"
		"	mov.u32 %r3, %tid.x;\n	setp.ne.u32 %p, %r3, 0;\n	@%p bra MET;\n"
		"	mov.u32 %r4, %nctaid.x;\n	atom.global.add.u32 %r5, [%rd2+4], 1;\n"
		"SPIN:\n	ld.acquire.gpu.u32 %r5, [%rd2+4];\n	setp.lt.u32 %p, %r5, %r4;\n	@%p bra SPIN;\n"
		"MET:\n	bar.sync 0;\n	atom.global.add.u32 %r6, [%rd1], 1;\n	ret;\n}\n";
	unsigned int cores = (unsigned int)attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), sum;
	CUdeviceptr p = alloc(4);
	void *params[] = {&p};
	CUmodule module;
	CUfunction f;
	int blocks;

	assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH), 1);
	assert_true(attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK) <=
		    attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR));
	assert_true(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) +
			    attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK) <=
		    attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
	assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT), 0);
	assert_int_equal(cuda->cuModuleLoadData(&module, text), CUDA_SUCCESS);
	f = function(module, "meet");
	for (unsigned int threads = 32; threads <= 1024; threads *= 4) {
		assert_int_equal(
			cuda->cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, f, (int)threads, 0, 0),
			CUDA_SUCCESS);
		assert_in_range(blocks, 1, attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR));
		assert_int_equal(cuda->cuMemsetD32_v2(p, 0, 1), CUDA_SUCCESS);
		assert_int_equal(cuda->cuLaunchCooperativeKernel(f, cores * (unsigned int)blocks + 1, 1, 1, threads, 1, 1, 0,
								 NULL, params),
				 CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
		assert_int_equal(cuda->cuLaunchCooperativeKernel(f, cores * (unsigned int)blocks, 1, 1, threads, 1, 1, 0,
								 NULL, params),
				 CUDA_SUCCESS);
		assert_int_equal(cuda->cuMemcpyDtoH_v2(&sum, p, 4), CUDA_SUCCESS);
		assert_int_equal(sum, cores * (unsigned int)blocks * threads);
	}
}

int main(void)
{
#define IN_CONTEXT(test) cmocka_unit_test_setup_teardown(test, make_context, destroy_context)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_before_init),
		cmocka_unit_test(test_device),
		IN_CONTEXT(test_contexts),
		IN_CONTEXT(test_memory),
		IN_CONTEXT(test_copies),
		IN_CONTEXT(test_memsets),
		IN_CONTEXT(test_host_memory),
		IN_CONTEXT(test_module),
		IN_CONTEXT(test_heap),
		IN_CONTEXT(test_images),
		IN_CONTEXT(test_linked_images),
		IN_CONTEXT(test_library),
		IN_CONTEXT(test_launch),
		IN_CONTEXT(test_streams),
		IN_CONTEXT(test_events),
		IN_CONTEXT(test_fault),
		IN_CONTEXT(test_use_after_free),
		IN_CONTEXT(test_refused_instruction),
		IN_CONTEXT(test_threads),
		IN_CONTEXT(test_concurrent_kernels),
		IN_CONTEXT(test_more_kernels_than_workers),
		IN_CONTEXT(test_dynamic_shared),
		IN_CONTEXT(test_cooperative),
	};

	/* A lost wake-up shows as a hang: the test ends all the same. */
	alarm(120);
	setenv("VCUDA_CPU_MEMORY", "64M", 1);
	setenv("VCUDA_CPU_THREADS", "3", 1);
	unsetenv("VCUDA_CPU_COMPUTE");
	cuda = vcuda_backend_cpu();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
