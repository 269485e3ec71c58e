/* SPDX-License-Identifier: Apache-2.0 */
#include "core/context.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/hooks.h"
#include "core/device.h"
#include "protocol/guest-calls.h"
#include "core/object.h"
#include "core/request.h"
#include "core/storage.h"
#include "core/thread.h"

#define API_VERSION 3020

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the list, primary contexts' refs */
static struct libcuda_context *_Atomic contexts;
static _Atomic uint64_t context_count;

/* Streams that NVIDIA's driver makes with a context. The second of them is the default stream. */
#define OWN_STREAMS 7

bool libcuda_context_is_only_one(void)
{
	return atomic_load(&context_count) == 1;
}

bool libcuda_context_is_idle(const struct libcuda_context *context)
{
	return context && libcuda_context_is_only_one() && client_call_is_idle(&context->calls);
}

/* The list only grows, at its head: no lock to read it. */
struct libcuda_context *libcuda_context_find(CUcontext handle)
{
	struct libcuda_context *c;

	for (c = atomic_load(&contexts); c; c = c->next)
		if (libcuda_context_handle(c) == handle)
			return c;
	return NULL;
}

/* The caller holds the lock. */
static struct libcuda_context *add_context(CUdevice device, bool primary)
{
	struct libcuda_context *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->device = device;
	c->primary = primary;
	c->api_version = API_VERSION;
	atomic_store(&c->flags, -1);
	atomic_fetch_add(&context_count, 1);
	c->next = atomic_load(&contexts);
	atomic_store(&contexts, c);
	return c;
}

/* The worker has made the context, which natively has numbers of its own each time. */
static void begin_life(struct libcuda_context *c, CUcontext id)
{
	static _Atomic uint64_t numbers;

	c->number = atomic_fetch_add(&numbers, 1) + 1;
	c->stream_number = libcuda_stream_numbers_take(OWN_STREAMS) + 1;
	atomic_store(&c->calls.id, id);
}

static struct libcuda_context *find_primary(CUdevice device)
{
	struct libcuda_context *c;

	for (c = atomic_load(&contexts); c; c = c->next)
		if (c->primary && c->device == device)
			break;
	return c;
}

static struct libcuda_context *primary_locked(CUdevice device)
{
	struct libcuda_context *c = find_primary(device);

	return c ? c : add_context(device, true);
}

struct libcuda_context *libcuda_context_primary(CUdevice device)
{
	struct libcuda_context *c = find_primary(device);

	if (c)
		return c;
	pthread_mutex_lock(&lock);
	c = primary_locked(device);
	pthread_mutex_unlock(&lock);
	return c;
}

CUresult libcuda_context_usable(struct libcuda_context *context)
{
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!atomic_load(&context->calls.id))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return (CUresult)atomic_load(&context->error);
}

CUresult libcuda_require_context(void)
{
	CUresult result = libcuda_require_init();

	return result != CUDA_SUCCESS ? result : libcuda_context_usable(libcuda_context_current());
}

CUresult libcuda_require_context_or(struct libcuda_context *home)
{
	struct libcuda_context *c = libcuda_context_current();
	CUresult result = libcuda_require_init();

	c = c ? c : home;
	return result != CUDA_SUCCESS || !c ? result : libcuda_context_usable(c);
}

/* The context is about to end in the worker: what lived in it is forgotten here. */
static void forget_contents(struct libcuda_context *c)
{
	const struct call_options how = libcuda_context_options(c);

	if (atomic_load(&c->calls.id))
		vcuda_call_vcudaContextEnds_with(&how);
	libcuda_hooks_context_ends(c);
	atomic_fetch_add(&c->generation, 1);
	libcuda_hooks_context_ended(c);
	libcuda_objects_drop_context(c);
	libcuda_hooks_context_memory_ends(c);
}

/* ---- primary contexts ---- */

/* The context has ended in the worker. Objects that other threads made meanwhile are of the old generation too. */
static void note_ended(struct libcuda_context *c)
{
	atomic_fetch_add(&c->generation, 1);
	atomic_store(&c->calls.id, NULL);
	atomic_store(&c->error, 0);
}

VCUDA_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	CUresult result = libcuda_require_device(dev);
	struct libcuda_context *c;
	CUcontext id;

	if (result != CUDA_SUCCESS)
		return result;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	c = primary_locked(dev);
	result = c ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	/* The worker's own count is 1 while ours is not 0. */
	if (c && c->refs == 0) {
		result = vcuda_call_cuDevicePrimaryCtxRetain(&id, libcuda_device_host(dev));
		atomic_store(&c->flags, -1);
		if (result == CUDA_SUCCESS)
			begin_life(c, id);
	}
	if (result == CUDA_SUCCESS) {
		c->refs++;
		*pctx = libcuda_context_handle(c);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

VCUDA_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	CUresult result = libcuda_require_device(dev);
	struct libcuda_context *c, *ended = NULL;

	if (result != CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&lock);
	c = primary_locked(dev);
	if (!c || c->refs == 0) {
		result = CUDA_ERROR_INVALID_CONTEXT;
	} else if (--c->refs == 0) {
		forget_contents(c);
		result = vcuda_call_cuDevicePrimaryCtxRelease_v2(libcuda_device_host(dev));
		note_ended(c);
		ended = c;
	}
	pthread_mutex_unlock(&lock);
	if (ended)
		libcuda_storage_drop(ended);
	return result;
}

/* Ends the context in spite of its references. A later user of the device retains it anew, as the runtime does. */
VCUDA_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	CUresult result = libcuda_require_device(dev);
	struct libcuda_context *c;

	if (result != CUDA_SUCCESS)
		return result;
	c = libcuda_context_primary(dev);
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	libcuda_storage_drop(c);
	pthread_mutex_lock(&lock);
	forget_contents(c);
	if (c->refs)
		vcuda_call_cuDevicePrimaryCtxRelease_v2(libcuda_device_host(dev));
	result = vcuda_call_cuDevicePrimaryCtxReset_v2(libcuda_device_host(dev));
	c->refs = 0;
	note_ended(c);
	pthread_mutex_unlock(&lock);
	return result;
}

/*
 * PyTorch calls this a thousand times in a step of a training, so the flags of an active context are kept: only this
 * process changes them.
 */
VCUDA_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	CUresult result = libcuda_require_device(dev);
	struct libcuda_context *c;
	int is_active = 1;
	int64_t known;

	if (result != CUDA_SUCCESS)
		return result;
	c = libcuda_context_primary(dev);
	known = c && atomic_load(&c->calls.id) ? atomic_load(&c->flags) : -1;
	if (known < 0) {
		unsigned int its_flags;

		pthread_mutex_lock(&lock);
		result = vcuda_call_cuDevicePrimaryCtxGetState(libcuda_device_host(dev), &its_flags, &is_active);
		if (c && result == CUDA_SUCCESS && is_active)
			atomic_store(&c->flags, its_flags);
		pthread_mutex_unlock(&lock);
		if (result != CUDA_SUCCESS)
			return result;
		known = its_flags;
	}
	if (flags)
		*flags = (unsigned int)known;
	if (active)
		*active = is_active;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	CUresult result = libcuda_require_device(dev);
	struct libcuda_context *c;

	if (result != CUDA_SUCCESS)
		return result;
	c = libcuda_context_primary(dev);
	pthread_mutex_lock(&lock);
	result = vcuda_call_cuDevicePrimaryCtxSetFlags_v2(libcuda_device_host(dev), flags);
	if (c)
		atomic_store(&c->flags, -1);
	pthread_mutex_unlock(&lock);
	return result;
}

/* A context that has failed has its flags still. */
VCUDA_EXPORT CUresult cuCtxGetFlags(unsigned int *flags)
{
	CUresult result = libcuda_require_context();

	if (result != CUDA_SUCCESS && !vcuda_is_sticky(result))
		return result;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	return vcuda_call_cuCtxGetFlags(flags);
}

VCUDA_EXPORT CUresult cuCtxSetFlags(unsigned int flags)
{
	CUresult result = libcuda_require_context();

	if (result != CUDA_SUCCESS)
		return result;
	result = vcuda_call_cuCtxSetFlags(flags);
	/* with the lock, so that what was asked before is not kept after */
	pthread_mutex_lock(&lock);
	atomic_store(&libcuda_context_current()->flags, -1);
	pthread_mutex_unlock(&lock);
	return result;
}

/* ---- the calling thread's stack ---- */

/* A context that may become current: a primary one also before it is active. */
static struct libcuda_context *find_living(CUcontext handle)
{
	struct libcuda_context *c = libcuda_context_find(handle);

	return c && (c->primary || atomic_load(&c->calls.id)) ? c : NULL;
}

static CUresult push(struct libcuda_context *c)
{
	struct libcuda_thread *t = libcuda_thread();

	if (t->depth == LIBCUDA_CONTEXT_STACK)
		return CUDA_ERROR_OUT_OF_MEMORY;
	t->stack[t->depth++] = c;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	CUresult result = libcuda_require_init();
	struct libcuda_context *c = find_living(ctx);

	if (result != CUDA_SUCCESS)
		return result;
	return c ? push(c) : CUDA_ERROR_INVALID_CONTEXT;
}

VCUDA_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
	struct libcuda_thread *t = libcuda_thread();
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	if (!t->depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	t->depth--;
	if (pctx)
		*pctx = libcuda_context_handle(t->stack[t->depth]);
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuCtxSetCurrent(CUcontext ctx)
{
	struct libcuda_thread *t = libcuda_thread();
	CUresult result = libcuda_require_init();
	struct libcuda_context *c = NULL;

	if (result != CUDA_SUCCESS)
		return result;
	if (ctx) {
		c = find_living(ctx);
		if (!c)
			return CUDA_ERROR_INVALID_CONTEXT;
	}
	if (t->depth)
		t->depth--;
	return c ? push(c) : CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuCtxGetCurrent(CUcontext *pctx)
{
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = libcuda_context_handle(libcuda_context_current());
	return CUDA_SUCCESS;
}

/* ---- contexts of the application's own ---- */

VCUDA_EXPORT CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	CUresult result = libcuda_require_device(dev);
	struct libcuda_context *c;
	CUcontext id;

	if (result != CUDA_SUCCESS)
		return result;
	if (!pctx || flags & ~(unsigned int)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	if (libcuda_thread()->depth == LIBCUDA_CONTEXT_STACK)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = vcuda_call_cuCtxCreate_v2(&id, flags, libcuda_device_host(dev));
	if (result != CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&lock);
	c = add_context(dev, false);
	pthread_mutex_unlock(&lock);
	if (!c) {
		vcuda_call_cuCtxDestroy_v2(id);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	begin_life(c, id);
	*pctx = libcuda_context_handle(c);
	return push(c);
}

VCUDA_EXPORT CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *params, int count, unsigned int flags,
				     CUdevice dev)
{
	(void)params;
	return count ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : cuCtxCreate_v2(pctx, flags, dev);
}

VCUDA_EXPORT CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *params, unsigned int flags, CUdevice dev)
{
	if (params && params->cigParams)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (params && params->numExecAffinityParams)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	return cuCtxCreate_v2(pctx, flags, dev);
}

VCUDA_EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	CUresult result = libcuda_require_init();
	struct libcuda_thread *t = libcuda_thread();
	struct libcuda_context *c = libcuda_context_find(ctx);
	CUcontext id;

	if (result != CUDA_SUCCESS)
		return result;
	if (!c || c->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	libcuda_storage_drop(c);
	if (!atomic_load(&c->calls.id))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	forget_contents(c);
	id = atomic_exchange(&c->calls.id, NULL);
	if (!id)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (t->depth && t->stack[t->depth - 1] == c)
		t->depth--;
	return vcuda_call_cuCtxDestroy_v2(id);
}

/* ---- usage counts of before CUDA 4 ---- */

VCUDA_EXPORT CUresult cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	CUresult result = libcuda_require_context();
	struct libcuda_context *c = libcuda_context_current();

	if (result != CUDA_SUCCESS)
		return result;
	if (!pctx || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (c->primary)
		return cuDevicePrimaryCtxRetain(pctx, c->device);
	pthread_mutex_lock(&lock);
	c->refs++;
	pthread_mutex_unlock(&lock);
	*pctx = libcuda_context_handle(c);
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuCtxDetach(CUcontext ctx)
{
	CUresult result = libcuda_require_init();
	struct libcuda_context *c = libcuda_context_find(ctx);
	bool last;

	if (result != CUDA_SUCCESS)
		return result;
	if (!c || c != libcuda_context_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (c->primary)
		return cuDevicePrimaryCtxRelease_v2(c->device);
	pthread_mutex_lock(&lock);
	last = !c->refs;
	c->refs -= !last;
	pthread_mutex_unlock(&lock);
	return last ? cuCtxDestroy_v2(ctx) : CUDA_SUCCESS;
}

/* ---- questions ---- */

CUresult libcuda_context_named(CUcontext ctx, struct libcuda_context **c)
{
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	*c = ctx ? libcuda_context_find(ctx) : libcuda_context_current();
	if (!*c)
		return CUDA_ERROR_INVALID_CONTEXT;
	/* A primary context that is not active has all these things too. */
	return (*c)->primary || atomic_load(&(*c)->calls.id) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

VCUDA_EXPORT CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	struct libcuda_context *c;
	CUresult result = libcuda_context_named(ctx, &c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = c->device;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
	return cuCtxGetDevice_v2(device, NULL);
}

VCUDA_EXPORT CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	struct libcuda_context *c;
	CUresult result = libcuda_context_named(ctx, &c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = c->api_version;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuCtxGetId(CUcontext ctx, unsigned long long *id)
{
	struct libcuda_context *c;
	CUresult result = libcuda_context_named(ctx, &c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	*id = c->number;
	return CUDA_SUCCESS;
}

/* Bank widths: a hint that no device since compute capability 5.0 takes. */
VCUDA_EXPORT CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
	CUresult result = libcuda_require_context();

	if (result != CUDA_SUCCESS)
		return result;
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	*config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	CUresult result = libcuda_require_context();

	if (result != CUDA_SUCCESS)
		return result;
	return (unsigned int)config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_SUCCESS
										 : CUDA_ERROR_INVALID_VALUE;
}

/* ---- names of older versions with the same signature ---- */

#define SAME(name, as) VCUDA_SAME(name, as)
SAME(cuCtxCreate, cuCtxCreate_v2);
SAME(cuCtxDestroy, cuCtxDestroy_v2);
SAME(cuCtxPushCurrent, cuCtxPushCurrent_v2);
SAME(cuCtxPopCurrent, cuCtxPopCurrent_v2);
SAME(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2);
SAME(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2);
SAME(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2);
