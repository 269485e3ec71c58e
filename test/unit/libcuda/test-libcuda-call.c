/* SPDX-License-Identifier: Apache-2.0 */
/* Calls from the guest to a worker that is a thread: order, full rings, all slots in use, sleep, loss, fork. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/libcuda/core/init.h"
#include "ring/ring.h"
#include "protocol/cuda-functions.h"
#include "test-libcuda-fake.h"

#define THREADS 100
#define PRODUCERS 4
#define COMMANDS 20000

CUresult cuMemBatchDecompressAsync(void *, size_t, unsigned int, size_t *, CUstream);

static CUcontext context;
static CUdeviceptr memory;

/*
 * The versions that a process reports before and after cuInit() with this VCUDA_DRIVER_VERSION: the host's driver is
 * 12.9.
 */
static void says_version(const char *wanted, int before, int after)
{
	pid_t child = fork();
	int version, status;
	void *found;

	if (!child) {
		setenv("VCUDA_DRIVER_VERSION", wanted, 1);
		if (cuDriverGetVersion(&version) || version != before)
			_exit(1);
		if (cuGetProcAddress_v2("cuInit", &found, before, 0, NULL) ||
		    cuGetProcAddress_v2("cuInit", &found, before + 10, 0, NULL) != CUDA_ERROR_INVALID_VALUE)
			_exit(2);
		_exit(cuInit(0) || cuDriverGetVersion(&version) || version != after ? 3 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void wanted_versions(void **state)
{
	says_version("", CUDA_VERSION, 12090);
	says_version("12.4", 12040, 12040);
	says_version("13.0", 13000, 13000);
	says_version("13.5", 13050, 13050);
	says_version("latest", CUDA_VERSION, 12090);
	says_version("12.4.1", CUDA_VERSION, 12090);
	says_version("-1.0", CUDA_VERSION, 12090);
}

/* The bus addresses of the devices of a process with such variables. */
static void has_order(const char *order, const char *visible, const char *const *expected)
{
	pid_t child = fork();
	int n, status;
	char id[16];

	if (!child) {
		fake.devices = 4;
		if (order)
			setenv("CUDA_DEVICE_ORDER", order, 1);
		if (visible)
			setenv("CUDA_VISIBLE_DEVICES", visible, 1);
		if (cuInit(0) || cuDeviceGetCount(&n))
			_exit(1);
		for (int i = 0; i < n; i++)
			if (!expected[i] || cuDeviceGetPCIBusId(id, sizeof(id), i) || strcmp(id, expected[i]))
				_exit(2 + i);
		_exit(expected[n] ? 10 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void has_no_order(const char *order, const char *visible)
{
	pid_t child = fork();
	int status;

	if (!child) {
		fake.devices = 4;
		setenv("CUDA_DEVICE_ORDER", order, 1);
		if (visible)
			setenv("CUDA_VISIBLE_DEVICES", visible, 1);
		_exit((int)cuInit(0));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == CUDA_ERROR_INVALID_DEVICE);
}

/* Also before CUDA_VISIBLE_DEVICES counts. */
static void device_order(void **state)
{
	static const char *const host[] = {"0000:07:00.0", "0001:01:00.0", "0000:03:1F.0", "0000:03:0A.0", NULL};
	static const char *const bus[] = {"0000:03:0A.0", "0000:03:1F.0", "0000:07:00.0", "0001:01:00.0", NULL};
	static const char *const first[] = {"0000:07:00.0", "0000:03:0A.0", NULL};
	static const char *const two[] = {"0001:01:00.0", "0000:03:0A.0", NULL};

	has_order(NULL, NULL, host);
	has_order("FASTEST_FIRST", NULL, host);
	has_order("PCI_BUS_ID", NULL, bus);
	has_order("PCI_BUS_ID", "3,0", two);
	has_order("PCI_BUS_ID", "2,0", first);
	has_order(NULL, "1,3", two);
	has_no_order("pci_bus_id", NULL);
	has_no_order("", NULL);
	has_no_order("PCI_BUS_ID", "0,0");
}

static void before_init(void **state)
{
	int n, version;

	assert_int_equal(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
	assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
	assert_int_equal(cuDriverGetVersion(&version), CUDA_SUCCESS);
	assert_int_equal(version, CUDA_VERSION);
	assert_int_equal(cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

static void init(void **state)
{
	int n, version, value;
	char name[16];
	CUdevice d;

	assert_int_equal(cuInit(0), CUDA_SUCCESS);
	assert_int_equal(cuInit(0), CUDA_SUCCESS);
	assert_int_equal(cuDeviceGetCount(&n), CUDA_SUCCESS);
	assert_int_equal(n, 1);
	assert_int_equal(cuDriverGetVersion(&version), CUDA_SUCCESS);
	assert_int_equal(version, 12090);
	assert_int_equal(cuDeviceGetName(name, 3, 0), CUDA_SUCCESS);
	assert_string_equal(name, "Fa");
	assert_int_equal(cuDeviceGetName(name, 3, 1), CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0), CUDA_SUCCESS);
	assert_int_equal(value, 32);
	assert_int_equal(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0), CUDA_SUCCESS);
	assert_int_equal(value, 0);
	assert_int_equal(cuDeviceGetAttribute(&value, 9999, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuDeviceGetByPCIBusId(&d, "0:7:0"), CUDA_SUCCESS);
	assert_int_equal(cuDeviceGetByPCIBusId(&d, "00:08.0"), CUDA_ERROR_INVALID_DEVICE);
}

static void contexts(void **state)
{
	CUcontext c;

	assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuCtxSetCurrent((CUcontext)0x1234), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
	assert_int_equal(cuCtxPushCurrent_v2(context), CUDA_SUCCESS);
	assert_int_equal(cuCtxPopCurrent_v2(&c), CUDA_SUCCESS);
	assert_ptr_equal(c, context);
	assert_int_equal(cuCtxGetCurrent(&c), CUDA_SUCCESS);
	assert_ptr_equal(c, context);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
	assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_int_equal(cuDevicePrimaryCtxRetain(&c, 0), CUDA_SUCCESS);
	assert_ptr_equal(c, context);
	assert_int_equal(cuMemAlloc_v2(&memory, 65536), CUDA_SUCCESS);
}

/* With something to wait for, else the worker would not be asked. */
static CUresult work_and_wait(void)
{
	CUresult result = cuMemsetD32Async(memory, 0, 1, NULL);

	return result == CUDA_SUCCESS ? cuCtxSynchronize() : result;
}

static void results(void **state)
{
	fake.fail_next = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	assert_int_equal(work_and_wait(), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	assert_int_equal(work_and_wait(), CUDA_SUCCESS);
	/* A kernel's fault stays with the context until it is reset. */
	assert_int_equal(cuMemsetD32Async(memory, 0, 1, NULL), CUDA_SUCCESS);
	fake.fail_next = CUDA_ERROR_ILLEGAL_ADDRESS;
	assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(cuMemFree_v2(memory), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
	assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemAlloc_v2(&memory, 65536), CUDA_SUCCESS);
}

/* A worker that takes long: the caller sleeps and is woken. */
static void slow(void **state)
{
	fake.delay_us = 20000;
	for (int i = 0; i < 5; i++)
		assert_int_equal(work_and_wait(), CUDA_SUCCESS);
	fake.delay_us = 0;
}

static void *produce(void *unused)
{
	if (cuCtxSetCurrent(context) != CUDA_SUCCESS)
		return "no context";
	/* 0 begins anew: a thread that ended before may have had the same number. */
	for (unsigned int i = 0; i < COMMANDS; i++)
		if (cuMemsetD32Async(memory, i, 1, NULL) != CUDA_SUCCESS)
			return "memset";
	return cuCtxSynchronize() == CUDA_SUCCESS ? NULL : "synchronize";
}

static void *synchronize(void *unused)
{
	if (cuCtxSetCurrent(context) != CUDA_SUCCESS)
		return "no context";
	for (int i = 0; i < 20; i++)
		if (work_and_wait() != CUDA_SUCCESS)
			return "synchronize";
	return NULL;
}

static void run_threads(void *(*f)(void *), int n)
{
	pthread_t threads[THREADS];
	void *failure;

	for (int i = 0; i < n; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, f, NULL), 0);
	for (int i = 0; i < n; i++) {
		pthread_join(threads[i], &failure);
		assert_null(failure);
	}
}

static void order(void **state)
{
	uint64_t before = fake.memsets;

	run_threads(produce, PRODUCERS);
	assert_int_equal(fake.memsets - before, PRODUCERS * COMMANDS);
	assert_int_equal(fake.out_of_order, 0);
}

static CUstream new_stream(void)
{
	CUstream stream;

	assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	return stream;
}

static void put(CUstream stream, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(cuMemsetD32Async(memory, 0, 1, stream), CUDA_SUCCESS);
}

static _Atomic unsigned int taken;

static void *fill_up(void *stream)
{
	if (cuCtxSetCurrent(context) != CUDA_SUCCESS)
		return "no context";
	for (; taken < 5000; taken++)
		if (cuMemsetD32Async(memory, 0, 1, stream) != CUDA_SUCCESS)
			break;
	return NULL;
}

static pthread_t start_to_fill(CUstream stream)
{
	unsigned int before;
	pthread_t thread;

	fake.stands = true;
	taken = 0;
	assert_int_equal(pthread_create(&thread, NULL, fill_up, stream), 0);
	/* On a busy machine either thread may rest for longer. */
	for (int looks = 0; looks < 400; looks++) {
		before = taken;
		usleep(50000);
		if (before == taken && taken >= 600 && fake.most_behind >= 600)
			break;
	}
	assert_in_range(taken, 600, 1000);
	assert_in_range(fake.most_behind, 600, 1000);
	return thread;
}

/*
 * A queue of a GPU has 1021 places for the streams that share it. No queue is ever full, so no call waits in the
 * driver.
 */
static void paced(void **state)
{
	CUstream streams[41];
	pthread_t thread;

	strcpy(libcuda_host.backend, "cuda");
	fake.most_behind = 0;
	run_threads(produce, PRODUCERS);
	assert_in_range(fake.most_behind, 1, 1000);
	for (int i = 0; i < 41; i++)
		streams[i] = new_stream();
	for (int n = 0; n < 1000; n++)
		for (int i = 0; i < 41; i++)
			put(streams[i], 1);
	fake.most_behind = 0;
	for (int n = 0; n < 300; n++)
		for (int i = 0; i < 41; i++)
			put(streams[i], 1);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	assert_in_range(fake.most_behind, 1, 250);
	/* Streams that have nothing to do take nothing from one that has. */
	thread = start_to_fill(streams[0]);
	fake.stands = false;
	assert_int_equal(pthread_join(thread, NULL), 0);
	for (int i = 0; i < 41; i++)
		assert_int_equal(cuStreamDestroy_v2(streams[i]), CUDA_SUCCESS);
	for (int life = 0; life < 2; life++) {
		fake.most_behind = 0;
		put(NULL, 5000);
		assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
		assert_in_range(fake.most_behind, 1, 1000);
		assert_int_equal(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
		assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
		assert_int_equal(cuMemAlloc_v2(&memory, 65536), CUDA_SUCCESS);
	}
}

/* However many events stand in a row, they take no room. */
static void many_events(void **state)
{
	CUstream stream = new_stream();
	CUevent event;

	fake.stands = true;
	assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
	for (int i = 0; i < 5000; i++) {
		assert_int_equal(cuEventRecord(event, stream), CUDA_SUCCESS);
		assert_int_equal(cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
	}
	fake.stands = false;
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
}

/* A thread waits with a stream that another one destroys, and then with a context. */
static void ended(void **state)
{
	CUstream stream = new_stream(), others[50];
	pthread_t thread = start_to_fill(stream);

	assert_int_equal(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
	for (int i = 0; i < 50; i++) {
		others[i] = new_stream();
		put(others[i], 100);
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_in_range(taken, 600, 1000);
	fake.stands = false;
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	thread = start_to_fill(others[0]);
	assert_int_equal(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_in_range(taken, 600, 1000);
	fake.stands = false;
	assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemAlloc_v2(&memory, 65536), CUDA_SUCCESS);
	strcpy(libcuda_host.backend, "cpu");
}

/* More threads that wait than there are reply slots. */
static void slots(void **state)
{
	fake.delay_us = 100;
	run_threads(synchronize, THREADS);
	fake.delay_us = 0;
}

static void *wait_cancelled(void *returned)
{
	if (cuCtxSetCurrent(context) != CUDA_SUCCESS)
		return "no context";
	fake_shm()->output = 1;
	/* Takes effect at the next cancellation point. */
	pthread_cancel(pthread_self());
	*(bool *)returned = work_and_wait() == CUDA_SUCCESS;
	pthread_testcancel();
	return "not cancelled";
}

/* A call of CUDA is no cancellation point, though it writes the output of kernels to stdout. */
static void cancelled(void **state)
{
	uint64_t outputs = fake.outputs;
	bool returned = false;
	pthread_t thread;
	void *result;

	assert_int_equal(pthread_create(&thread, NULL, wait_cancelled, &returned), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_true(returned);
	/* The locks of stdout and of its text are free. */
	fake_shm()->output = 1;
	assert_int_equal(work_and_wait(), CUDA_SUCCESS);
	assert_int_equal(fake.outputs, outputs + 2);
}

static void forked_child(void **state)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		int ok = cuInit(0) == CUDA_ERROR_NOT_INITIALIZED && cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED &&
			 cuMemFree_v2(memory) == CUDA_ERROR_NOT_INITIALIZED;

		_exit(ok ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
}

static void unsupported(void **state)
{
	assert_int_equal(cuMemBatchDecompressAsync(NULL, 0, 0, NULL, NULL), CUDA_ERROR_NOT_SUPPORTED);
}

static void names(void **state)
{
	CUdriverProcAddressQueryResult status;
	const char *name;
	void *f, *g;

	assert_int_equal(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name), CUDA_SUCCESS);
	assert_string_equal(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
	assert_int_equal(cuGetErrorName(12345, &name), CUDA_ERROR_INVALID_VALUE);
	assert_null(name);
	assert_int_equal(cuGetProcAddress_v2("cuMemAlloc", &f, 12090, 0, &status), CUDA_SUCCESS);
	assert_ptr_equal(f, cuMemAlloc_v2);
	assert_int_equal(
		cuGetProcAddress_v2("cuMemcpyHtoD", &f, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL),
		CUDA_SUCCESS);
	assert_int_equal(cuGetProcAddress_v2("cuMemcpyHtoD", &g, 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL),
			 CUDA_SUCCESS);
	assert_ptr_equal(g, cuMemcpyHtoD_v2);
	assert_ptr_not_equal(f, g);
	assert_int_equal(cuGetProcAddress_v2("cuCtxSynchronize", &f, 12090, 0, &status), CUDA_SUCCESS);
	assert_ptr_equal(f, cuCtxSynchronize);
	/* newer than the host's driver */
	assert_int_equal(cuGetProcAddress_v2("cuCtxSynchronize", &f, 13000, 0, &status), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuGetProcAddress_v2("cuLaunchKernelEx", &f, 11000, 0, &status), CUDA_SUCCESS);
	assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	assert_int_equal(cuGetProcAddress_v2("", &f, 0, 0, NULL), CUDA_SUCCESS);
}

/* The last test: after it no call works. */
static void lost(void **state)
{
	fake_lose(CUDA_ERROR_LAUNCH_FAILED);
	assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
	assert_int_equal(cuMemsetD32Async(memory, 1, 1, NULL), CUDA_ERROR_LAUNCH_FAILED);
	assert_int_equal(cuMemFree_v2(memory), CUDA_ERROR_LAUNCH_FAILED);
	assert_int_equal(cuInit(0), CUDA_ERROR_LAUNCH_FAILED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wanted_versions), cmocka_unit_test(device_order),
		cmocka_unit_test(before_init), cmocka_unit_test(init),        cmocka_unit_test(contexts),
		cmocka_unit_test(results),     cmocka_unit_test(slow),        cmocka_unit_test(order),
		cmocka_unit_test(paced),       cmocka_unit_test(many_events), cmocka_unit_test(ended),
		cmocka_unit_test(slots),       cmocka_unit_test(cancelled),   cmocka_unit_test(forked_child),
		cmocka_unit_test(unsupported), cmocka_unit_test(names),       cmocka_unit_test(lost),
	};

	setenv("VCUDA_TRANSPORT", "local", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
