/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of host memory to the device that may return before they are made, which no program can observe. */
#include "test/local/api.h"
#include "test/seed.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MOST (1040 * KIB)

static CUcontext context;
static CUdeviceptr memory; /* of MOST bytes */
static CUstream blocking, other;
static cuuint32_t *word; /* the word that blocked streams wait for */
static uint8_t *pinned;  /* MOST bytes */

static const size_t sizes[] = {1,
			       7,
			       4 * KIB,
			       4 * KIB + 1,
			       32 * KIB,
			       32 * KIB + 1,
			       64 * KIB,
			       64 * KIB + 1,
			       200 * KIB + 3,
			       1024 * KIB,
			       1024 * KIB + 1};

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void fill(uint8_t *p, size_t bytes, unsigned int seed)
{
	for (size_t i = 0; i < bytes; i++)
		p[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
}

static void expect(const uint8_t *expected, size_t bytes)
{
	uint8_t *back = malloc(bytes);

	OK(cuMemcpyDtoH_v2(back, memory, bytes));
	CHECK(!memcmp(back, expected, bytes));
	free(back);
}

/* Each way to copy in, the source overwritten as soon as it may be: once with work before it and once without. */
static void copy_in(int way, const uint8_t *expected, uint8_t *source, size_t bytes, bool is_pinned)
{
	memcpy(source, expected, bytes);
	if (way == 0)
		OK(cuMemcpyHtoD_v2(memory, source, bytes));
	else if (way == 1)
		OK(cuMemcpyHtoD_v2_ptds(memory, source, bytes));
	else
		OK(cuMemcpyHtoDAsync_v2(memory, source, bytes, way == 2 ? NULL : blocking));
	if (is_pinned && way > 1)
		OK(cuCtxSynchronize());
	memset(source, 0xa5, bytes);
}

static void all_ways(uint8_t *source)
{
	uint8_t *expected = malloc(MOST);

	for (size_t i = 0; i < SIZES; i++)
		for (int way = 0; way < 4; way++)
			for (int busy = 0; busy < 2; busy++) {
				fill(expected, sizes[i], (unsigned int)(i * 8 + (size_t)way * 2 + (size_t)busy));
				OK(busy ? cuMemsetD32Async(memory, 0x11111111, MOST / 4, NULL) : cuCtxSynchronize());
				copy_in(way, expected, source, sizes[i], source == pinned);
				expect(expected, sizes[i]);
			}
	free(expected);
}

static void block(CUstream stream)
{
	__atomic_store_n(word, 0, __ATOMIC_RELEASE);
	OK(cuStreamWaitValue32_v2(stream, (CUdeviceptr)word, 1, CU_STREAM_WAIT_VALUE_EQ));
}

static void release(void)
{
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
}

/* A stream that is held up takes copies, each with what the source held at the call, and in order. */
static void behind_a_blocked_stream(void)
{
	uint8_t *source = malloc(64 * KIB), *expected = malloc(64 * KIB);

	OK(cuCtxSynchronize());
	block(other);
	for (unsigned int i = 0; i < 24; i++) {
		size_t bytes = i < 8 ? 64 * KIB : 4 * KIB;

		memset(source, (int)i + 1, bytes);
		OK(cuMemcpyHtoDAsync_v2(memory, source, bytes, other));
	}
	memset(source, 0xa5, 64 * KIB);
	CHECK(cuStreamQuery(other) == CUDA_ERROR_NOT_READY);
	release();
	OK(cuStreamSynchronize(other));
	memset(expected, 8, 64 * KIB);
	memset(expected, 24, 4 * KIB);
	expect(expected, 64 * KIB);
	free(source);
	free(expected);
}

static _Atomic bool released;

static void *release_later(void *unused)
{
	usleep(50000);
	atomic_store(&released, true);
	release();
	return unused;
}

/* The synchronous function waits for the streams that the default stream waits for. */
static void after_blocking_streams(uint8_t *source, size_t bytes, CUstream stream)
{
	pthread_t thread;

	fill(source, bytes, 99);
	OK(cuCtxSynchronize());
	atomic_store(&released, false);
	block(stream);
	OK(cuMemsetD32Async(memory, 0, MOST / 4, stream));
	CHECK(!pthread_create(&thread, NULL, release_later, NULL));
	OK(cuMemcpyHtoD_v2(memory, source, bytes));
	CHECK(atomic_load(&released));
	CHECK(!pthread_join(thread, NULL));
	expect(source, bytes);
}

static _Atomic bool overtaking;

/* Waits for the default stream again and again: what it finds done may not be what others have called for meanwhile. */
static void *overtake(void *unused)
{
	uint32_t value;

	OK(cuCtxSetCurrent(context));
	while (atomic_load(&overtaking))
		OK(cuMemcpyDtoH_v2(&value, memory + MOST - 4, sizeof(value)));
	return unused;
}

/* A launch that is waited for, as the first one of a kernel is, can be overtaken by another thread's wait. */
static void behind_first_launches(void)
{
	static const char ptx[] = ".version 6.4\n.target sm_50\n.address_size 64\n"
				  ".visible .entry slow(.param .u64 p, .param .u32 n)\n{\n"
				  ".reg .u64 %a; .reg .u32 %i, %n, %x; .reg .pred %q;\n"
				  "ld.param.u64 %a, [p];\nld.param.u32 %n, [n];\nmov.u32 %i, 0;\nmov.u32 %x, 7;\n"
				  "L: mad.lo.u32 %x, %x, 1664525, 1013904223;\nadd.u32 %i, %i, 1;\n"
				  "setp.lt.u32 %q, %i, %n;\n@%q bra L;\n"
				  "or.b32 %x, %x, 1;\nst.global.u32 [%a], %x;\nret;\n}\n";
	volatile uint32_t *done;
	pthread_t thread;

	OK(cuMemHostAlloc((void **)&done, 4096, 0));
	atomic_store(&overtaking, true);
	CHECK(!pthread_create(&thread, NULL, overtake, NULL));
	for (uint32_t i = 0; i < 8; i++) {
		uint32_t n = 20000000;
		void *params[] = {(void *)&done, &n};
		CUfunction function;
		CUmodule module;

		OK(cuModuleLoadData(&module, ptx));
		OK(cuModuleGetFunction(&function, module, "slow"));
		*done = 0;
		OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
		OK(cuMemcpyHtoD_v2(memory, &i, sizeof(i)));
		CHECK(*done);
		OK(cuModuleUnload(module));
	}
	atomic_store(&overtaking, false);
	CHECK(!pthread_join(thread, NULL));
	OK(cuMemFreeHost((void *)done));
}

/*
 * Stores of the device to pinned memory are complete before the memory is copied, even if another thread sees them
 * first.
 */
static void behind_the_device(void)
{
	static const size_t bytes[] = {4, 4 * KIB, 4 * KIB + 1, 64 * KIB};
	uint8_t *expected = malloc(64 * KIB);
	pthread_t thread;

	atomic_store(&overtaking, true);
	CHECK(!pthread_create(&thread, NULL, overtake, NULL));
	for (unsigned int i = 0; i < 400; i++) {
		memset(pinned, 0, 64 * KIB);
		memset(expected, 1 + (int)(i % 255), 64 * KIB);
		OK(cuMemsetD8Async((CUdeviceptr)pinned, (unsigned char)(1 + i % 255), 64 * KIB, NULL));
		OK(cuMemcpyHtoD_v2(memory, pinned, bytes[i % 4]));
		expect(expected, bytes[i % 4]);
	}
	atomic_store(&overtaking, false);
	CHECK(!pthread_join(thread, NULL));
	free(expected);
}

/* A stream that does not wait for the default one finds what was copied before, and its work is not waited for. */
static void beside_other_streams(void)
{
	uint32_t value;

	for (uint32_t i = 0; i < 200; i++) {
		memcpy(pinned, &i, sizeof(i));
		OK(i % 4 < 2 ? cuCtxSynchronize() : CUDA_SUCCESS);
		OK(cuMemcpyHtoD_v2(memory, i % 2 ? (void *)pinned : &i, sizeof(i)));
		api_step(memory, 3, 1, other);
		OK(cuMemcpyDtoHAsync_v2(&value, memory, sizeof(value), other));
		OK(cuStreamSynchronize(other));
		CHECK(value == i * 3 + 1);
	}
	OK(cuCtxSynchronize());
	block(other);
	OK(cuMemcpyHtoD_v2(memory, &value, sizeof(value)));
	CHECK(cuStreamQuery(other) == CUDA_ERROR_NOT_READY);
	release();
	OK(cuStreamSynchronize(other));
}

/* A kernel right behind a copy, in whichever stream, finds all of it. */
static void before_kernels(uint32_t *source)
{
	CUstream streams[] = {NULL, blocking, other};
	uint32_t value;

	for (uint32_t i = 0; i < 300; i++) {
		size_t last = (i % 2 ? 64 * KIB : 4 * KIB) / sizeof(*source) - 1;
		CUdeviceptr there = memory + last * sizeof(*source);

		OK(i % 5 < 2 ? cuCtxSynchronize() : CUDA_SUCCESS);
		source[last] = i;
		OK(cuMemcpyHtoD_v2(memory, source, (last + 1) * sizeof(*source)));
		source[last] = ~i;
		api_step(there, 3, 1, streams[i % 3]);
		api_step(there, 3, 1, streams[i % 3]);
		OK(cuMemcpyDtoHAsync_v2(&value, there, sizeof(value), streams[i % 3]));
		OK(cuStreamSynchronize(streams[i % 3]));
		CHECK(value == i * 9 + 4);
	}
}

/* Work that is under way in a stream which the default one does not wait for, and is told to go on by a store of the
 * host's, finds what was copied from pinned memory before that. */
static void told_by_the_host(void)
{
	uint32_t *value = (uint32_t *)pinned;

	OK(cuCtxSynchronize());
	for (uint32_t i = 1; i < 200; i++) {
		block(other);
		OK(cuMemcpyDtoHAsync_v2(value + 1, memory, sizeof(*value), other));
		*value = 0;
		OK(cuMemcpyHtoD_v2(memory, value, sizeof(*value)));
		*value = i;
		OK(cuMemcpyHtoD_v2(memory, value, sizeof(*value)));
		release();
		OK(cuStreamSynchronize(other));
		CHECK(value[1] == i);
	}
}

/* Copies in a stream of another context than the current one are that one's. */
static void in_another_context(void)
{
	uint32_t *page, value = 77, i;
	CUcontext second;
	CUdevice device;

	OK(cuCtxGetDevice(&device));
	OK(cuMemHostAlloc((void **)&page, 4096, 0));
	OK(cuCtxCreate_v2(&second, 0, device));
	for (i = 0; i < 20; i++) {
		OK(cuCtxSetCurrent(context));
		OK(cuCtxSynchronize());
		OK(cuCtxSetCurrent(second));
		*page = i;
		OK(cuMemcpyHtoDAsync_v2(memory, page, sizeof(i), blocking));
		OK(cuMemcpyHtoDAsync_v2(memory + 4, &i, sizeof(i), blocking));
		OK(cuMemcpyDtoHAsync_v2(page + 1, memory + 4, sizeof(i), blocking));
		OK(cuCtxSetCurrent(context));
		OK(cuMemcpyHtoD_v2(memory + 8, &value, sizeof(value)));
		CHECK(page[1] == i);
		OK(cuMemcpyDtoH_v2(&value, memory, sizeof(value)));
		CHECK(value == i);
	}
	OK(cuCtxDestroy_v2(second));
	OK(cuCtxSetCurrent(context));
	OK(cuMemFreeHost(page));
}

/* An error of the copy that was not waited for is the next wait's. */
static void errors(void)
{
	static const uint8_t lots[300000];
	uint32_t value = 1;

	OK(cuCtxSynchronize());
	CHECK(cuMemcpyHtoD_v2(0x10000, &value, sizeof(value)) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemcpyHtoD_v2(memory + MOST - 2, &value, sizeof(value)) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemcpyHtoD_v2(0x10000, lots, sizeof(lots)) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemcpyHtoDAsync_v2(memory, &value, sizeof(value), (CUstream)0x77) != CUDA_SUCCESS);
	OK(cuCtxSynchronize());
}

enum { THREADS = 5, ROUNDS = 40 };

/* A copy in the default stream is visible at once to a stream that does not wait for the default stream. */
static void *copy_and_look(void *number)
{
	size_t most = 200 * KIB, seed = (uintptr_t)number;
	uint8_t *source = malloc(most), *expected = malloc(most), *back = malloc(most);
	CUdeviceptr own;
	CUstream beside;

	OK(cuCtxSetCurrent(context));
	OK(cuMemAlloc_v2(&own, most));
	OK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
	for (unsigned int i = 0; i < ROUNDS; i++) {
		size_t bytes = 1 + (seed = seed * 1103515245u + 12345) % most;

		fill(expected, bytes, (unsigned int)seed);
		memcpy(source, expected, bytes);
		if (i % 3 == 0)
			OK(cuMemsetD32Async(own, 0x22222222, 64, NULL));
		OK(cuMemcpyHtoD_v2(own, source, bytes));
		memset(source, 0xa5, bytes);
		OK(cuMemcpyDtoHAsync_v2(back, own, bytes, beside));
		OK(cuStreamSynchronize(beside));
		CHECK(!memcmp(back, expected, bytes));
	}
	OK(cuStreamDestroy_v2(beside));
	OK(cuMemFree_v2(own));
	free(source);
	free(expected);
	free(back);
	return NULL;
}

static void at_once(void)
{
	pthread_t threads[THREADS];
	uint32_t seed = test_seed();

	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, copy_and_look, (void *)(seed + i)));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

/* The last of many copies to one place stays. */
static void over_one_another(void)
{
	uint8_t *source = malloc(200 * KIB);

	OK(cuCtxSynchronize());
	for (unsigned int i = 0; i < 300; i++) {
		size_t bytes = 4 * KIB + (i * 7919 % 60) * KIB;

		memset(source, (int)i, 200 * KIB);
		OK(cuMemcpyHtoD_v2(memory, source, 64 * KIB));
		OK(cuMemcpyHtoD_v2(memory, source, bytes < 64 * KIB ? bytes : 64 * KIB));
	}
	expect(source, 64 * KIB);
	free(source);
}

static char *lazy;

static void give_page(int signal, siginfo_t *info, void *unused)
{
	char *page = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)4095);
	size_t available, total;

	(void)signal;
	(void)unused;
	if (page < lazy || page >= lazy + 512 * KIB || mprotect(page, 4096, PROT_READ | PROT_WRITE))
		_exit(1);
	OK(cuMemGetInfo_v2(&available, &total));
	OK(cuMemcpyHtoD_v2(memory + 512 * KIB, &available, sizeof(available)));
	memset(page, 1 + (int)((page - lazy) / 4096), 4096);
}

/* The application's handler makes a call of its own in the middle of ours. */
static void from_lazy_memory(void)
{
	struct sigaction action = {.sa_sigaction = give_page, .sa_flags = SA_SIGINFO}, before;
	uint8_t *expected = malloc(512 * KIB);

	lazy = mmap(NULL, 512 * KIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(lazy != MAP_FAILED && !sigaction(SIGSEGV, &action, &before));
	OK(cuCtxSynchronize());
	OK(cuMemcpyHtoD_v2(memory, lazy, 4 * KIB));
	OK(cuMemcpyHtoD_v2(memory, lazy, 64 * KIB));
	OK(cuMemcpyHtoD_v2(memory, lazy, 512 * KIB));
	CHECK(!sigaction(SIGSEGV, &before, NULL));
	for (size_t i = 0; i < 512 * KIB; i++)
		expected[i] = (uint8_t)(1 + i / 4096);
	expect(expected, 512 * KIB);
	munmap(lazy, 512 * KIB);
	free(expected);
}

void api_small_copies(void)
{
	uint8_t *pageable = malloc(MOST);

	OK(cuCtxGetCurrent(&context));
	OK(cuMemAlloc_v2(&memory, MOST));
	OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	OK(cuMemHostAlloc((void **)&word, 4096, 0));
	OK(cuMemHostAlloc((void **)&pinned, MOST, 0));
	all_ways(pageable);
	all_ways(pinned);
	behind_a_blocked_stream();
	for (size_t i = 0; i < SIZES * 2; i++) {
		after_blocking_streams(i % 2 ? pinned : pageable, sizes[i / 2], blocking);
		after_blocking_streams(i % 2 ? pinned : pageable, sizes[i / 2], NULL);
	}
	behind_first_launches();
	behind_the_device();
	beside_other_streams();
	before_kernels((uint32_t *)pageable);
	before_kernels((uint32_t *)pinned);
	told_by_the_host();
	in_another_context();
	at_once();
	over_one_another();
	errors();
	from_lazy_memory();
	free(pageable);
	OK(cuMemFreeHost(pinned));
	OK(cuMemFreeHost(word));
	OK(cuStreamDestroy_v2(other));
	OK(cuStreamDestroy_v2(blocking));
	OK(cuMemFree_v2(memory));
}
