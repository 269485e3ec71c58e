/* SPDX-License-Identifier: Apache-2.0 */
/* Work on the software GPU: launches, streams, events, kernels and threads that are at work at once. */
#include "softgpu/test/backend-cpu-test.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

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
	bytes = 0;
	assert_int_equal(cuda->cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra), CUDA_ERROR_INVALID_VALUE);
	/* The rest of the parameters is 0: here the number of elements. */
	bytes = offsetof(__typeof__(packed), n);
	assert_int_equal(cuda->cuLaunchKernel(add, N / 32, 1, 1, 32, 1, 1, 0, NULL, NULL, extra), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(b, da, sizeof(b)), CUDA_SUCCESS);
	assert_memory_equal(a, b, sizeof(a));
	assert_int_equal(launch((CUfunction)(uintptr_t)&make_context, 1, 32, NULL, params), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(launch(add, 1, 32, (CUstream)0x2, params), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
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
 * A fault is reported when something waits, then by every call; what was queued behind it does not run; the kernel of
 * another context goes on.
 */
static void test_fault(void **state)
{
	CUmodule module = load();
	CUfunction store = function(module, "store"), spin = function(module, "spin");
	uint32_t *gate = shared_word(), *never = gate + 1, *behind = gate + 2, *late = gate + 3, *done = gate + 4;
	CUcontext other, mine;
	CUstream a = stream(0), b = stream(0);
	CUdeviceptr p = alloc(4), q;
	CUevent e;

	assert_int_equal(cuda->cuCtxGetCurrent(&mine), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
	module = load();
	assert_int_equal(launch_spin(function(module, "spin"), NULL, late), CUDA_SUCCESS);
	assert_int_equal(launch_store(function(module, "store"), NULL, (uintptr_t)done, 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSetCurrent(mine), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventCreate(&e, 0), CUDA_SUCCESS);
	assert_int_equal(launch_spin(spin, a, gate), CUDA_SUCCESS);
	assert_int_equal(launch_spin(spin, b, never), CUDA_SUCCESS); /* ends only because the context fails */
	assert_int_equal(launch_store(store, a, p + (64 << 20), 1), CUDA_SUCCESS);
	assert_int_equal(launch_store(store, a, (uintptr_t)behind, 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventRecordWithFlags(e, a, 0), CUDA_SUCCESS);
	open_gate(gate);
	assert_int_equal(cuda->cuStreamSynchronize(a), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(cuda->cuEventQuery(e), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(cuda->cuMemAlloc_v2(&q, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(cuda->cuMemFree_v2(p), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(launch_store(store, NULL, p, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(*behind, 0);
	assert_int_equal(cuda->cuCtxSetCurrent(other), CUDA_SUCCESS);
	assert_int_equal(cuda->cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	open_gate(late);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(*done, 1);
	q = alloc(4);
	assert_int_equal(cuda->cuMemsetD32_v2(q, 1, 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxDestroy_v2(other), CUDA_SUCCESS);
	/* Says the context's error, and that no kernel uses the memory any more. */
	assert_int_equal(cuda->cuMemHostUnregister(gate), CUDA_ERROR_ILLEGAL_ADDRESS);
	munmap(gate, 4096);
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

/* Two kernels that need each other, in streams of two threads: one waits for a word that the other one stores. */
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

/* Threads of less weight than the program's, which itself may run under `nice`, though not with the least weight. */
static int low_threads(void)
{
	int own = getpriority(PRIO_PROCESS, (id_t)getpid()), count = 0;
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;

	assert_non_null(tasks);
	while ((task = readdir(tasks)))
		if (task->d_name[0] != '.')
			count += getpriority(PRIO_PROCESS, (id_t)atoi(task->d_name)) > own;
	closedir(tasks);
	return count;
}

static CUresult query_until_done(CUstream s)
{
	CUresult result = CUDA_ERROR_NOT_READY;

	for (int ms = 0; ms < 600000 && (result = cuda->cuStreamQuery(s)) == CUDA_ERROR_NOT_READY; ms++)
		usleep(1000);
	return result;
}

/* More kernels wait than the device has cores, for one that comes last; the host does not help. */
static void test_more_kernels_than_workers(void **state)
{
	enum { WORKERS = 3, KERNELS = 9 };
	CUmodule module = load();
	CUfunction spin = function(module, "spin"), store = function(module, "store");
	uint32_t *gate = shared_word(), seen = 0;
	CUstream streams[KERNELS], last = stream(CU_STREAM_NON_BLOCKING);
	int low;

	for (int n = 0; n < KERNELS; n++) {
		streams[n] = stream(CU_STREAM_NON_BLOCKING);
		assert_int_equal(launch_spin(spin, streams[n], gate), CUDA_SUCCESS);
	}
	assert_int_equal(cuda->cuMemcpyDtoHAsync_v2(&seen, alloc(4), 4, last), CUDA_SUCCESS);
	assert_int_equal(query_until_done(last), CUDA_SUCCESS);
	low = low_threads();
	assert_int_equal(launch_store(store, last, (uint64_t)(uintptr_t)gate, 1), CUDA_SUCCESS);
	for (int n = 0; n < KERNELS; n++)
		assert_int_equal(query_until_done(streams[n]), CUDA_SUCCESS);
	/* no thread beyond the workers takes much from other processes */
	assert_true(low >= KERNELS - WORKERS);
	assert_int_equal(cuda->cuMemHostUnregister(gate), CUDA_SUCCESS);
	munmap(gate, 4096);
}

/* meet: each block counts itself in p[1], and waits until p[0] is not 0. tell: p[0] is 1, behind a barrier. */
static const char meet_ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry meet(.param .u64 p)\n{\n	.reg .pred %p; .reg .b32 %r<3>; .reg .b64 %rd<2>;\n"
	"	ld.param.u64 %rd1, [p];\n	mov.u32 %r1, %tid.x;\n	setp.ne.u32 %p, %r1, 0;\n	@%p bra "
	"AGAIN;\n"
	"	red.global.add.u32 [%rd1+4], 1;\nAGAIN:\n	ld.volatile.global.u32 %r1, [%rd1];\n"
	"	setp.eq.u32 %p, %r1, 0;\n	@%p bra AGAIN;\n	ret;\n}\n"
	".visible .entry tell(.param .u64 p)\n{\n	.reg .b64 %rd<2>;\n	ld.param.u64 %rd1, [p];\n	"
	"bar.sync 0;\n"
	"	st.volatile.global.u32 [%rd1], 1;\n	ret;\n}\n";

/* Until no more blocks begin: the longer the looks, the surer it is that they have all that they may have. */
static void wait_until_settled(const uint32_t *count, uint32_t least)
{
	uint32_t last = 0;

	for (int same = 0; same < 300; same++) {
		uint32_t now = __atomic_load_n(count, __ATOMIC_RELAXED);

		if (now != last || now < least)
			same = 0;
		last = now;
		usleep(1000);
	}
}

/*
 * Grids of more blocks than the memory of blocks holds wait for one that comes last, whose block needs more memory than
 * any of theirs.
 */
static void wait_for_last(unsigned int kernels, unsigned int blocks, unsigned int threads)
{
	uint32_t *gate = shared_word();
	uint64_t address = (uint64_t)(uintptr_t)gate;
	void *params[] = {&address};
	CUstream streams[128], last = stream(CU_STREAM_NON_BLOCKING);
	CUmodule module;

	assert_true(kernels <= 128);
	assert_int_equal(cuda->cuModuleLoadData(&module, meet_ptx), CUDA_SUCCESS);
	for (unsigned int n = 0; n < kernels; n++) {
		streams[n] = stream(CU_STREAM_NON_BLOCKING);
		assert_int_equal(launch(function(module, "meet"), blocks, threads, streams[n], params), CUDA_SUCCESS);
	}
	wait_until_settled(gate + 1, kernels);
	assert_int_equal(launch(function(module, "tell"), 1, 1024, last, params), CUDA_SUCCESS);
	assert_int_equal(query_until_done(last), CUDA_SUCCESS);
	for (unsigned int n = 0; n < kernels; n++)
		assert_int_equal(query_until_done(streams[n]), CUDA_SUCCESS);
	assert_int_equal(gate[1], kernels * blocks);
	assert_int_equal(cuda->cuMemHostUnregister(gate), CUDA_SUCCESS);
	munmap(gate, 4096);
}

static void test_memory_for_last(void **state)
{
	(void)state;
	wait_for_last(6, 300, 256);
}

/* Runs as many grids as a GPU runs at once. */
static void test_worker_for_last(void **state)
{
	(void)state;
	wait_for_last(127, 400, 32);
}

/* Workers beyond the device's number end while other kernels go on: none of these wakes them. */
static void test_workers_end(void **state)
{
	enum { KERNELS = 30 };
	CUmodule module = load();
	CUfunction spin = function(module, "spin"), add = function(module, "add");
	uint32_t *gate = shared_word();
	CUdeviceptr a = alloc(4096), b = alloc(4096);
	CUstream streams[KERNELS];
	int n = 0;
	void *params[] = {&a, &b, &n};

	(void)state;
	for (int i = 0; i < KERNELS; i++) {
		streams[i] = stream(CU_STREAM_NON_BLOCKING);
		assert_int_equal(launch_spin(spin, streams[i], gate), CUDA_SUCCESS);
	}
	for (int ms = 0; ms < 60000 && low_threads() < KERNELS / 2; ms++)
		usleep(1000);
	assert_true(low_threads() >= KERNELS / 2);
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < KERNELS; i++)
		assert_int_equal(query_until_done(streams[i]), CUDA_SUCCESS);
	/* Each thread has to come to run before it can end. */
	while (low_threads()) {
		assert_int_equal(launch(add, 200, 32, NULL, params), CUDA_SUCCESS);
		assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	}
	assert_int_equal(cuda->cuMemHostUnregister(gate), CUDA_SUCCESS);
	munmap(gate, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_CONTEXT(test_launch),
		IN_CONTEXT(test_streams),
		IN_CONTEXT(test_events),
		IN_CONTEXT(test_fault),
		IN_CONTEXT(test_threads),
		IN_CONTEXT(test_concurrent_kernels),
		IN_CONTEXT(test_more_kernels_than_workers),
		IN_CONTEXT(test_memory_for_last),
		IN_CONTEXT(test_worker_for_last),
		IN_CONTEXT(test_workers_end),
	};

	init_device();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
