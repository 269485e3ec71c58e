/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts as a whole: their events, flags and usage counts. Handles of mapped memory, and smaller questions. */
#include "test/local/api.h"

#include <unistd.h>

static uint32_t *host;
static CUcontext primary;

static CUstream waiting(unsigned int word)
{
	CUstream s;

	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamWaitValue32_v2(s, (CUdeviceptr)&host[word], 1, CU_STREAM_WAIT_VALUE_EQ));
	return s;
}

/* An event of the context waits for all of its streams, and what comes later waits for such an event. */
static void events(void)
{
	CUstream a = waiting(0), b = waiting(1), c;
	CUevent all, of_b;
	CUgraph graph;

	OK(cuStreamCreate(&c, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&all, CU_EVENT_DISABLE_TIMING));
	OK(cuEventCreate(&of_b, CU_EVENT_DISABLE_TIMING));
	OK(cuCtxRecordEvent(primary, all));
	OK(cuEventRecord(of_b, b));
	OK(cuCtxWaitEvent(primary, of_b));
	OK(cuMemsetD32Async((CUdeviceptr)&host[2], 7, 1, c));
	__atomic_store_n(&host[0], 1, __ATOMIC_RELEASE);
	OK(cuStreamSynchronize(a));
	usleep(5000);
	GIVES(cuEventQuery(all), CUDA_ERROR_NOT_READY);
	GIVES(cuStreamQuery(c), CUDA_ERROR_NOT_READY);
	CHECK(host[2] == 0);
	__atomic_store_n(&host[1], 1, __ATOMIC_RELEASE);
	OK(cuEventSynchronize(all));
	OK(cuStreamSynchronize(c));
	CHECK(host[2] == 7);
	GIVES(cuCtxRecordEvent((CUcontext)0x77777, all), CUDA_ERROR_INVALID_CONTEXT);
	GIVES(cuCtxWaitEvent(primary, (CUevent)0x77777), CUDA_ERROR_INVALID_HANDLE);
	/* A context that captures has no event as a whole. */
	OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	GIVES(cuCtxRecordEvent(primary, all), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	GIVES(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	OK(cuCtxSynchronize());
	OK(cuStreamDestroy_v2(a));
	OK(cuStreamDestroy_v2(b));
	OK(cuStreamDestroy_v2(c));
	OK(cuEventDestroy_v2(all));
	OK(cuEventDestroy_v2(of_b));
}

static void own_context(void)
{
	CUcontext own, same, current;
	unsigned int flags;
	CUevent event;

	OK(cuEventCreate(&event, 0));
	OK(cuCtxCreate_v2(&own, 0, 0));
	GIVES(cuCtxRecordEvent(own, event), CUDA_ERROR_INVALID_HANDLE);
	OK(cuCtxRecordEvent(primary, event)); /* a context that is not current */
	OK(cuCtxWaitEvent(own, event));
	OK(cuCtxSetFlags(CU_CTX_SCHED_YIELD));
	OK(cuCtxGetFlags(&flags));
	CHECK(flags & CU_CTX_SCHED_YIELD);
	GIVES(cuCtxAttach(&same, 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxAttach(&same, 0));
	CHECK(same == own);
	OK(cuCtxDetach(own));
	OK(cuCtxSynchronize());
	GIVES(cuCtxDetach(primary), CUDA_ERROR_INVALID_CONTEXT); /* not current */
	OK(cuCtxDetach(own));
	OK(cuCtxGetCurrent(&current));
	CHECK(current == primary);
	GIVES(cuCtxDetach(own), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuEventDestroy_v2(event));
}

void api_contexts(void)
{
	OK(cuCtxGetCurrent(&primary));
	OK(cuMemHostAlloc((void **)&host, 64, 0));
	memset(host, 0, 64);
	events();
	own_context();
}

/* ---- contexts that fail ---- */

/* Pages that this process shares with others, the worker among them. */
static long shared_pages(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	long size, resident, shared;

	CHECK(f && fscanf(f, "%ld %ld %ld", &size, &resident, &shared) == 3);
	fclose(f);
	return shared;
}

/* A kernel of a context of its own stores to 0. */
static void fail_with(size_t pinned_bytes)
{
	static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry stray()\n{\n"
				  ".reg .b64 %l;\nmov.u64 %l, 0;\nst.global.u64 [%l], %l;\nret;\n}\n";
	CUcontext own;
	CUmodule module;
	CUfunction f;
	void *pinned;

	OK(cuCtxCreate_v2(&own, 0, 0));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&f, module, "stray"));
	OK(cuMemHostAlloc(&pinned, pinned_bytes, 0));
	memset(pinned, 1, pinned_bytes);
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	GIVES(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	cuCtxDestroy_v2(own);
}

/* Pinned memory ends with its context, also with one that has failed. */
void api_faults(void)
{
	const size_t bytes = 4 << 20;
	long before;

	fail_with(bytes);
	before = shared_pages();
	for (int i = 0; i < 20; i++)
		fail_with(bytes);
	CHECK(shared_pages() - before < 2 * (long)bytes / 4096);
}

/* ---- what is mapped, and smaller questions ---- */

static void mapped_handles(void)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
	CUmemAccessDesc access = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	const size_t size = 2 << 20;
	CUmemGenericAllocationHandle handle, again;
	unsigned long long flags;
	CUdeviceptr p;

	OK(cuMemAddressReserve(&p, 2 * size, 0, 0, 0));
	OK(cuMemCreate(&handle, size, &prop, 0));
	GIVES(cuMemRetainAllocationHandle(&again, (void *)p), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemGetAccess(&flags, &here, p), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemMap(p, size, 0, handle, 0));
	OK(cuMemSetAccess(p, size, &access, 1));
	OK(cuMemGetAccess(&flags, &here, p + 12345));
	CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	/* The handle comes back after its release, as the same one. */
	OK(cuMemRelease(handle));
	GIVES(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemRetainAllocationHandle(&again, (void *)(p + size - 1)));
	CHECK(again == handle);
	GIVES(cuMemRetainAllocationHandle(&again, (void *)(p + size)), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemMap(p + size, size, 0, handle, 0));
	OK(cuMemUnmap(p, 2 * size));
	GIVES(cuMemRetainAllocationHandle(&again, (void *)p), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemMap(p, size, 0, handle, 0));
	OK(cuMemRelease(handle));
	OK(cuMemUnmap(p, size));
	GIVES(cuMemMap(p, size, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAddressFree(p, 2 * size));
}

static void pools(void)
{
	CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, host_memory = {CU_MEM_LOCATION_TYPE_HOST, 0},
		      none = {CU_MEM_LOCATION_TYPE_NONE, 0};
	const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};
	CUmemoryPool normal, mine, got;

	OK(cuMemGetDefaultMemPool(&normal, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
	OK(cuMemPoolCreate(&mine, &props));
	OK(cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, mine));
	OK(cuMemGetMemPool(&got, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
	CHECK(got == mine);
	OK(cuDeviceGetMemPool(&got, 0));
	CHECK(got == mine);
	OK(cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, normal));
	OK(cuMemPoolDestroy(mine));
	GIVES(cuMemGetMemPool(&got, &none, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemGetMemPool(&got, &none, CU_MEM_ALLOCATION_TYPE_MANAGED), CUDA_ERROR_NOT_SUPPORTED);
	OK(cuMemGetMemPool(&got, &host_memory, CU_MEM_ALLOCATION_TYPE_PINNED));
	GIVES(cuMemPoolDestroy(got), CUDA_ERROR_INVALID_VALUE);
	here.id = 99;
	GIVES(cuMemGetDefaultMemPool(&got, &here, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_ERROR_INVALID_VALUE);
}

static void device_questions(void)
{
	const CUatomicOperation operations[] = {CU_ATOMIC_OPERATION_CAS, CU_ATOMIC_OPERATION_INTEGER_ADD}, wrong = 77;
	unsigned int capabilities[2] = {77, 77};
	size_t width = 0;
	int native;

	OK(cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 4, 0));
	CHECK(width >= 1 << 20);
	GIVES(cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 4, 99), CUDA_ERROR_INVALID_DEVICE);
	OK(cuDeviceGetHostAtomicCapabilities(capabilities, operations, 2, 0));
	OK(cuDeviceGetAttribute(&native, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 0));
	CHECK(!native || (capabilities[1] & CU_ATOMIC_CAPABILITY_SCALAR_32 && !(capabilities[0] & 1u << 31)));
	CHECK(capabilities[0] != 77 && capabilities[1] != 77);
	GIVES(cuDeviceGetHostAtomicCapabilities(capabilities, &wrong, 1, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuDeviceGetHostAtomicCapabilities(capabilities, operations, 0, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuDeviceGetP2PAtomicCapabilities(capabilities, operations, 2, 0, 0), CUDA_ERROR_INVALID_DEVICE);
	GIVES(cuDeviceGetP2PAtomicCapabilities(capabilities, operations, 2, 0, 99), CUDA_ERROR_INVALID_DEVICE);
}

/* A context may use all multiprocessors. */
static void affinity(void)
{
	CUexecAffinityParam a = {.type = CU_EXEC_AFFINITY_TYPE_MAX};
	CUcontext current;
	int multiprocessors;

	OK(cuCtxGetCurrent(&current));
	OK(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	OK(cuCtxGetExecAffinity(&a, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
	CHECK(a.type == CU_EXEC_AFFINITY_TYPE_SM_COUNT && a.param.smCount.val == (unsigned int)multiprocessors);
	GIVES(cuCtxGetExecAffinity(&a, CU_EXEC_AFFINITY_TYPE_MAX), CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
	GIVES(cuCtxGetExecAffinity(NULL, CU_EXEC_AFFINITY_TYPE_SM_COUNT), CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxSetCurrent(NULL));
	GIVES(cuCtxGetExecAffinity(&a, CU_EXEC_AFFINITY_TYPE_SM_COUNT), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxSetCurrent(current));
}

/* No stream is of a part of the device. */
static void green_contexts(void)
{
	CUgreenCtx green = (CUgreenCtx)&green;
	CUstream s;

	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamGetGreenCtx(s, &green));
	CHECK(!green);
	green = (CUgreenCtx)&green;
	OK(cuStreamGetGreenCtx(NULL, &green));
	CHECK(!green);
	GIVES(cuStreamGetGreenCtx(s, NULL), CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamDestroy_v2(s));
}

void api_questions(void)
{
	affinity();
	green_contexts();
	mapped_handles();
	pools();
	device_questions();
}
