/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two devices, where there are two: peer access and copies, pools and mappings for both. With any number of devices:
 * the answers that need one device only.
 */
#include "api.h"

enum { WORDS = 1 << 20, BYTES = 4 * WORDS };

/* p[i] = p[i] + k, a thread a word */
static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry add(.param .u64 p, .param .u32 k)\n{\n"
			  ".reg .b32 %r<6>; .reg .b64 %l<3>;\nld.param.u64 %l1, [p];\nld.param.u32 %r5, [k];\n"
			  "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\n"
			  "mad.lo.u32 %r1, %r1, %r2, %r3;\nmul.wide.u32 %l2, %r1, 4;\nadd.u64 %l1, %l1, %l2;\n"
			  "ld.global.u32 %r4, [%l1];\nadd.u32 %r4, %r4, %r5;\nst.global.u32 [%l1], %r4;\nret;\n}\n";

static struct side {
	CUcontext context;
	CUfunction add;
	CUdeviceptr memory;
	CUstream stream;
} sides[2];

static uint32_t words[WORDS];

static void make(struct side *s, CUdevice device)
{
	CUmodule module;

	OK(cuDevicePrimaryCtxRetain(&s->context, device));
	OK(cuCtxSetCurrent(s->context));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&s->add, module, "add"));
	OK(cuMemAlloc_v2(&s->memory, BYTES));
	OK(cuStreamCreate(&s->stream, CU_STREAM_NON_BLOCKING));
}

/* In the current context. */
static void fill(CUdeviceptr p, uint32_t first)
{
	for (uint32_t i = 0; i < WORDS; i++)
		words[i] = first + i;
	OK(cuMemcpyHtoD_v2(p, words, BYTES));
}

static void expect(CUdeviceptr p, uint32_t first)
{
	memset(words, 0xee, BYTES);
	OK(cuMemcpyDtoH_v2(words, p, BYTES));
	for (uint32_t i = 0; i < WORDS; i++)
		CHECK(words[i] == first + i);
}

static void add(struct side *s, CUdeviceptr p, uint32_t k)
{
	void *params[] = {&p, &k};

	OK(cuLaunchKernel(s->add, WORDS / 256, 1, 1, 256, 1, 1, 0, s->stream, params, NULL));
}

static void on(struct side *s)
{
	OK(cuCtxSetCurrent(s->context));
}

static void one_device(void)
{
	struct side *s = &sides[0];
	CUcontext other;
	CUdeviceptr p;
	int yes = 7;

	OK(cuDeviceCanAccessPeer(&yes, 0, 0));
	CHECK(yes == 0);
	GIVES(cuDeviceCanAccessPeer(&yes, 0, 77), CUDA_ERROR_INVALID_DEVICE);
	GIVES(cuCtxEnablePeerAccess(NULL, 0), CUDA_ERROR_INVALID_CONTEXT);
	GIVES(cuCtxEnablePeerAccess(s->context, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
	GIVES(cuCtxEnablePeerAccess(s->context, 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuMemAlloc_v2(&p, BYTES));
	on(s);
	GIVES(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
	GIVES(cuCtxDisablePeerAccess(other), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	fill(s->memory, 5);
	OK(cuMemcpyPeer(p, other, s->memory, s->context, BYTES));
	OK(cuCtxSetCurrent(other));
	expect(p, 5);
	OK(cuCtxDestroy_v2(other));
	on(s);
	GIVES(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

static void copies(void)
{
	struct side *a = &sides[0], *b = &sides[1];
	CUevent event;

	on(a);
	fill(a->memory, 1000);
	OK(cuMemcpyPeer(b->memory, b->context, a->memory, a->context, BYTES));
	on(b);
	expect(b->memory, 1000);
	/* there and back in order, by an event of one device that a stream of the other waits for */
	add(b, b->memory, 1);
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuEventRecord(event, b->stream));
	on(a);
	OK(cuStreamWaitEvent(a->stream, event, 0));
	OK(cuMemcpyPeerAsync(a->memory, a->context, b->memory, b->context, BYTES, a->stream));
	add(a, a->memory, 1);
	OK(cuStreamSynchronize(a->stream));
	expect(a->memory, 1002);
}

static void access_by_kernels(void)
{
	struct side *a = &sides[0], *b = &sides[1];

	on(b);
	OK(cuCtxEnablePeerAccess(a->context, 0));
	GIVES(cuCtxEnablePeerAccess(a->context, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	add(b, a->memory, 10);
	OK(cuStreamSynchronize(b->stream));
	on(a);
	expect(a->memory, 1012);
	GIVES(cuCtxDisablePeerAccess(b->context), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	on(b);
	OK(cuCtxDisablePeerAccess(a->context));
	GIVES(cuCtxDisablePeerAccess(a->context), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}

static void pools(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemAccessDesc both = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	struct side *a = &sides[0], *b = &sides[1];
	CUmemAccess_flags flags;
	CUmemoryPool pool;
	CUdeviceptr p;

	on(a);
	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemPoolGetAccess(&flags, pool, &both.location));
	CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE);
	OK(cuMemPoolSetAccess(pool, &both, 1));
	OK(cuMemPoolGetAccess(&flags, pool, &both.location));
	CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	OK(cuMemAllocFromPoolAsync(&p, BYTES, pool, a->stream));
	OK(cuStreamSynchronize(a->stream));
	fill(p, 30);
	on(b);
	add(b, p, 3);
	OK(cuStreamSynchronize(b->stream));
	on(a);
	expect(p, 33);
	OK(cuMemFreeAsync(p, a->stream));
	OK(cuStreamSynchronize(a->stream));
	OK(cuMemPoolDestroy(pool));
}

static void mappings(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
	CUmemAccessDesc access[2] = {{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
				     {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
	CUmemGenericAllocationHandle handle;
	struct side *a = &sides[0], *b = &sides[1];
	size_t step, size;
	CUdeviceptr p;

	on(a);
	OK(cuMemGetAllocationGranularity(&step, &prop, 0));
	size = (BYTES + step - 1) / step * step;
	OK(cuMemAddressReserve(&p, size, 0, 0, 0));
	OK(cuMemCreate(&handle, size, &prop, 0));
	OK(cuMemMap(p, size, 0, handle, 0));
	OK(cuMemSetAccess(p, size, access, 2));
	fill(p, 60);
	add(a, p, 3);
	OK(cuStreamSynchronize(a->stream));
	on(b);
	add(b, p, 3);
	OK(cuStreamSynchronize(b->stream));
	expect(p, 66);
	OK(cuMemUnmap(p, size));
	OK(cuMemRelease(handle));
	OK(cuMemAddressFree(p, size));
}

static void atomics(void)
{
	const CUatomicOperation operations[] = {CU_ATOMIC_OPERATION_FLOAT_ADD, CU_ATOMIC_OPERATION_CAS};
	unsigned int capabilities[2] = {77, 77};
	int native;

	OK(cuDeviceGetP2PAttribute(&native, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 1, 0));
	OK(cuDeviceGetP2PAtomicCapabilities(capabilities, operations, 2, 1, 0));
	CHECK(!native || capabilities[1] & CU_ATOMIC_CAPABILITY_SCALAR_32);
	CHECK(capabilities[0] != 77 && capabilities[1] != 77);
}

int main(void)
{
	int count, reach = 0;

	OK(cuInit(0));
	OK(cuDeviceGetCount(&count));
	make(&sides[0], 0);
	one_device();
	if (count > 1) {
		make(&sides[1], 1);
		copies();
		atomics();
		OK(cuDeviceCanAccessPeer(&reach, 1, 0));
	}
	if (reach) {
		access_by_kernels();
		pools();
		mappings();
	}
	printf("peers: passed, %s\n", count < 2 ? "one device" : reach ? "two that reach each other" : "two");
	return 0;
}
