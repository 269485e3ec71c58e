/* SPDX-License-Identifier: Apache-2.0 */
/* The software GPU through its table of driver functions: what a program of one process sees of it. */
#include "softgpu/test/backend-cpu-test.h"

#include <stdlib.h>

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
	assert_int_equal(value, 8);
	assert_int_equal(cuda->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0),
			 CUDA_SUCCESS);
	assert_int_equal(value, 0);
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

static int attribute(CUdevice_attribute which)
{
	int value = -1;

	assert_int_equal(cuda->cuDeviceGetAttribute(&value, which, 0), CUDA_SUCCESS);
	return value;
}

/* The reported attributes are consistent, and a cooperative launch of the largest reported size ends. */
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
		assert_int_equal(cuda->cuLaunchCooperativeKernel(f, cores * (unsigned int)blocks + 1, 1, 1, threads, 1,
								 1, 0, NULL, params),
				 CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
		assert_int_equal(cuda->cuLaunchCooperativeKernel(f, cores * (unsigned int)blocks, 1, 1, threads, 1, 1,
								 0, NULL, params),
				 CUDA_SUCCESS);
		assert_int_equal(cuda->cuMemcpyDtoH_v2(&sum, p, 4), CUDA_SUCCESS);
		assert_int_equal(sum, cores * (unsigned int)blocks * threads);
	}
}

/* All that a block can have, if the function says so first: 99 KiB, of which each byte is there and the next is not. */
static void test_dynamic_shared(void **state)
{
	static const char text[] =
		".version 7.0\n.target sm_70\n.address_size 64\n"
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
	assert_int_equal(most, 163 << 10);
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
	assert_int_equal(cuda->cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, f, 64, most, 0),
			 CUDA_SUCCESS);
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

/* chain(p): block b waits in a loop around a loop until p[b + 1] is set, and sets p[b]; the last one waits for none. */
static const char chain_ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n.extern .shared .align 4 .b8 room[];\n"
	".visible .entry chain(.param .u64 p)\n{\n.reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<8>;\n"
	"ld.param.u64 %rd1, [p];\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %nctaid.x;\nadd.u32 %r3, %r1, 1;\n"
	"mul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd2, %rd1, %rd2;\nmov.u32 %r8, 1;\n"
	"WAIT:\nmov.u32 %r4, 0;\nmov.u32 %r5, %r3;\n"
	"NEXT:\nsetp.ge.u32 %p1, %r5, %r2;\n@%p1 bra LOOKED;\n"
	"mul.wide.u32 %rd3, %r5, 4;\nadd.u64 %rd3, %rd1, %rd3;\nld.volatile.global.u32 %r6, [%rd3];\n"
	"setp.eq.u32 %p2, %r6, 0;\nselp.u32 %r4, 1, %r4, %p2;\nadd.u32 %r5, %r5, %r2;\nbra NEXT;\n"
	"LOOKED:\nsetp.ne.u32 %p3, %r4, 0;\n@%p3 bra WAIT;\n"
	"st.volatile.global.u32 [%rd2], %r8;\nret;\n}\n";

/* A plain launch of more blocks than the device is said to hold, of which each waits for the next one. */
static void test_waiting_grid(void **state)
{
	enum { SHARED = 48 << 10 };
	unsigned int blocks, *seen;
	int processors, most;
	CUmodule module;
	CUfunction f;
	CUdeviceptr p;

	assert_int_equal(cuda->cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0),
			 CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleLoadData(&module, chain_ptx), CUDA_SUCCESS);
	f = function(module, "chain");
	assert_int_equal(cuda->cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&most, f, 32, SHARED, 0),
			 CUDA_SUCCESS);
	blocks = 2 * (unsigned int)(processors * most) + 3;
	p = alloc(blocks * 4);
	assert_int_equal(cuda->cuMemsetD32_v2(p, 0, blocks), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLaunchKernel(f, blocks, 1, 1, 32, 1, 1, SHARED, NULL, (void *[]){&p}, NULL),
			 CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	seen = calloc(blocks, 4);
	assert_non_null(seen);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(seen, p, blocks * 4), CUDA_SUCCESS);
	for (unsigned int i = 0; i < blocks; i++)
		assert_int_equal(seen[i], 1);
	free(seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_before_init), cmocka_unit_test(test_device), IN_CONTEXT(test_contexts),
		IN_CONTEXT(test_dynamic_shared),    IN_CONTEXT(test_cooperative),  IN_CONTEXT(test_waiting_grid),
	};

	start_device();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
