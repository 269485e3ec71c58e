/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits that devices report, by compute capability, fit together; and NVIDIA's calculator of occupancy, where its
 * header is, finds them valid and computes as we do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend-cpu-test.h"
#include "softgpu/architecture.h"

#ifdef HAS_OCCUPANCY
#include <limits.h>

#include "cuda_occupancy.h"
#endif

/* All that VCUDA_CPU_COMPUTE accepts. */
#define FIRST 30u
#define LAST 999u

#define A(name) attribute(CU_DEVICE_ATTRIBUTE_##name)

/* The capability that all tests of this process are about. */
static unsigned int capability;

static int attribute(CUdevice_attribute which)
{
	int value;

	assert_int_equal(cuda->cuDeviceGetAttribute(&value, which, 0), CUDA_SUCCESS);
	return value;
}

static void test_table(void **state)
{
	const struct softgpu_limits *before = NULL;

	for (unsigned int i = FIRST; i <= LAST; i++) {
		const struct softgpu_limits *l = softgpu_architecture_limits(i);
		unsigned int reserved = softgpu_architecture_reserved_shared(i);

		assert_true(l->from <= i && (!before || l->from >= before->from));
		/* The rows are those of architectures, and each architecture of a row begins or continues it. */
		assert_non_null(softgpu_architecture(l->from));
		assert_true(l->block_shared_kib >= 48 &&
			    ((unsigned int)l->block_shared_kib << 10) + reserved <= (unsigned int)l->shared_kib << 10);
		assert_true(l->threads >= 1024 && l->threads % 32 == 0 && l->blocks * 32 <= l->threads);
		assert_true(l->block_registers_k <= l->registers_k && l->block_registers_k >= 32);
		before = l;
	}
}

static void test_attributes(void **state)
{
	const struct softgpu_limits *l = softgpu_architecture_limits(capability);

	assert_int_equal(A(COMPUTE_CAPABILITY_MAJOR) * 10 + A(COMPUTE_CAPABILITY_MINOR), capability);
	assert_int_equal(A(MAX_SHARED_MEMORY_PER_BLOCK), 48 << 10);
	assert_int_equal(A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), l->block_shared_kib << 10);
	assert_int_equal(A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR), l->shared_kib << 10);
	assert_int_equal(A(RESERVED_SHARED_MEMORY_PER_BLOCK), softgpu_architecture_reserved_shared(capability));
	assert_int_equal(A(MAX_THREADS_PER_MULTIPROCESSOR), l->threads);
	assert_int_equal(A(MAX_BLOCKS_PER_MULTIPROCESSOR), l->blocks);
	assert_int_equal(A(MAX_REGISTERS_PER_MULTIPROCESSOR), l->registers_k << 10);
	assert_int_equal(A(MAX_REGISTERS_PER_BLOCK), l->block_registers_k << 10);
}

/* A block may have all the shared memory that is promised, and no more. */
static void test_shared(void **state)
{
	static const char text[] = ".version 6.0\n.target sm_30\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n";
	const int most = A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
	CUmodule module;
	CUfunction f;
	size_t room;
	int blocks;

	assert_int_equal(cuda->cuModuleLoadData(&module, text), CUDA_SUCCESS);
	f = function(module, "k");
	assert_int_equal(cuda->cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most + 1),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most),
			 CUDA_SUCCESS);
	assert_int_equal(cuda->cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, (unsigned int)most, NULL, NULL, NULL), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(cuda->cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, f, 64, (size_t)most, 0),
			 CUDA_SUCCESS);
	assert_in_range(blocks, 1, A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) / most);
	assert_int_equal(cuda->cuOccupancyAvailableDynamicSMemPerBlock(&room, f, 1, 64), CUDA_SUCCESS);
	assert_int_equal(room, most);
}

#ifdef HAS_OCCUPANCY
static void fill_in(struct cudaOccDeviceProp *p)
{
	*p = (struct cudaOccDeviceProp){
		.computeMajor = A(COMPUTE_CAPABILITY_MAJOR),
		.computeMinor = A(COMPUTE_CAPABILITY_MINOR),
		.maxThreadsPerBlock = A(MAX_THREADS_PER_BLOCK),
		.maxThreadsPerMultiprocessor = A(MAX_THREADS_PER_MULTIPROCESSOR),
		.regsPerBlock = A(MAX_REGISTERS_PER_BLOCK),
		.regsPerMultiprocessor = A(MAX_REGISTERS_PER_MULTIPROCESSOR),
		.warpSize = A(WARP_SIZE),
		.sharedMemPerBlock = (size_t)A(MAX_SHARED_MEMORY_PER_BLOCK),
		.sharedMemPerMultiprocessor = (size_t)A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
		.numSms = A(MULTIPROCESSOR_COUNT),
		.sharedMemPerBlockOptin = (size_t)A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
		.reservedSharedMemPerBlock = (size_t)A(RESERVED_SHARED_MEMORY_PER_BLOCK),
	};
}

static void test_calculator(void **state)
{
	const int shared[] = {0, 1000, 16 << 10, 48 << 10, A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)};
	struct cudaOccFuncAttributes f = {.maxThreadsPerBlock = INT_MAX,
					  .numRegs = 32,
					  .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN,
					  .numBlockBarriers = 1};
	struct cudaOccDeviceState device_state = {.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT};
	struct cudaOccDeviceProp device;
	struct cudaOccResult r;
	int blocks;

	/* It knows no later ones, and none that no GPU has. */
	if (!softgpu_architecture(capability) || capability > __CUDA_OCC_MAJOR__ * 10 + __CUDA_OCC_MINOR__)
		return;
	fill_in(&device);
	f.maxDynamicSharedSizeBytes = device.sharedMemPerBlockOptin;
	for (unsigned int i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
		for (int threads = 32; threads <= 1024; threads *= 2) {
			size_t granule = capability >= 80 ? 128 : 256,
			       bytes = (size_t)shared[i] + device.reservedSharedMemPerBlock;

			assert_int_equal(cudaOccMaxActiveBlocksPerMultiprocessor(&r, &device, &f, &device_state,
										 threads, (size_t)shared[i]),
					 CUDA_OCC_SUCCESS);
			/* Our own rule. */
			blocks = A(MAX_THREADS_PER_MULTIPROCESSOR) / threads;
			if (blocks > A(MAX_BLOCKS_PER_MULTIPROCESSOR))
				blocks = A(MAX_BLOCKS_PER_MULTIPROCESSOR);
			if (blocks > A(MAX_REGISTERS_PER_MULTIPROCESSOR) / (threads * 32))
				blocks = A(MAX_REGISTERS_PER_MULTIPROCESSOR) / (threads * 32);
			bytes = (bytes + granule - 1) / granule * granule;
			if (bytes && blocks > A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) / (int)bytes)
				blocks = A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) / (int)bytes;
			assert_int_equal(r.activeBlocksPerMultiprocessor, blocks);
			assert_int_equal(r.blockLimitBlocks, A(MAX_BLOCKS_PER_MULTIPROCESSOR));
		}
}
#endif

/* In a process of its own, as the capability is chosen once. */
static int run_for(unsigned int number)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attributes),
		IN_CONTEXT(test_shared),
#ifdef HAS_OCCUPANCY
		cmocka_unit_test(test_calculator),
#endif
	};
	char text[16];

	capability = number;
	snprintf(text, sizeof(text), "%u.%u", number / 10, number % 10);
	start_device();
	setenv("VCUDA_CPU_COMPUTE", text, 1);
	if (cuda->cuInit(0) != CUDA_SUCCESS)
		return 2;
	return cmocka_run_group_tests_name(text, tests, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_table)};
	/* Some that no GPU has. */
	static const unsigned int others[] = {31, 44, 79, 91, 102, 115, 130, LAST};
	int failed = cmocka_run_group_tests(tests, NULL, NULL), status;

	for (unsigned int i = FIRST; i <= LAST; i++) {
		bool is_one = softgpu_architecture(i);
		pid_t child;

		for (unsigned int k = 0; k < sizeof(others) / sizeof(others[0]); k++)
			is_one |= others[k] == i;
		if (!is_one)
			continue;
		child = fork();
		if (!child)
			_exit(run_for(i));
		failed |= waitpid(child, &status, 0) != child || status;
	}
	return failed;
}
