/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that a program destroys while kernels, or calls of its other threads, use them. */
#include "softgpu/test/backend-cpu-test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TEXELS 64
#define MAPPED (2u << 20)

/* Each of them but the first waits until gate[1] is set, having set gate[0], and is then at work for a while. */
#define WAITS                                                                                                          \
	"	ld.param.u64 %rd2, [gate];\n	mov.u32 %r1, 1;\n	st.volatile.global.u32 [%rd2], %r1;\n"                        \
	"AGAIN:\n	ld.volatile.global.u32 %r1, [%rd2+4];\n	setp.eq.u32 %p, %r1, 0;\n	@%p bra AGAIN;\n"                  \
	"	mov.u32 %r9, 20000;\n"
#define HEAD                                                                                                           \
	"{\n	.reg .pred %p; .reg .b32 %r<12>; .reg .b64 %rd<6>;\n	ld.param.u64 %rd1, [object];\n"                      \
	"	ld.param.u64 %rd3, [out];\n	mov.u32 %r2, %tid.x;\n	mul.wide.u32 %rd4, %r2, 4;\n	shl.b32 %r3, "               \
	"%r2, 2;\n"                                                                                                    \
	"	add.s64 %rd3, %rd3, %rd4;\n"
#define PARAMS "(.param .u64 object, .param .u64 gate, .param .u64 out)\n"
#define TAIL                                                                                                           \
	"	sub.u32 %r9, %r9, 1;\n	setp.ne.u32 %p, %r9, 0;\n	@%p bra MORE;\n	st.global.u32 [%rd3], "                     \
	"%r4;\n	ret;\n}\n"

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry fill" PARAMS HEAD
	"	add.u32 %r4, %r2, 100;\n	sust.b.1d.b32.trap [%rd1, {%r3}], {%r4};\n	ret;\n}\n"
	".visible .entry surface" PARAMS HEAD WAITS "MORE:\n	suld.b.1d.b32.trap {%r4}, [%rd1, {%r3}];\n" TAIL
	".visible .entry texture" PARAMS HEAD WAITS
	"MORE:\n	tex.1d.v4.u32.s32 {%r4, %r5, %r6, %r7}, [%rd1, {%r2}];\n" TAIL
	".visible .entry memory" PARAMS HEAD WAITS "	add.s64 %rd1, %rd1, %rd4;\n"
	"MORE:\n	st.volatile.global.u32 [%rd1], %r9;\n	ld.volatile.global.u32 %r4, [%rd1];\n" TAIL;

static CUfunction kernel(const char *name)
{
	CUmodule module;
	CUfunction f;

	assert_int_equal(cuda->cuModuleLoadData(&module, ptx), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleGetFunction(&f, module, name), CUDA_SUCCESS);
	return f;
}

/* ---- one call of another thread, while a kernel runs ---- */

struct call {
	CUcontext context;
	CUresult (*what)(uint64_t object);
	uint64_t object;
	CUresult result;
	bool returned; /* atomic */
};

static void *run_call(void *argument)
{
	struct call *c = argument;

	c->result = cuda->cuCtxSetCurrent(c->context);
	if (c->result == CUDA_SUCCESS)
		c->result = c->what(c->object);
	__atomic_store_n(&c->returned, true, __ATOMIC_RELEASE);
	return NULL;
}

/* The kernel uses `used` while `call` ends something that it needs: that waits, and the kernel finds all as it was. */
static void end_under_kernel(CUcontext context, const char *name, uint64_t used, struct call call,
			     uint32_t (*expected)(uint32_t))
{
	uint32_t *gate = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), out[TEXELS];
	CUfunction f = kernel(name);
	CUdeviceptr result;
	void *params[] = {&used, &gate, &result};
	pthread_t thread;
	bool early;

	call.context = context;
	assert_int_equal(cuda->cuMemHostRegister_v2(gate, 4096, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemAlloc_v2(&result, sizeof(out)), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLaunchKernel(f, 1, 1, 1, TEXELS, 1, 1, 0, NULL, params, NULL), CUDA_SUCCESS);
	while (!__atomic_load_n(&gate[0], __ATOMIC_ACQUIRE))
		usleep(100);
	assert_int_equal(pthread_create(&thread, NULL, run_call, &call), 0);
	usleep(20000);
	early = __atomic_load_n(&call.returned, __ATOMIC_ACQUIRE);
	__atomic_store_n(&gate[1], 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	assert_false(early);
	assert_int_equal(call.result, CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(out, result, sizeof(out)), CUDA_SUCCESS);
	for (uint32_t n = 0; n < TEXELS; n++)
		assert_int_equal(out[n], expected(n));
	/* the next kernel does not find it */
	assert_int_equal(cuda->cuLaunchKernel(f, 1, 1, 1, TEXELS, 1, 1, 0, NULL, params, NULL), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	cuda->cuMemHostUnregister(gate);
	munmap(gate, 4096);
}

/* ---- images ---- */

static uint32_t texel(uint32_t n)
{
	return n + 100;
}

static CUarray make_array(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {.Width = TEXELS,
				     .Format = CU_AD_FORMAT_UNSIGNED_INT32,
				     .NumChannels = 1,
				     .Flags = CUDA_ARRAY3D_SURFACE_LDST};
	CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_ARRAY};
	uint64_t none = 0;
	CUsurfObject s;
	void *params[] = {&s, &none, &none};
	CUarray array;

	assert_int_equal(cuda->cuArray3DCreate_v2(&array, &d), CUDA_SUCCESS);
	r.res.array.hArray = array;
	assert_int_equal(cuda->cuSurfObjectCreate(&s, &r), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLaunchKernel(kernel("fill"), 1, 1, 1, TEXELS, 1, 1, 0, NULL, params, NULL),
			 CUDA_SUCCESS);
	assert_int_equal(cuda->cuSurfObjectDestroy(s), CUDA_SUCCESS);
	return array;
}

static CUtexObject make_texture(CUarray array)
{
	CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array};
	CUDA_TEXTURE_DESC d = {.flags = CU_TRSF_READ_AS_INTEGER};
	CUtexObject t;

	assert_int_equal(cuda->cuTexObjectCreate(&t, &r, &d, NULL), CUDA_SUCCESS);
	return t;
}

static CUsurfObject make_surface(CUarray array)
{
	CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array};
	CUsurfObject s;

	assert_int_equal(cuda->cuSurfObjectCreate(&s, &r), CUDA_SUCCESS);
	return s;
}

static CUresult end_array(uint64_t array)
{
	return cuda->cuArrayDestroy((CUarray)(uintptr_t)array);
}

static CUresult end_texture(uint64_t object)
{
	return cuda->cuTexObjectDestroy(object);
}

static CUresult end_surface(uint64_t object)
{
	return cuda->cuSurfObjectDestroy(object);
}

static void test_array_of_texture(void **state)
{
	CUarray a = make_array();

	end_under_kernel(*state, "texture", make_texture(a), (struct call){.what = end_array, .object = (uintptr_t)a},
			 texel);
}

static void test_array_of_surface(void **state)
{
	CUarray a = make_array();

	end_under_kernel(*state, "surface", make_surface(a), (struct call){.what = end_array, .object = (uintptr_t)a},
			 texel);
}

static void test_texture(void **state)
{
	CUtexObject t = make_texture(make_array());

	end_under_kernel(*state, "texture", t, (struct call){.what = end_texture, .object = t}, texel);
}

static void test_surface(void **state)
{
	CUsurfObject s = make_surface(make_array());

	end_under_kernel(*state, "surface", s, (struct call){.what = end_surface, .object = s}, texel);
}

static CUstream start_kernel(CUfunction f, uint64_t used, uint32_t *gate, CUdeviceptr out)
{
	void *params[] = {&used, &gate, &out};
	CUstream s;

	assert_int_equal(cuda->cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLaunchKernel(f, 1, 1, 1, TEXELS, 1, 1, 0, s, params, NULL), CUDA_SUCCESS);
	return s;
}

/* A kernel that starts while the array's end waits for another finds the array as well. */
static void test_array_of_later_kernel(void **state)
{
	uint32_t *gates = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), out[TEXELS];
	CUfunction f = kernel("surface");
	CUarray a = make_array();
	CUsurfObject surface = make_surface(a);
	struct call call = {.context = *state, .what = end_array, .object = (uintptr_t)a};
	CUdeviceptr result;
	pthread_t thread;
	CUstream first;
	bool early;

	assert_int_equal(cuda->cuMemHostRegister_v2(gates, 4096, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemAlloc_v2(&result, sizeof(out)), CUDA_SUCCESS);
	first = start_kernel(f, surface, gates, result);
	assert_int_equal(pthread_create(&thread, NULL, run_call, &call), 0);
	usleep(20000);
	start_kernel(f, surface, gates + 2, result);
	while (!__atomic_load_n(&gates[2], __ATOMIC_ACQUIRE))
		usleep(100);
	__atomic_store_n(&gates[1], 1, __ATOMIC_RELEASE);
	assert_int_equal(cuda->cuStreamSynchronize(first), CUDA_SUCCESS);
	usleep(20000);
	early = __atomic_load_n(&call.returned, __ATOMIC_ACQUIRE);
	__atomic_store_n(&gates[3], 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	assert_false(early);
	assert_int_equal(call.result, CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(out, result, sizeof(out)), CUDA_SUCCESS);
	for (uint32_t n = 0; n < TEXELS; n++)
		assert_int_equal(out[n], texel(n));
	assert_int_equal(cuda->cuMemHostUnregister(gates), CUDA_SUCCESS);
	munmap(gates, 4096);
}

/* ---- mapped memory ---- */

static CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				   .requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC,
				   .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

static uint32_t last_store(uint32_t n)
{
	return 1;
}

static CUresult unmap(uint64_t p)
{
	return cuda->cuMemUnmap(p, MAPPED);
}

/* The handle is gone before the kernel starts: the mapping keeps the memory, and unmapping waits for the kernel. */
static void test_mapping(void **state)
{
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	uint64_t handle;
	CUdeviceptr p;

	assert_int_equal(cuda->cuMemCreate(&handle, MAPPED, &prop, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemAddressReserve(&p, MAPPED, 0, 0, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemMap(p, MAPPED, 0, handle, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemSetAccess(p, MAPPED, &access, 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemRelease(handle), CUDA_SUCCESS);
	end_under_kernel(*state, "memory", p, (struct call){.what = unmap, .object = p}, last_store);
	assert_int_equal(cuda->cuMemAddressFree(p, MAPPED), CUDA_SUCCESS);
}

/* A handle that was released, or never was one, is refused by all that take one. */
static void test_released_handle(void **state)
{
	uint64_t handle, wild[] = {0, 8, (uintptr_t)&prop};
	unsigned char shared[64];
	CUdeviceptr p;

	assert_int_equal(cuda->cuMemAddressReserve(&p, MAPPED, 0, 0, 0), CUDA_SUCCESS);
	for (size_t n = 0; n < sizeof(wild) / sizeof(*wild) + 1; n++) {
		if (n) {
			handle = wild[n - 1];
		} else {
			assert_int_equal(cuda->cuMemCreate(&handle, MAPPED, &prop, 0), CUDA_SUCCESS);
			assert_int_equal(cuda->cuMemRelease(handle), CUDA_SUCCESS);
		}
		assert_int_equal(cuda->cuMemMap(p, MAPPED, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(cuda->cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(cuda->cuMemExportToShareableHandle(shared, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0),
				 CUDA_ERROR_INVALID_VALUE);
	}
	assert_int_equal(cuda->cuMemAddressFree(p, MAPPED), CUDA_SUCCESS);
}

/* Threads that map and export what another releases at that time: each call works or is refused. */
struct racer {
	pthread_t thread;
	_Atomic uint64_t *handle;
	bool *stop;
	CUdeviceptr p;
	bool ok;
};

static void *race(void *argument)
{
	struct racer *r = argument;
	unsigned char shared[64];

	r->ok = true;
	while (!__atomic_load_n(r->stop, __ATOMIC_ACQUIRE)) {
		uint64_t handle = *r->handle;
		CUresult mapped = cuda->cuMemMap(r->p, MAPPED, 0, handle, 0);
		CUresult exported = cuda->cuMemExportToShareableHandle(shared, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0);

		r->ok &= mapped == CUDA_SUCCESS || mapped == CUDA_ERROR_INVALID_VALUE;
		r->ok &= exported == CUDA_SUCCESS || exported == CUDA_ERROR_INVALID_VALUE;
		if (mapped == CUDA_SUCCESS)
			r->ok &= cuda->cuMemUnmap(r->p, MAPPED) == CUDA_SUCCESS;
	}
	return NULL;
}

static void test_racing_handles(void **state)
{
	_Atomic uint64_t handle = 0;
	struct racer racers[2];
	bool stop = false;
	uint64_t made;

	for (int n = 0; n < 2; n++) {
		racers[n] = (struct racer){.handle = &handle, .stop = &stop};
		assert_int_equal(cuda->cuMemAddressReserve(&racers[n].p, MAPPED, 0, 0, 0), CUDA_SUCCESS);
		assert_int_equal(pthread_create(&racers[n].thread, NULL, race, &racers[n]), 0);
	}
	for (int n = 0; n < 500; n++) {
		assert_int_equal(cuda->cuMemCreate(&made, MAPPED, &prop, 0), CUDA_SUCCESS);
		handle = made;
		usleep(20);
		assert_int_equal(cuda->cuMemRelease(made), CUDA_SUCCESS);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (int n = 0; n < 2; n++) {
		pthread_join(racers[n].thread, NULL);
		assert_true(racers[n].ok);
		assert_int_equal(cuda->cuMemAddressFree(racers[n].p, MAPPED), CUDA_SUCCESS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_CONTEXT(test_array_of_texture), IN_CONTEXT(test_array_of_surface),      IN_CONTEXT(test_texture),
		IN_CONTEXT(test_surface),          IN_CONTEXT(test_array_of_later_kernel), IN_CONTEXT(test_mapping),
		IN_CONTEXT(test_released_handle),  IN_CONTEXT(test_racing_handles),
	};

	init_device();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
