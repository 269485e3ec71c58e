/* SPDX-License-Identifier: Apache-2.0 */
#include "meter.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#include "charge.h"
#include "nvml.h"

/* A context of a large GPU takes some 500 MiB. The first of a device cannot be measured without a context. */
#define FIRST_CONTEXT_BYTES (500ull << 20)

/* The driver's unit. */
#define GRAIN 512u

static struct vcuda_backend_ops driver;
static CUresult (*get_device)(CUdevice *device);
static CUresult (*get_stream_context)(CUstream stream, CUcontext *context);
static const struct vcuda_meter *meter;
static uint64_t first_context_bytes;

/* Held for writing while a call's cost is measured, so that no other call of this process changes the free memory. */
static pthread_rwlock_t measuring = PTHREAD_RWLOCK_INITIALIZER;

unsigned int backend_meter_gpu(void)
{
	CUdevice device = 0;

	return get_device && get_device(&device) == CUDA_SUCCESS ? (unsigned int)device : 0;
}

static uint64_t whole(uint64_t bytes)
{
	return bytes > UINT64_MAX - GRAIN ? bytes : (bytes + GRAIN - 1) / GRAIN * GRAIN;
}

static CUcontext current_context(void)
{
	CUcontext context = NULL;

	driver.cuCtxGetCurrent(&context);
	return context;
}

/* The default streams are the current context's. */
static CUcontext context_of(CUstream stream)
{
	CUcontext context;

	if (!get_stream_context || get_stream_context(stream, &context) != CUDA_SUCCESS)
		return current_context();
	return context;
}

unsigned int backend_meter_stream_gpu(CUstream stream)
{
	CUcontext before = current_context(), context = context_of(stream);
	unsigned int gpu;

	if (context == before || driver.cuCtxSetCurrent(context) != CUDA_SUCCESS)
		return backend_meter_gpu();
	gpu = backend_meter_gpu();
	driver.cuCtxSetCurrent(before);
	return gpu;
}

/* The object is there, or is not: then its charge goes. */
static CUresult enter(struct backend_charge *c, CUcontext context, uint64_t object, CUresult result)
{
	pthread_rwlock_unlock(&measuring);
	c->context = context;
	if (result == CUDA_SUCCESS)
		backend_charge_add(c, object);
	else
		backend_charge_free(c);
	return result;
}

/* Before the driver makes an object of this cost. NULL: it must not. Ends with enter(). */
static struct backend_charge *begin(enum backend_charge_kind kind, uint64_t bytes)
{
	struct backend_charge *c = backend_charge_new(kind, backend_meter_gpu(), whole(bytes));

	if (c)
		pthread_rwlock_rdlock(&measuring);
	return c;
}

/* After the driver has freed it. */
static CUresult settle(enum backend_charge_kind kind, uint64_t object, CUresult result)
{
	struct backend_charge *c = result == CUDA_SUCCESS ? backend_charge_remove(kind, object) : NULL;

	if (c)
		backend_charge_free(c);
	return result;
}

/* ---- memory and arrays ---- */

static CUresult mem_alloc(CUdeviceptr *p, size_t bytes)
{
	struct backend_charge *c = begin(BACKEND_ADDRESS, bytes);
	CUresult result;

	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = driver.cuMemAlloc_v2(p, bytes);
	return enter(c, current_context(), result == CUDA_SUCCESS ? *p : 0, result);
}

static CUresult mem_alloc_pitch(CUdeviceptr *p, size_t *pitch, size_t width, size_t height, unsigned int element)
{
	uint64_t bytes;
	struct backend_charge *c;
	CUresult result;

	if (__builtin_mul_overflow(whole(width), height, &bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	c = begin(BACKEND_ADDRESS, bytes);
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = driver.cuMemAllocPitch_v2(p, pitch, width, height, element);
	return enter(c, current_context(), result == CUDA_SUCCESS ? *p : 0, result);
}

static CUresult mem_free(CUdeviceptr p)
{
	CUresult result = settle(BACKEND_ADDRESS, p, driver.cuMemFree_v2(p));

	if (result == CUDA_SUCCESS)
		backend_meter_pool_freed(p);
	return result;
}

/* Imported memory counts here as well: this process may have made it, or the maker's row may end before the import. */
static CUresult ipc_open(CUdeviceptr *p, CUipcMemHandle handle, unsigned int flags)
{
	CUresult result = driver.cuIpcOpenMemHandle_v2(p, handle, flags);
	CUdeviceptr base;
	size_t bytes = 0;
	struct backend_charge *c;

	if (result != CUDA_SUCCESS)
		return result;
	if (driver.cuMemGetAddressRange_v2)
		driver.cuMemGetAddressRange_v2(&base, &bytes, *p);
	c = begin(BACKEND_ADDRESS, bytes);
	if (c)
		return enter(c, current_context(), *p, CUDA_SUCCESS);
	driver.cuIpcCloseMemHandle(*p);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult ipc_close(CUdeviceptr p)
{
	return settle(BACKEND_ADDRESS, p, driver.cuIpcCloseMemHandle(p));
}

static uint64_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	bool is_byte = d->Format == CU_AD_FORMAT_UNSIGNED_INT8 || d->Format == CU_AD_FORMAT_SIGNED_INT8;
	bool is_half = d->Format == CU_AD_FORMAT_UNSIGNED_INT16 || d->Format == CU_AD_FORMAT_SIGNED_INT16 ||
		       d->Format == CU_AD_FORMAT_HALF;

	return (is_byte ? 1ull : is_half ? 2ull : 4ull) * d->NumChannels;
}

static uint64_t level(uint64_t size, unsigned int n)
{
	size = n < 64 ? size >> n : 0;
	return size ? size : 1;
}

/* UINT64_MAX: more than there is anywhere. A mipmapped array's depth shrinks too, unless its levels are layered. */
static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
	uint64_t sum = 0, bytes;

	/* A size of 64 bits can be halved 64 times; later levels have one element. */
	for (unsigned int n = 0; n < (levels < 64 ? levels : 64); n++) {
		uint64_t depth = level(d->Depth, d->Flags & CUDA_ARRAY3D_LAYERED ? 0 : n);

		if (__builtin_mul_overflow(level(d->Width, n), level(d->Height, n), &bytes) ||
		    __builtin_mul_overflow(bytes, depth, &bytes) ||
		    __builtin_mul_overflow(bytes, element_bytes(d), &bytes) || __builtin_add_overflow(sum, bytes, &sum))
			return UINT64_MAX;
		if (level(d->Width, n) == 1 && level(d->Height, n) == 1 && depth == 1)
			break;
	}
	return sum;
}

static CUresult array_create(CUarray *array, void *descriptor)
{
	struct backend_charge *c = begin(BACKEND_ARRAY, array_bytes(descriptor, 1));
	CUresult result;

	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = driver.cuArray3DCreate_v2(array, descriptor);
	return enter(c, current_context(), result == CUDA_SUCCESS ? (uintptr_t)*array : 0, result);
}

static CUresult array_destroy(CUarray array)
{
	return settle(BACKEND_ARRAY, (uintptr_t)array, driver.cuArrayDestroy(array));
}

static CUresult mipmapped_create(CUmipmappedArray *array, void *descriptor, unsigned int levels)
{
	struct backend_charge *c = begin(BACKEND_MIPMAPPED, array_bytes(descriptor, levels));
	CUresult result;

	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = driver.cuMipmappedArrayCreate(array, descriptor, levels);
	return enter(c, current_context(), result == CUDA_SUCCESS ? (uintptr_t)*array : 0, result);
}

static CUresult mipmapped_destroy(CUmipmappedArray array)
{
	return settle(BACKEND_MIPMAPPED, (uintptr_t)array, driver.cuMipmappedArrayDestroy(array));
}

/* ---- what is measured ---- */

struct measure {
	bool alone;      /* no other call of this process changes its memory */
	bool is_own;     /* the figures are those of this process, else of all processes */
	uint64_t before; /* UINT64_MAX: nothing is measured */
	struct backend_charge *charge;
};

/* Returns the memory that this process has of the current context's device; UINT64_MAX: NVML does not know. */
static uint64_t own_memory(void)
{
	char id[32];
	uint64_t bytes;

	if (!driver.cuDeviceGetPCIBusId ||
	    driver.cuDeviceGetPCIBusId(id, sizeof(id), (CUdevice)backend_meter_gpu()) != CUDA_SUCCESS)
		return UINT64_MAX;
	return backend_nvml_own(id, &bytes) ? bytes : UINT64_MAX;
}

static uint64_t memory_of_all(void)
{
	size_t free, total;

	return driver.cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS ? total - free : UINT64_MAX;
}

static void measure_before(struct measure *m)
{
	m->before = own_memory();
	m->is_own = m->before != UINT64_MAX;
	if (!m->is_own)
		m->before = memory_of_all();
}

/* With a charge that is in no table, NULL: there is no memory. Without a limit nothing is measured. */
static bool measure_begin(struct measure *m, struct backend_charge *charge)
{
	uint64_t limit, left;

	*m = (struct measure){.before = UINT64_MAX, .charge = charge};
	if (!charge)
		return false;
	m->alone = meter->limit(backend_meter_gpu(), &limit, &left);
	if (m->alone) {
		backend_meter_pools_hold();
		pthread_rwlock_wrlock(&measuring);
		measure_before(m);
	} else {
		pthread_rwlock_rdlock(&measuring);
	}
	return true;
}

static bool measure_new(struct measure *m, enum backend_charge_kind kind)
{
	return measure_begin(m, backend_charge_new(kind, backend_meter_gpu(), 0));
}

/* False: it costs more than there may be. */
static bool measure_end(struct measure *m)
{
	uint64_t after = m->before == UINT64_MAX ? UINT64_MAX : m->is_own ? own_memory() : memory_of_all();
	uint64_t sum = m->charge->bytes + after;

	return after == UINT64_MAX || backend_charge_resize(m->charge, sum > m->before ? sum - m->before : 0);
}

static CUresult enter_measured(struct measure *m, CUcontext context, uint64_t object, CUresult result)
{
	result = enter(m->charge, context, object, result);
	if (m->alone)
		backend_meter_pools_let_go();
	return result;
}

static CUresult enter_module(struct measure *m, CUmodule *module, CUresult result)
{
	if (result == CUDA_SUCCESS && !measure_end(m)) {
		driver.cuModuleUnload(*module);
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return enter_measured(m, current_context(), result == CUDA_SUCCESS ? (uintptr_t)*module : 0, result);
}

static CUresult module_load(CUmodule *module, const void *image)
{
	struct measure m;

	if (!measure_new(&m, BACKEND_MODULE))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return enter_module(&m, module, driver.cuModuleLoadData(module, image));
}

static CUresult module_load_ex(CUmodule *module, const void *image, unsigned int count, CUjit_option *options,
			       void **values)
{
	struct measure m;

	if (!measure_new(&m, BACKEND_MODULE))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return enter_module(&m, module, driver.cuModuleLoadDataEx(module, image, count, options, values));
}

static CUresult module_unload(CUmodule module)
{
	return settle(BACKEND_MODULE, (uintptr_t)module, driver.cuModuleUnload(module));
}

static CUresult library_load(CUlibrary *library, const void *code, CUjit_option *options, void **values,
			     unsigned int count, CUlibraryOption *library_options, void **library_values,
			     unsigned int library_count)
{
	struct measure m;
	CUresult result;

	if (!measure_new(&m, BACKEND_LIBRARY))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = driver.cuLibraryLoadData(library, code, options, values, count, library_options, library_values,
					  library_count);
	if (result == CUDA_SUCCESS && !measure_end(&m)) {
		driver.cuLibraryUnload(*library);
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return enter_measured(&m, NULL, result == CUDA_SUCCESS ? (uintptr_t)*library : 0, result);
}

static CUresult library_unload(CUlibrary library)
{
	return settle(BACKEND_LIBRARY, (uintptr_t)library, driver.cuLibraryUnload(library));
}

/* The one charge of the context's limits. Heap, printf buffer and stacks end with the context. */
static struct backend_charge *charge_of_limits(CUcontext context)
{
	struct backend_charge *c = backend_charge_remove(BACKEND_CONTEXT, (uintptr_t)context);

	return c ? c : backend_charge_new(BACKEND_CONTEXT, backend_meter_gpu(), 0);
}

static CUresult set_limit(CUlimit limit, size_t value)
{
	CUcontext context = current_context();
	struct measure m;
	size_t before = 0;
	CUresult result;

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	driver.cuCtxGetLimit(&before, limit);
	if (!measure_begin(&m, charge_of_limits(context)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = driver.cuCtxSetLimit(limit, value);
	if (result == CUDA_SUCCESS && !measure_end(&m)) {
		driver.cuCtxSetLimit(limit, before);
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	enter_measured(&m, context, (uintptr_t)context, CUDA_SUCCESS);
	return result;
}

/* ---- contexts ---- */

static bool is_active(CUdevice device)
{
	unsigned int flags;
	int active = 0;

	return driver.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active;
}

static CUresult context_create(CUcontext *context, unsigned int flags, CUdevice device)
{
	struct backend_charge *c = backend_charge_new(BACKEND_CONTEXT, (unsigned int)device, first_context_bytes);
	CUresult result;

	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_rwlock_rdlock(&measuring);
	result = driver.cuCtxCreate_v2(context, flags, device);
	return enter(c, result == CUDA_SUCCESS ? *context : NULL, 0, result);
}

static CUresult context_destroy(CUcontext context)
{
	CUresult result = driver.cuCtxDestroy_v2(context);

	if (result == CUDA_SUCCESS)
		backend_charge_end_context(context);
	return result;
}

/* From the question whether a primary context is active to its charge. */
static pthread_mutex_t primaries = PTHREAD_MUTEX_INITIALIZER;

static CUresult retain_and_charge(CUcontext *context, CUdevice device)
{
	struct backend_charge *c;
	CUresult result;

	if (is_active(device))
		return driver.cuDevicePrimaryCtxRetain(context, device);
	c = backend_charge_new(BACKEND_CONTEXT, (unsigned int)device, first_context_bytes);
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_rwlock_rdlock(&measuring);
	result = driver.cuDevicePrimaryCtxRetain(context, device);
	return enter(c, result == CUDA_SUCCESS ? *context : NULL, 0, result);
}

static CUresult primary_retain(CUcontext *context, CUdevice device)
{
	CUresult result;

	pthread_mutex_lock(&primaries);
	result = retain_and_charge(context, device);
	pthread_mutex_unlock(&primaries);
	return result;
}

/* The context, as long as it is active; retaining it for that leaves the count as it was. */
static CUcontext primary(CUdevice device)
{
	CUcontext context = NULL;

	if (is_active(device) && driver.cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS)
		driver.cuDevicePrimaryCtxRelease_v2(device);
	return context;
}

static CUresult end_primary(CUdevice device, CUresult (*end)(CUdevice device))
{
	CUcontext context;
	CUresult result;

	pthread_mutex_lock(&primaries);
	context = primary(device);
	result = end(device);
	if (result == CUDA_SUCCESS && !is_active(device))
		backend_charge_end_context(context);
	pthread_mutex_unlock(&primaries);
	return result;
}

static CUresult primary_release(CUdevice device)
{
	return end_primary(device, driver.cuDevicePrimaryCtxRelease_v2);
}

static CUresult primary_reset(CUdevice device)
{
	return end_primary(device, driver.cuDevicePrimaryCtxReset_v2);
}

/* ---- what programs see ---- */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static CUresult get_info(size_t *free, size_t *total)
{
	CUresult result = driver.cuMemGetInfo_v2(free, total);
	uint64_t limit, left;

	backend_meter_settle_pools();
	if (result != CUDA_SUCCESS || !meter->limit(backend_meter_gpu(), &limit, &left))
		return result;
	*total = least(*total, limit);
	*free = least(least(*free, left), *total);
	return result;
}

static CUresult total_memory(size_t *bytes, CUdevice device)
{
	CUresult result = driver.cuDeviceTotalMem_v2(bytes, device);
	uint64_t limit, left;

	if (result == CUDA_SUCCESS && meter->limit((unsigned int)device, &limit, &left))
		*bytes = least(*bytes, limit);
	return result;
}

#define REPLACE(name, function)                                                                                        \
	do {                                                                                                           \
		if (ops->name)                                                                                         \
			ops->name = function;                                                                          \
	} while (0)

void backend_meter_init(struct vcuda_backend_ops *ops, void *driver_library, bool nested, const struct vcuda_meter *to)
{
	driver = *ops;
	meter = to;
	first_context_bytes = nested ? 0 : FIRST_CONTEXT_BYTES;
	get_device = (CUresult(*)(CUdevice *))dlsym(driver_library, "cuCtxGetDevice");
	get_stream_context = (CUresult(*)(CUstream, CUcontext *))dlsym(driver_library, "cuStreamGetCtx");
	backend_charge_init(to, backend_meter_reclaim);
	REPLACE(cuMemAlloc_v2, mem_alloc);
	REPLACE(cuMemAllocPitch_v2, mem_alloc_pitch);
	REPLACE(cuMemFree_v2, mem_free);
	REPLACE(cuIpcOpenMemHandle_v2, ipc_open);
	REPLACE(cuIpcCloseMemHandle, ipc_close);
	REPLACE(cuArray3DCreate_v2, array_create);
	REPLACE(cuArrayDestroy, array_destroy);
	REPLACE(cuMipmappedArrayCreate, mipmapped_create);
	REPLACE(cuMipmappedArrayDestroy, mipmapped_destroy);
	REPLACE(cuModuleLoadData, module_load);
	REPLACE(cuModuleLoadDataEx, module_load_ex);
	REPLACE(cuModuleUnload, module_unload);
	REPLACE(cuLibraryLoadData, library_load);
	REPLACE(cuLibraryUnload, library_unload);
	REPLACE(cuCtxSetLimit, set_limit);
	REPLACE(cuCtxCreate_v2, context_create);
	REPLACE(cuCtxDestroy_v2, context_destroy);
	REPLACE(cuDevicePrimaryCtxRetain, primary_retain);
	REPLACE(cuDevicePrimaryCtxRelease_v2, primary_release);
	REPLACE(cuDevicePrimaryCtxReset_v2, primary_reset);
	REPLACE(cuMemGetInfo_v2, get_info);
	REPLACE(cuDeviceTotalMem_v2, total_memory);
	backend_meter_pools(ops);
	backend_meter_mappings(ops);
}
