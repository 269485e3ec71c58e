/* SPDX-License-Identifier: Apache-2.0 */
/* The cuda back end's charges for device memory, over a driver of the test's own with two GPUs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <dlfcn.h>

#include "host/backend-cuda/ipc.h"
#include "host/backend-cuda/meter.h"
#include "host/backend-cuda/nvml.h"

#define MIB (1ull << 20)
#define GPUS 2
#define TOTAL (80ull << 30)

#define CONTEXT(gpu) ((CUcontext)(uintptr_t)(0x100 + (gpu)))
#define STREAM(gpu) ((CUstream)(uintptr_t)(0x200 + (gpu)))
#define POOL(gpu) ((CUmemoryPool)(uintptr_t)(0x300 + (gpu)))
#define OWN_POOL ((CUmemoryPool)0x400)

/* ---- the meter ---- */

static uint64_t taken[GPUS], most = UINT64_MAX;

static bool take(unsigned int gpu, uint64_t bytes)
{
	if (bytes > most - taken[gpu])
		return false;
	taken[gpu] += bytes;
	return true;
}

static void give(unsigned int gpu, uint64_t bytes)
{
	assert_true(bytes <= taken[gpu]);
	taken[gpu] -= bytes;
}

static bool limit(unsigned int gpu, uint64_t *all, uint64_t *left)
{
	*all = TOTAL;
	*left = TOTAL - taken[gpu];
	return true;
}

static const struct vcuda_meter meter = {.take = take, .give = give, .limit = limit};

/* ---- the driver ---- */

static CUcontext current = CONTEXT(0);
static uint64_t all_used, own_used; /* as the driver and the management library say */
static bool knows_own = true;
static uint64_t module_bytes, neighbour_bytes; /* taken by a module, by another process meanwhile */
static uint64_t reserved[3];                   /* of the pools: the GPUs' own, and OWN_POOL */
static uint64_t next_handle = 0x1000, next_address = 0x70000000;
static bool same_handle; /* an import gives the handle that is there */

static CUresult get_current(CUcontext *context)
{
	*context = current;
	return CUDA_SUCCESS;
}

static CUresult set_current(CUcontext context)
{
	current = context;
	return CUDA_SUCCESS;
}

/* Both are looked up by name. */
CUresult cuCtxGetDevice(CUdevice *device);
CUresult cuStreamGetCtx(CUstream stream, CUcontext *context);

CUresult cuCtxGetDevice(CUdevice *device)
{
	*device = (CUdevice)((uintptr_t)current - (uintptr_t)CONTEXT(0));
	return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
	*context = stream ? CONTEXT((uintptr_t)stream - (uintptr_t)STREAM(0)) : current;
	return CUDA_SUCCESS;
}

static CUresult get_count(int *count)
{
	*count = GPUS;
	return CUDA_SUCCESS;
}

static CUresult get_pool(CUmemoryPool *pool, CUdevice device)
{
	*pool = POOL(device);
	return CUDA_SUCCESS;
}

static uint64_t *reserved_of(CUmemoryPool pool)
{
	return &reserved[pool == OWN_POOL ? GPUS : (uintptr_t)pool - (uintptr_t)POOL(0)];
}

static CUresult pool_attribute(CUmemoryPool pool, int which, void *value)
{
	*(uint64_t *)value = *reserved_of(pool);
	return CUDA_SUCCESS;
}

static CUresult pool_trim(CUmemoryPool pool, size_t keep)
{
	return CUDA_SUCCESS;
}

static CUresult pool_create(CUmemoryPool *pool, void *props)
{
	*pool = OWN_POOL;
	return CUDA_SUCCESS;
}

static CUresult pool_destroy(CUmemoryPool pool)
{
	return CUDA_SUCCESS;
}

static CUresult alloc_from_pool(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	*address = next_address += MIB;
	*reserved_of(pool) += bytes;
	return CUDA_SUCCESS;
}

static CUresult alloc_async(CUdeviceptr *address, size_t bytes, CUstream stream)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult free_async(CUdeviceptr address, CUstream stream)
{
	for (int i = 0; i <= GPUS; i++)
		reserved[i] = 0;
	return CUDA_SUCCESS;
}

static CUresult create(uint64_t *handle, size_t size, void *prop, uint64_t flags)
{
	*handle = next_handle++;
	return CUDA_SUCCESS;
}

static CUresult succeed(uint64_t handle)
{
	return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr address, size_t size, size_t offset, uint64_t handle, uint64_t flags)
{
	return CUDA_SUCCESS;
}

static CUresult unmap(CUdeviceptr address, size_t size)
{
	return CUDA_SUCCESS;
}

/* The fake driver's descriptors hold the handle. */
static CUresult export(void *to, uint64_t handle, int type, uint64_t flags)
{
	int fd = memfd_create("driver", MFD_CLOEXEC);

	assert_int_equal(write(fd, &handle, sizeof(handle)), sizeof(handle));
	*(int *)to = fd;
	return CUDA_SUCCESS;
}

static CUresult import(uint64_t *handle, void *from, int type)
{
	uint64_t exported;

	assert_int_equal(pread((int)(intptr_t)from, &exported, sizeof(exported), 0), sizeof(exported));
	*handle = same_handle ? exported : next_handle++;
	return CUDA_SUCCESS;
}

static CUresult get_info(size_t *free, size_t *total)
{
	*total = TOTAL;
	*free = TOTAL - all_used;
	return CUDA_SUCCESS;
}

static CUresult bus_id(char *id, int length, CUdevice device)
{
	*id = '\0';
	return CUDA_SUCCESS;
}

/* Negative where the neighbour frees. */
static CUresult load(CUmodule *module, const void *image)
{
	*module = (CUmodule)(uintptr_t)next_handle++;
	own_used += module_bytes;
	all_used += module_bytes + neighbour_bytes;
	return CUDA_SUCCESS;
}

static CUresult unload(CUmodule module)
{
	own_used -= module_bytes;
	all_used -= module_bytes;
	return CUDA_SUCCESS;
}

/* The management library's. */
bool backend_nvml_own(const char *pci_bus_id, uint64_t *bytes)
{
	*bytes = own_used;
	return knows_own;
}

static struct vcuda_backend_ops ops = {
	.cuCtxGetCurrent = get_current,
	.cuCtxSetCurrent = set_current,
	.cuDeviceGetCount = get_count,
	.cuDeviceGetMemPool = get_pool,
	.cuDeviceGetDefaultMemPool = get_pool,
	.cuDeviceGetPCIBusId = bus_id,
	.cuMemPoolGetAttribute = pool_attribute,
	.cuMemPoolTrimTo = pool_trim,
	.cuMemPoolCreate = pool_create,
	.cuMemPoolDestroy = pool_destroy,
	.cuMemAllocAsync = alloc_async,
	.cuMemAllocFromPoolAsync = alloc_from_pool,
	.cuMemFreeAsync = free_async,
	.cuMemCreate = create,
	.cuMemRelease = succeed,
	.cuMemMap = map,
	.cuMemUnmap = unmap,
	.cuMemExportToShareableHandle = export,
	.cuMemImportFromShareableHandle = import,
	.cuMemGetInfo_v2 = get_info,
	.cuModuleLoadData = load,
	.cuModuleUnload = unload,
};

/* ---- tests ---- */

/* A program that has another GPU's context current. */
static void pools_are_of_the_streams_gpu(void **state)
{
	const CUmemPoolProps props = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemoryPool own;
	CUdeviceptr p;

	set_current(CONTEXT(0));
	assert_int_equal(ops.cuMemAllocAsync(&p, MIB, STREAM(1)), CUDA_SUCCESS);
	assert_int_equal(reserved[1], MIB);
	assert_int_equal(taken[0], 0);
	assert_int_equal(taken[1], MIB);
	assert_ptr_equal(current, CONTEXT(0));
	assert_int_equal(ops.cuMemFreeAsync(p, STREAM(1)), CUDA_SUCCESS);
	assert_int_equal(taken[1], 0);

	/* The current context's. */
	assert_int_equal(ops.cuMemAllocAsync(&p, MIB, NULL), CUDA_SUCCESS);
	assert_int_equal(taken[0], MIB);
	assert_int_equal(ops.cuMemFreeAsync(p, NULL), CUDA_SUCCESS);

	/* A pool by name is its own GPU's, whatever the stream is. */
	assert_int_equal(ops.cuMemPoolCreate(&own, (void *)&props), CUDA_SUCCESS);
	set_current(CONTEXT(1));
	assert_int_equal(ops.cuMemAllocFromPoolAsync(&p, MIB, own, STREAM(1)), CUDA_SUCCESS);
	assert_int_equal(taken[0], MIB);
	assert_int_equal(taken[1], 0);
	assert_int_equal(ops.cuMemFreeAsync(p, STREAM(1)), CUDA_SUCCESS);
	assert_int_equal(ops.cuMemPoolDestroy(own), CUDA_SUCCESS);
	set_current(CONTEXT(0));
	assert_int_equal(taken[0], 0);
}

static void default_pools_of_other_gpus(void **state)
{
	CUdeviceptr p;

	assert_int_equal(ops.cuMemAllocFromPoolAsync(&p, MIB, POOL(1), STREAM(1)), CUDA_SUCCESS);
	assert_int_equal(taken[0], 0);
	assert_int_equal(taken[1], MIB);
	assert_int_equal(ops.cuMemFreeAsync(p, STREAM(1)), CUDA_SUCCESS);
	assert_int_equal(taken[1], 0);
}

static uint64_t make(size_t bytes)
{
	CUmemAllocationProp prop = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	uint64_t handle;

	assert_int_equal(ops.cuMemCreate(&handle, bytes, &prop, 0), CUDA_SUCCESS);
	return handle;
}

static uint64_t export_and_import(uint64_t handle)
{
	uint8_t shared[64];
	uint64_t other;

	assert_int_equal(ops.cuMemExportToShareableHandle(shared, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0), CUDA_SUCCESS);
	assert_int_equal(ops.cuMemImportFromShareableHandle(&other, shared, CU_MEM_HANDLE_TYPE_FABRIC), CUDA_SUCCESS);
	return other;
}

/* Each handle and each mapping keeps the charge. */
static void second_names_keep_memory(void **state)
{
	for (int round = 0; round < 2; round++) {
		uint64_t first = make(4 * MIB), second, third;

		same_handle = round;
		second = export_and_import(first);
		assert_int_equal(first == second, round);
		assert_int_equal(taken[0], 4 * MIB);
		assert_int_equal(ops.cuMemRelease(first), CUDA_SUCCESS);
		assert_int_equal(taken[0], 4 * MIB);
		third = export_and_import(second);
		assert_int_equal(taken[0], 4 * MIB);
		assert_int_equal(ops.cuMemMap(0x5000000, 4 * MIB, 0, third, 0), CUDA_SUCCESS);
		assert_int_equal(ops.cuMemRelease(second), CUDA_SUCCESS);
		assert_int_equal(ops.cuMemRelease(third), CUDA_SUCCESS);
		assert_int_equal(taken[0], 4 * MIB);
		assert_int_equal(ops.cuMemUnmap(0x5000000, 4 * MIB), CUDA_SUCCESS);
		assert_int_equal(taken[0], 0);
	}
	same_handle = false;
}

/* A charge of what another process exported comes with its handle. */
static void another_process_is_charged_too(void **state)
{
	int there[2], back[2];
	uint8_t shared[64];
	uint64_t handle;
	char c = 0;
	pid_t child;

	assert_int_equal(pipe(there) | pipe(back), 0);
	child = fork();
	if (!child) {
		uint64_t first = make(8 * MIB);

		if (ops.cuMemExportToShareableHandle(shared, first, CU_MEM_HANDLE_TYPE_FABRIC, 0) != CUDA_SUCCESS ||
		    write(there[1], shared, sizeof(shared)) != sizeof(shared))
			_exit(1);
		close(back[1]);
		_exit(read(back[0], &c, 1) != 0);
	}
	close(back[0]);
	assert_int_equal(read(there[0], shared, sizeof(shared)), sizeof(shared));
	most = 7 * MIB;
	assert_int_equal(ops.cuMemImportFromShareableHandle(&handle, shared, CU_MEM_HANDLE_TYPE_FABRIC),
			 CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(taken[0], 0);
	most = UINT64_MAX;
	assert_int_equal(ops.cuMemImportFromShareableHandle(&handle, shared, CU_MEM_HANDLE_TYPE_FABRIC), CUDA_SUCCESS);
	assert_int_equal(taken[0], 8 * MIB);
	assert_int_equal(ops.cuMemRelease(handle), CUDA_SUCCESS);
	assert_int_equal(taken[0], 0);
	close(back[1]);
}

/* A neighbour takes and frees memory while a module is loaded. */
static void modules_cost_their_own_memory(void **state)
{
	static const int64_t neighbours[] = {0, 1 << 30, -(1 << 30)};
	CUmodule module;

	all_used = 10ull << 30;
	module_bytes = 16 * MIB;
	for (int i = 0; i < 3; i++) {
		neighbour_bytes = (uint64_t)neighbours[i];
		assert_int_equal(ops.cuModuleLoadData(&module, ""), CUDA_SUCCESS);
		assert_int_equal(taken[0], 16 * MIB);
		assert_int_equal(ops.cuModuleUnload(module), CUDA_SUCCESS);
		assert_int_equal(taken[0], 0);
	}
	/* A library that does not know this process leaves the device's free memory. */
	knows_own = false;
	neighbour_bytes = 0;
	assert_int_equal(ops.cuModuleLoadData(&module, ""), CUDA_SUCCESS);
	assert_int_equal(taken[0], 16 * MIB);
	assert_int_equal(ops.cuModuleUnload(module), CUDA_SUCCESS);
	knows_own = true;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* First: a process that was forked off has no thread that hands things out. */
		cmocka_unit_test(another_process_is_charged_too), cmocka_unit_test(default_pools_of_other_gpus),
		cmocka_unit_test(pools_are_of_the_streams_gpu),   cmocka_unit_test(second_names_keep_memory),
		cmocka_unit_test(modules_cost_their_own_memory),
	};

	backend_share(&ops);
	backend_meter_init(&ops, dlopen(NULL, RTLD_NOW), false, &meter);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
