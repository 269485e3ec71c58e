/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits that devices report, by compute capability, fit together, and as many blocks fit a multiprocessor as
 * NVIDIA's calculator of occupancy says: by a record, and by the calculator itself where its header is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* ---- blocks on a multiprocessor ---- */

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

struct load {
	int registers, threads, shared; /* of a thread, of a block, dynamic bytes of a block */
};

/* By threads and blocks, by registers, by shared memory. */
static const struct load loads[] = {
	{16, 1, 0},     {16, 33, 0},    {32, 64, 0},     {32, 768, 0},    {32, 1024, 0},
	{40, 33, 0},    {40, 96, 0},    {40, 320, 0},    {48, 192, 0},    {56, 640, 0},
	{64, 512, 0},   {64, 1000, 0},  {64, 33, 0},     {56, 1024, 0},   {16, 64, 1000},
	{16, 32, 3000}, {16, 32, 5001}, {32, 96, 12345}, {32, 96, 16384}, {64, 256, 49152},
};

/* The results of NVIDIA's calculator (CUDA 13.0), recorded by `test-limits --record`. */
static const struct recorded {
	unsigned int capability;
	int blocks[COUNT(loads)];
} recorded[] = {
	{30, {16, 16, 16, 2, 2, 16, 16, 4, 6, 1, 2, 1, 16, 1, 16, 16, 9, 3, 3, 1}},
	{32, {16, 16, 16, 2, 2, 16, 16, 4, 6, 0, 2, 0, 16, 0, 16, 16, 9, 3, 3, 1}},
	{35, {16, 16, 16, 2, 2, 16, 16, 4, 6, 1, 2, 1, 16, 1, 16, 16, 9, 3, 3, 1}},
	{37, {16, 16, 16, 2, 2, 16, 16, 6, 10, 3, 4, 2, 16, 2, 16, 16, 16, 9, 7, 2}},
	{50, {32, 32, 32, 2, 2, 24, 16, 4, 6, 1, 2, 1, 16, 1, 32, 21, 12, 5, 4, 1}},
	{52, {32, 32, 32, 2, 2, 24, 16, 4, 6, 1, 2, 1, 16, 1, 32, 32, 19, 7, 6, 2}},
	{53, {32, 32, 32, 2, 2, 24, 16, 4, 6, 0, 2, 0, 16, 0, 32, 21, 12, 5, 4, 1}},
	{60, {32, 32, 32, 2, 2, 25, 16, 5, 7, 1, 2, 1, 16, 1, 32, 21, 12, 5, 4, 1}},
	{61, {32, 32, 32, 2, 2, 24, 16, 4, 6, 1, 2, 1, 16, 1, 32, 32, 19, 7, 6, 2}},
	{62, {32, 32, 32, 2, 2, 24, 16, 4, 6, 0, 2, 0, 16, 0, 32, 21, 12, 5, 4, 1}},
	{70, {32, 32, 32, 2, 2, 24, 16, 4, 6, 1, 2, 1, 16, 1, 32, 32, 19, 7, 6, 2}},
	{72, {32, 32, 32, 2, 2, 24, 16, 4, 6, 1, 2, 1, 16, 1, 32, 32, 19, 7, 6, 2}},
	{75, {16, 16, 16, 1, 1, 16, 10, 3, 5, 1, 2, 1, 16, 1, 16, 16, 12, 5, 4, 1}},
	{80, {32, 32, 32, 2, 2, 24, 16, 4, 6, 1, 2, 1, 16, 1, 32, 32, 27, 12, 9, 3}},
	{86, {16, 16, 16, 2, 1, 16, 16, 4, 6, 1, 2, 1, 16, 1, 16, 16, 16, 7, 5, 2}},
	{87, {16, 16, 16, 2, 1, 16, 16, 4, 6, 1, 2, 1, 16, 1, 16, 16, 16, 12, 9, 3}},
	{88, {16, 16, 16, 2, 1, 16, 16, 4, 6, 1, 2, 1, 16, 1, 16, 16, 16, 7, 5, 2}},
	{89, {24, 24, 24, 2, 1, 24, 16, 4, 6, 1, 2, 1, 16, 1, 24, 24, 16, 7, 5, 2}},
	{90, {32, 32, 32, 2, 2, 24, 16, 4, 6, 1, 2, 1, 16, 1, 32, 32, 32, 17, 13, 4}},
	{100, {32, 32, 32, 2, 2, 24, 16, 4, 6, 1, 2, 1, 16, 1, 32, 32, 32, 17, 13, 4}},
	{101, {24, 24, 24, 2, 1, 24, 16, 4, 6, 1, 2, 1, 16, 1, 24, 24, 24, 16, 13, 4}},
	{103, {32, 32, 32, 2, 2, 24, 16, 4, 6, 1, 2, 1, 16, 1, 32, 32, 32, 17, 13, 4}},
	{110, {24, 24, 24, 2, 1, 24, 16, 4, 6, 1, 2, 1, 16, 1, 24, 24, 24, 16, 13, 4}},
	{120, {24, 24, 24, 2, 1, 24, 16, 4, 6, 1, 2, 1, 16, 1, 24, 24, 16, 7, 5, 2}},
	{121, {24, 24, 24, 2, 1, 24, 16, 4, 6, 1, 2, 1, 16, 1, 24, 24, 16, 7, 5, 2}},
};

/* A kernel that names 300 registers. */
static CUfunction load_kernel(const char *directives)
{
	CUmodule module;
	CUfunction f;
	char text[200];

	snprintf(text, sizeof(text),
		 ".version 6.0\n.target sm_30\n.address_size 64\n.visible .entry k() %s\n{\n"
		 ".reg .b32 %%r<300>;\nret;\n}\n",
		 directives);
	assert_int_equal(cuda->cuModuleLoadData(&module, text), CUDA_SUCCESS);
	f = function(module, "k");
	assert_int_equal(cuda->cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
						  A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)),
			 CUDA_SUCCESS);
	return f;
}

static int registers_of(CUfunction f)
{
	int registers;

	assert_int_equal(cuda->cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, f), CUDA_SUCCESS);
	return registers;
}

/* One whose threads have so many. */
static CUfunction load_bounded(int registers)
{
	char directive[32];
	CUfunction f;

	snprintf(directive, sizeof(directive), ".maxnreg %d", registers);
	f = load_kernel(directive);
	assert_int_equal(registers_of(f), registers);
	return f;
}

static int blocks_of(CUfunction f, const struct load *load)
{
	int blocks;

	assert_int_equal(cuda->cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, f, load->threads,
										    (size_t)load->shared, 0),
			 CUDA_SUCCESS);
	return blocks;
}

static void expect(CUfunction f, const struct load *load, int expected)
{
	int blocks = blocks_of(f, load);

	if (blocks != expected)
		fail_msg("compute capability %u.%u, %d registers, %d threads, %d bytes: %d blocks and not %d",
			 capability / 10, capability % 10, load->registers, load->threads, load->shared, blocks,
			 expected);
}

/* Without directives a kernel has no more registers than its largest block may have. */
static void test_largest_block(void **state)
{
	CUfunction f = load_kernel("");

	assert_int_equal(registers_of(f), A(MAX_REGISTERS_PER_BLOCK) / 1024);
	assert_in_range(blocks_of(f, &(struct load){.threads = 1024}), 1, 2);
}

/* Later ones have no record, and neither has what no GPU is. */
static void test_recorded(void **state)
{
	for (size_t row = 0; row < COUNT(recorded); row++)
		for (size_t i = 0; recorded[row].capability == capability && i < COUNT(loads); i++)
			expect(load_bounded(loads[i].registers), &loads[i], recorded[row].blocks[i]);
}

#ifdef HAS_OCCUPANCY
static struct cudaOccDeviceProp describe_device(void)
{
	return (struct cudaOccDeviceProp){
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

static int calculate(const struct load *load)
{
	const struct cudaOccDeviceProp device = describe_device();
	const struct cudaOccDeviceState device_state = {.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT};
	const struct cudaOccFuncAttributes f = {.maxThreadsPerBlock = INT_MAX,
						.numRegs = load->registers,
						.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN,
						.maxDynamicSharedSizeBytes = device.sharedMemPerBlockOptin,
						.numBlockBarriers = 1};
	struct cudaOccResult r = {0};

	assert_int_equal(cudaOccMaxActiveBlocksPerMultiprocessor(&r, &device, &f, &device_state, load->threads,
								 (size_t)load->shared),
			 CUDA_OCC_SUCCESS);
	assert_int_equal(r.blockLimitBlocks, A(MAX_BLOCKS_PER_MULTIPROCESSOR));
	return r.activeBlocksPerMultiprocessor;
}

/* The calculator knows no later capabilities, and none without a GPU. */
static bool is_known(void)
{
	return softgpu_architecture(capability) && capability <= __CUDA_OCC_MAJOR__ * 10 + __CUDA_OCC_MINOR__;
}

static void test_calculator(void **state)
{
	const int shared[] = {0, 1000, 3000, 12345, 16 << 10, 48 << 10, A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)};
	static const int registers[] = {16, 24, 32, 40, 48, 56, 64};
	struct load load;

	for (size_t r = 0; is_known() && r < COUNT(registers); r++) {
		CUfunction f = load_bounded(registers[r]);

		load.registers = registers[r];
		for (size_t i = 0; i < COUNT(shared); i++)
			for (load.threads = 1; load.threads <= 1024; load.threads += 31) {
				load.shared = shared[i];
				expect(f, &load, calculate(&load));
			}
	}
}

static void record(void)
{
	if (!is_known())
		return;
	printf("\t{%u, {", capability);
	for (size_t i = 0; i < COUNT(loads); i++)
		printf("%s%d", i ? ", " : "", calculate(&loads[i]));
	printf("}},\n");
	fflush(stdout);
}
#else
static void record(void)
{
	fprintf(stderr, "the build found no cuda_occupancy.h\n");
}
#endif

/* In a process of its own, as the capability is chosen once. */
static int run_for(unsigned int number, bool only_record)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attributes), IN_CONTEXT(test_shared),
		IN_CONTEXT(test_largest_block),    IN_CONTEXT(test_recorded),
#ifdef HAS_OCCUPANCY
		IN_CONTEXT(test_calculator),
#endif
	};
	char text[16];

	capability = number;
	snprintf(text, sizeof(text), "%u.%u", number / 10, number % 10);
	start_device();
	setenv("VCUDA_CPU_COMPUTE", text, 1);
	if (cuda->cuInit(0) != CUDA_SUCCESS)
		return 2;
	if (only_record) {
		record();
		return 0;
	}
	return cmocka_run_group_tests_name(text, tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_table)};
	/* Some that no GPU has. */
	static const unsigned int others[] = {31, 44, 79, 91, 102, 115, 130, LAST};
	bool only_record = argc > 1 && !strcmp(argv[1], "--record");
	int failed = only_record ? 0 : cmocka_run_group_tests(tests, NULL, NULL), status;

	for (unsigned int i = FIRST; i <= LAST; i++) {
		bool is_one = softgpu_architecture(i);
		pid_t child;

		for (unsigned int k = 0; k < sizeof(others) / sizeof(others[0]); k++)
			is_one |= others[k] == i;
		if (!is_one)
			continue;
		child = fork();
		if (!child)
			_exit(run_for(i, only_record));
		failed |= waitpid(child, &status, 0) != child || status;
	}
	return failed;
}
