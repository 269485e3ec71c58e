/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of the software GPU that wait for values in memory. */
#include "softgpu/test/backend-cpu-test.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static CUresult value(CUstream s, CUstreamBatchMemOpType type, uint64_t address, uint64_t v, unsigned int flags)
{
	CUstreamBatchMemOpParams p = {.pad = {0}};

	p.waitValue.operation = type;
	p.waitValue.address = address;
	p.waitValue.value64 = v;
	p.waitValue.flags = flags;
	return cuda->cuStreamBatchMemOp_v2(s, 1, &p, 0);
}

static CUresult wait_for(CUstream s, const void *word, uint32_t v)
{
	return value(s, CU_STREAM_MEM_OP_WAIT_VALUE_32, (uint64_t)(uintptr_t)word, v, CU_STREAM_WAIT_VALUE_EQ);
}

static CUresult put(CUstream s, const void *word, uint32_t v)
{
	return value(s, CU_STREAM_MEM_OP_WRITE_VALUE_32, (uint64_t)(uintptr_t)word, v, 0);
}

static void test_conditions(void **state)
{
	static const struct {
		bool wide;
		uint64_t now, value;
		unsigned int flags;
		bool due;
	} cases[] = {
		{false, 5, 5, CU_STREAM_WAIT_VALUE_GEQ, true},
		{false, 4, 5, CU_STREAM_WAIT_VALUE_GEQ, false},
		{false, 1, 0xffffffff, CU_STREAM_WAIT_VALUE_GEQ, true},
		{false, 0x80000005, 5, CU_STREAM_WAIT_VALUE_GEQ, false},
		{false, 0x80000004, 5, CU_STREAM_WAIT_VALUE_GEQ, true},
		{true, 0x100000000, 5, CU_STREAM_WAIT_VALUE_GEQ, true},
		{true, 0x8000000000000005, 5, CU_STREAM_WAIT_VALUE_GEQ, false},
		{false, 0x100000005, 5, CU_STREAM_WAIT_VALUE_EQ, true},
		{true, 0x100000005, 5, CU_STREAM_WAIT_VALUE_EQ, false},
		{false, 6, 1, CU_STREAM_WAIT_VALUE_AND, false},
		{false, 6, 4, CU_STREAM_WAIT_VALUE_AND, true},
		{false, 0xffff0000, 0x0000ffff, CU_STREAM_WAIT_VALUE_NOR, false},
		{false, 0xffff0000, 0x0000fff7, CU_STREAM_WAIT_VALUE_NOR, true},
		{true, 0xffffffff, 0, CU_STREAM_WAIT_VALUE_NOR, true},
	};
	uint32_t *word = shared_word();
	CUstream s = stream(CU_STREAM_NON_BLOCKING);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memcpy(word, &cases[i].now, 8);
		assert_int_equal(value(s,
				       cases[i].wide ? CU_STREAM_MEM_OP_WAIT_VALUE_64 : CU_STREAM_MEM_OP_WAIT_VALUE_32,
				       (uint64_t)(uintptr_t)word, cases[i].value, cases[i].flags),
				 CUDA_SUCCESS);
		usleep(3000);
		assert_int_equal(cuda->cuStreamQuery(s), cases[i].due ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
		/* this ends every wait */
		memcpy(word, &(uint64_t){cases[i].flags == CU_STREAM_WAIT_VALUE_NOR ? 0 : cases[i].value}, 8);
		assert_int_equal(cuda->cuStreamSynchronize(s), CUDA_SUCCESS);
	}
	assert_int_equal(cuda->cuMemHostUnregister(word), CUDA_SUCCESS);
	munmap(word, 4096);
}

/* A waiting stream holds no thread, and may wait for a word that another stream writes. */
static void test_many_waits(void **state)
{
	enum { STREAMS = 200 };
	CUmodule module = load();
	CUfunction store = function(module, "store");
	uint32_t *word = shared_word();
	CUstream streams[STREAMS], other = stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr p = alloc(4);
	uint32_t got;

	for (uint32_t n = 0; n < STREAMS; n++) {
		streams[n] = stream(CU_STREAM_NON_BLOCKING);
		assert_int_equal(wait_for(streams[n], &word[n], 1), CUDA_SUCCESS);
		/* the last one begins a row that ends with the first */
		if (n)
			assert_int_equal(put(streams[n], &word[n - 1], 1), CUDA_SUCCESS);
	}
	assert_int_equal(launch_store(store, other, p, 42), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoHAsync_v2(&got, p, 4, other), CUDA_SUCCESS);
	assert_int_equal(cuda->cuStreamSynchronize(other), CUDA_SUCCESS);
	assert_int_equal(got, 42);
	assert_int_equal(cuda->cuStreamQuery(streams[0]), CUDA_ERROR_NOT_READY);
	/* a kernel ends the wait of the last one */
	assert_int_equal(launch_store(store, other, (uint64_t)(uintptr_t)&word[STREAMS - 1], 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuStreamSynchronize(streams[0]), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemHostUnregister(word), CUDA_SUCCESS);
	munmap(word, 4096);
}

/* ---- more than can be queued ---- */

static uint32_t batches; /* number of batches that were taken */

static void *submit_much(void *stream_and_context)
{
	void **given = stream_and_context;
	const uint32_t *word = given[2];
	CUstreamBatchMemOpParams ops[255];
	CUresult result = cuda->cuCtxSetCurrent(given[1]);

	memset(ops, 0, sizeof(ops));
	for (size_t i = 0; i < 255; i++) {
		ops[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
		ops[i].writeValue.address = (uint64_t)(uintptr_t)&word[1];
	}
	for (int i = 0; i < 3000 && result == CUDA_SUCCESS; i++) {
		result = cuda->cuStreamBatchMemOp_v2(given[0], 255, ops, 0);
		__atomic_add_fetch(&batches, 1, __ATOMIC_RELAXED);
	}
	return (void *)(uintptr_t)result;
}

static uint32_t batches_now(void)
{
	return __atomic_load_n(&batches, __ATOMIC_RELAXED);
}

/* The queue behind a wait is bounded: a further submission blocks until there is room or the context ends. */
static void test_full(void **state)
{
	for (int ends = 0; ends < 2; ends++) {
		uint32_t *word;
		pthread_t thread;
		CUcontext first, c;
		void *given[3], *result;

		assert_int_equal(cuda->cuCtxCreate_v2(&first, 0, 0), CUDA_SUCCESS);
		word = shared_word();
		assert_int_equal(cuda->cuCtxCreate_v2(&c, 0, 0), CUDA_SUCCESS);
		given[0] = stream(CU_STREAM_NON_BLOCKING);
		given[1] = c;
		given[2] = word;
		__atomic_store_n(&batches, 0, __ATOMIC_RELAXED);
		assert_int_equal(wait_for(given[0], word, 1), CUDA_SUCCESS);
		assert_int_equal(pthread_create(&thread, NULL, submit_much, given), 0);
		/* of 255 operations: 2^18 or a little more */
		while (batches_now() < 1000)
			usleep(1000);
		usleep(200000);
		assert_in_range(batches_now(), 1000, 1100);
		if (!ends)
			open_gate(word);
		else
			assert_int_equal(cuda->cuCtxDestroy_v2(c), CUDA_SUCCESS);
		pthread_join(thread, &result);
		assert_int_equal((uintptr_t)result, ends ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS);
		assert_true(ends || batches_now() == 3000);
		if (!ends)
			assert_int_equal(cuda->cuCtxDestroy_v2(c), CUDA_SUCCESS);
		assert_int_equal(cuda->cuCtxSetCurrent(first), CUDA_SUCCESS);
		assert_int_equal(cuda->cuMemHostUnregister(word), CUDA_SUCCESS);
		munmap(word, 4096);
		assert_int_equal(cuda->cuCtxDestroy_v2(first), CUDA_SUCCESS);
	}
}

/* A context ends although a stream of it waits for ever; the work behind the wait is not done. */
static void test_end(void **state)
{
	CUcontext first, second;
	uint32_t *word;
	CUstream s;

	assert_int_equal(cuda->cuCtxCreate_v2(&first, 0, 0), CUDA_SUCCESS);
	word = shared_word();
	assert_int_equal(cuda->cuCtxCreate_v2(&second, 0, 0), CUDA_SUCCESS);
	s = stream(CU_STREAM_DEFAULT);
	assert_int_equal(wait_for(s, &word[0], 1), CUDA_SUCCESS);
	assert_int_equal(put(s, &word[1], 1), CUDA_SUCCESS);
	assert_int_equal(wait_for(s, &word[0], 2), CUDA_SUCCESS);
	assert_int_equal(put(NULL, &word[2], 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxDestroy_v2(second), CUDA_SUCCESS);
	assert_int_equal(word[1], 0);
	assert_int_equal(word[2], 0);
	assert_int_equal(cuda->cuCtxSetCurrent(first), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemHostUnregister(word), CUDA_SUCCESS);
	munmap(word, 4096);
	assert_int_equal(cuda->cuCtxDestroy_v2(first), CUDA_SUCCESS);
}

/* A stream of the context itself writes the awaited value: the context's end waits for that chain. */
static void test_end_of_chain(void **state)
{
	const size_t bytes = 8 << 20;
	CUdeviceptr p;
	CUcontext first, second;
	CUstream s, t;
	uint32_t *word;

	assert_int_equal(cuda->cuCtxCreate_v2(&first, 0, 0), CUDA_SUCCESS);
	word = shared_word();
	assert_int_equal(cuda->cuCtxCreate_v2(&second, 0, 0), CUDA_SUCCESS);
	s = stream(CU_STREAM_NON_BLOCKING);
	t = stream(CU_STREAM_NON_BLOCKING);
	assert_int_equal(wait_for(t, &word[0], 1), CUDA_SUCCESS);
	assert_int_equal(put(t, &word[1], 1), CUDA_SUCCESS);
	p = alloc(bytes);
	for (int i = 0; i < 20; i++)
		assert_int_equal(cuda->cuMemsetD8Async(p, 1, bytes, s), CUDA_SUCCESS);
	assert_int_equal(put(s, &word[0], 1), CUDA_SUCCESS);
	assert_int_equal(wait_for(s, &word[0], 2), CUDA_SUCCESS);
	assert_int_equal(put(s, &word[2], 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxDestroy_v2(second), CUDA_SUCCESS);
	assert_int_equal(word[1], 1);
	assert_int_equal(word[2], 0);
	assert_int_equal(cuda->cuCtxSetCurrent(first), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemHostUnregister(word), CUDA_SUCCESS);
	munmap(word, 4096);
	assert_int_equal(cuda->cuCtxDestroy_v2(first), CUDA_SUCCESS);
}

/* A context whose end was announced gives its host memory back, and ends, although a stream of it waits for ever. */
static void test_end_with_host_memory(void **state)
{
	CUcontext c;
	uint32_t *word;
	CUstream s;

	assert_int_equal(cuda->cuCtxCreate_v2(&c, 0, 0), CUDA_SUCCESS);
	word = shared_word();
	s = stream(CU_STREAM_DEFAULT);
	assert_int_equal(wait_for(s, &word[0], 1), CUDA_SUCCESS);
	assert_int_equal(put(s, &word[1], 1), CUDA_SUCCESS);
	assert_int_equal(cuda->contextEnds(), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemHostUnregister(word), CUDA_SUCCESS);
	assert_int_equal(word[1], 0);
	assert_int_equal(cuda->cuCtxDestroy_v2(c), CUDA_SUCCESS);
	munmap(word, 4096);
}

/* Another context's memory goes while a stream waits there: the stream's context has failed, and nothing else. */
static void test_memory_goes(void **state)
{
	CUcontext other;
	CUdeviceptr p = alloc(4096);
	CUstream s;

	assert_int_equal(cuda->cuMemsetD32_v2(p, 0, 1024), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
	s = stream(CU_STREAM_NON_BLOCKING);
	assert_int_equal(value(s, CU_STREAM_MEM_OP_WAIT_VALUE_32, p, 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSetCurrent(*state), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemFree_v2(p), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSetCurrent(other), CUDA_SUCCESS);
	assert_int_equal(cuda->cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(cuda->cuCtxDestroy_v2(other), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSetCurrent(*state), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
}

static void test_refusals(void **state)
{
	CUstreamBatchMemOpParams ops[2] = {{.pad = {0}}, {.pad = {0}}};
	uint32_t local = 0, got;
	CUdeviceptr p = alloc(12);

	assert_int_equal(cuda->cuMemsetD32_v2(p, 0, 3), CUDA_SUCCESS);
	assert_int_equal(wait_for(NULL, &local, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(value(NULL, CU_STREAM_MEM_OP_WRITE_VALUE_32, p + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(value(NULL, CU_STREAM_MEM_OP_WRITE_VALUE_32, p + 12, 1, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(value(NULL, CU_STREAM_MEM_OP_WRITE_VALUE_64, p + 8, 1, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(value(NULL, CU_STREAM_MEM_OP_WAIT_VALUE_32, p, 0, 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(value(NULL, CU_STREAM_MEM_OP_WAIT_VALUE_32, p, 0, CU_STREAM_WAIT_VALUE_FLUSH),
			 CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(value(NULL, CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, 0, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(value(NULL, (CUstreamBatchMemOpType)99, p, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(value((CUstream)0x99, CU_STREAM_MEM_OP_WAIT_VALUE_32, p, 0, 0), CUDA_ERROR_INVALID_HANDLE);
	/* all of a batch or nothing */
	ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	ops[0].writeValue.address = p;
	ops[0].writeValue.value = 1;
	ops[1].operation = (CUstreamBatchMemOpType)7;
	assert_int_equal(cuda->cuStreamBatchMemOp_v2(NULL, 2, ops, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuStreamBatchMemOp_v2(NULL, 0, ops, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuStreamBatchMemOp_v2(NULL, 1, ops, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&got, p, 4), CUDA_SUCCESS);
	assert_int_equal(got, 0);
	ops[1].operation = CU_STREAM_MEM_OP_BARRIER;
	assert_int_equal(cuda->cuStreamBatchMemOp_v2(NULL, 2, ops, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&got, p, 4), CUDA_SUCCESS);
	assert_int_equal(got, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_CONTEXT(test_conditions),
		IN_CONTEXT(test_many_waits),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_end_of_chain),
		cmocka_unit_test(test_end_with_host_memory),
		cmocka_unit_test(test_full),
		IN_CONTEXT(test_refusals),
		IN_CONTEXT(test_memory_goes),
	};

	init_device();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
