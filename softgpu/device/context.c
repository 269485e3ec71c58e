/* SPDX-License-Identifier: Apache-2.0 */
#include "device/context.h"

#include <stdlib.h>

#include "device/device.h"
#include "device/event.h"
#include "device/memory.h"
#include "device/registry.h"
#include "device/stream.h"

#define STACK_DEPTH 64

/*
 * The calling thread's stack of contexts; the last is current. The id shows whether the context is still the one that
 * was pushed.
 */
static __thread struct {
	struct {
		struct CUctx_st *context;
		uint64_t id;
	} entry[STACK_DEPTH];
	unsigned int depth;
} stack;

/* The primary context is never freed, so its handle stays the same over release and retain. */
static struct {
	struct CUctx_st *context;
	unsigned int retained;
	unsigned int flags;
} primary;

static uint64_t last_id;

static void start(struct CUctx_st *c, unsigned int flags)
{
	static const size_t limits[CPU_LIMITS] = {
		[CU_LIMIT_STACK_SIZE] = 1024,
		[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20,
		[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20,
		[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
		[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
		[CU_LIMIT_SHMEM_SIZE] = CPU_SHARED_PER_BLOCK_OPTIN,
	};

	c->id = ++last_id;
	c->refs++;
	c->alive = true;
	c->ending = c->abandoned = false;
	__atomic_store_n(&c->cancel, false, __ATOMIC_RELAXED);
	c->error = CUDA_SUCCESS;
	c->flags = flags;
	c->cache = CU_FUNC_CACHE_PREFER_NONE;
	for (unsigned int i = 0; i < CPU_LIMITS; i++)
		c->limits[i] = limits[i];
	vcuda_list_init(&c->streams);
	vcuda_list_init(&c->events);
	vcuda_list_init(&c->owned);
	cpu_stream_init(&c->null_stream, c, CU_STREAM_DEFAULT, CPU_PRIORITY_LEAST);
	c->null_stream.legacy = true;
	c->null_stream.blocking = false;
	ptx_start();
}

/* The newest object first: an object may use older ones. */
static void end_owned(struct CUctx_st *c)
{
	while (!vcuda_list_empty(&c->owned)) {
		struct cpu_owned *owned = container_of(c->owned.prev, struct cpu_owned, node);

		owned->end(owned);
	}
}

/* Ends a context's life: waits for its work, then frees all that belongs to it. */
static void end(struct CUctx_st *c)
{
	struct cpu_scope scope = {.context = c, .last = cpu_submitted()};

	c->alive = false;
	c->ending = true;
	cpu_look_again();
	cpu_wait(&scope);
	cpu_streams_destroy(c);
	cpu_events_destroy(c);
	end_owned(c);
	cpu_memory_release(c);
	cpu_context_put(c);
}

static bool live(const struct CUctx_st *c)
{
	return cpu_registry_has(c, CPU_CONTEXT);
}

static CUresult current(struct CUctx_st **context)
{
	struct CUctx_st *c;

	if (!cpu_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (stack.depth == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	c = stack.entry[stack.depth - 1].context;
	/* The primary context may be named before it is retained: the number of its life is not compared. */
	if (!live(c) || !c->alive || (!c->primary && c->id != stack.entry[stack.depth - 1].id))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*context = c;
	return CUDA_SUCCESS;
}

CUresult cpu_enter_failed(struct CUctx_st **context)
{
	CUresult result;

	cpu_lock();
	result = current(context);
	if (result != CUDA_SUCCESS)
		cpu_unlock();
	return result;
}

CUresult cpu_enter(struct CUctx_st **context)
{
	CUresult result = cpu_enter_failed(context);

	/* A stream may wait for ever, and what is queued behind it takes memory. */
	while (result == CUDA_SUCCESS && (*context)->error == CUDA_SUCCESS && cpu_is_full()) {
		cpu_wait_any();
		result = current(context);
		if (result != CUDA_SUCCESS)
			return cpu_leave(result);
	}
	if (result == CUDA_SUCCESS && (*context)->error != CUDA_SUCCESS)
		result = cpu_leave((*context)->error);
	return result;
}

CUresult cpu_leave(CUresult result)
{
	cpu_unlock();
	return result;
}

void cpu_context_get(struct CUctx_st *context)
{
	context->refs++;
}

void cpu_context_put(struct CUctx_st *context)
{
	if (--context->refs)
		return;
	if (context->primary)
		cpu_wake_waiters(); /* who wants to start it anew */
	else
		free(context);
}

CUresult cpu_contextEnds(void)
{
	struct cpu_scope scope;
	struct CUctx_st *c;
	CUresult result = cpu_enter_failed(&c);

	if (result != CUDA_SUCCESS)
		return result;
	scope = (struct cpu_scope){.context = c, .last = cpu_submitted()};
	c->ending = true;
	cpu_look_again();
	return cpu_leave(cpu_context_wait(c, &scope));
}

CUresult cpu_context_state(const struct CUctx_st *context)
{
	return context->alive ? context->error : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

bool cpu_context_fail(struct CUctx_st *context, CUresult error)
{
	if (context->error != CUDA_SUCCESS)
		return false;
	context->error = error;
	__atomic_store_n(&context->cancel, true, __ATOMIC_RELAXED);
	return true;
}

CUresult cpu_context_wait(struct CUctx_st *context, const struct cpu_scope *scope)
{
	uint64_t id = context->id;
	CUresult result;

	cpu_context_get(context);
	cpu_wait(scope);
	result = context->id == id ? cpu_context_state(context) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
	cpu_context_put(context);
	return result;
}

static CUresult primary_make(CUdevice dev)
{
	CUresult result = cpu_device_check(dev);

	if (result != CUDA_SUCCESS || primary.context)
		return result;
	primary.context = calloc(1, sizeof(*primary.context));
	if (!primary.context)
		return CUDA_ERROR_OUT_OF_MEMORY;
	primary.context->primary = true;
	if (!cpu_registry_add(primary.context, CPU_CONTEXT)) {
		free(primary.context);
		primary.context = NULL;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

CUresult cpu_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	CUresult result;

	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	cpu_lock();
	result = primary_make(dev);
	if (result != CUDA_SUCCESS)
		return cpu_leave(result);
	/* Another thread may be ending its last life. */
	while (!primary.context->alive && primary.context->refs)
		cpu_wait_any();
	if (!primary.context->alive)
		start(primary.context, primary.flags);
	primary.retained++;
	*pctx = primary.context;
	return cpu_leave(CUDA_SUCCESS);
}

CUresult cpu_cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	CUresult result = cpu_device_check(dev);

	if (result != CUDA_SUCCESS)
		return result;
	cpu_lock();
	if (primary.retained == 0)
		return cpu_leave(CUDA_ERROR_INVALID_CONTEXT);
	if (--primary.retained == 0 && primary.context->alive)
		end(primary.context);
	return cpu_leave(CUDA_SUCCESS);
}

CUresult cpu_cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	CUresult result = cpu_device_check(dev);

	if (result != CUDA_SUCCESS)
		return result;
	cpu_lock();
	primary.retained = 0;
	if (primary.context && primary.context->alive)
		end(primary.context);
	return cpu_leave(CUDA_SUCCESS);
}

CUresult cpu_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned *flags, int *active)
{
	CUresult result = cpu_device_check(dev);

	if (result != CUDA_SUCCESS)
		return result;
	cpu_lock();
	if (flags)
		*flags = primary.flags;
	if (active)
		*active = primary.context && primary.context->alive;
	return cpu_leave(CUDA_SUCCESS);
}

CUresult cpu_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned flags)
{
	CUresult result = cpu_device_check(dev);

	if (result != CUDA_SUCCESS)
		return result;
	if (flags & ~(unsigned int)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	cpu_lock();
	primary.flags = flags;
	if (primary.context && primary.context->alive)
		primary.context->flags = flags;
	return cpu_leave(CUDA_SUCCESS);
}

static CUresult push(struct CUctx_st *c)
{
	if (stack.depth == STACK_DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack.entry[stack.depth].context = c;
	stack.entry[stack.depth++].id = c->id;
	return CUDA_SUCCESS;
}

CUresult cpu_cuCtxCreate_v2(CUcontext *pctx, unsigned flags, CUdevice dev)
{
	CUresult result = cpu_device_check(dev);
	struct CUctx_st *c;

	if (result != CUDA_SUCCESS)
		return result;
	if (!pctx || (flags & ~(unsigned int)CU_CTX_FLAGS_MASK))
		return CUDA_ERROR_INVALID_VALUE;
	c = calloc(1, sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	cpu_lock();
	start(c, flags);
	if (!cpu_registry_add(c, CPU_CONTEXT)) {
		free(c);
		return cpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	result = push(c);
	if (result != CUDA_SUCCESS) {
		cpu_registry_remove(c);
		free(c);
		return cpu_leave(result);
	}
	*pctx = c;
	return cpu_leave(CUDA_SUCCESS);
}

CUresult cpu_cuCtxDestroy_v2(CUcontext ctx)
{
	cpu_lock();
	if (!live(ctx) || !ctx->alive)
		return cpu_leave(CUDA_ERROR_INVALID_CONTEXT);
	/* The primary context is released, not destroyed. */
	if (ctx->primary)
		return cpu_leave(CUDA_ERROR_INVALID_CONTEXT);
	if (stack.depth && stack.entry[stack.depth - 1].context == ctx)
		stack.depth--;
	cpu_registry_remove(ctx);
	end(ctx);
	return cpu_leave(CUDA_SUCCESS);
}

CUresult cpu_cuCtxSetCurrent(CUcontext ctx)
{
	CUresult result;

	if (!cpu_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!ctx) {
		if (stack.depth)
			stack.depth--;
		return CUDA_SUCCESS;
	}
	cpu_lock();
	if (!live(ctx))
		return cpu_leave(CUDA_ERROR_INVALID_CONTEXT);
	if (stack.depth)
		stack.depth--;
	result = push(ctx);
	return cpu_leave(result);
}

CUresult cpu_cuCtxGetCurrent(CUcontext *pctx)
{
	if (!cpu_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = stack.depth ? stack.entry[stack.depth - 1].context : NULL;
	return CUDA_SUCCESS;
}

CUresult cpu_cuCtxPopCurrent_v2(CUcontext *pctx)
{
	if (!cpu_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (stack.depth == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	stack.depth--;
	if (pctx)
		*pctx = stack.entry[stack.depth].context;
	return CUDA_SUCCESS;
}
