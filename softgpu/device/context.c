/* SPDX-License-Identifier: Apache-2.0 */
#include "device/context.h"

#include <stdlib.h>

#include "device/device.h"
#include "device/event.h"
#include "device/memory.h"
#include "device/registry.h"
#include "device/stream.h"
#include "common/log.h"

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

/* By device. A primary context is never freed, so its handle stays the same over release and retain. */
static struct primary {
	struct CUctx_st *context;
	unsigned int retained;
	unsigned int flags;
} primaries[SOFTGPU_MOST_DEVICES];

static uint64_t last_id;

static struct vcuda_list all = VCUDA_LIST_INIT(all);

/* By device: the fault that ended its work for this process. */
static CUresult faults[SOFTGPU_MOST_DEVICES];

static void start(struct CUctx_st *c, unsigned int flags)
{
	static const size_t limits[SOFTGPU_LIMITS] = {
		[CU_LIMIT_STACK_SIZE] = 1024,
		[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20,
		[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20,
		[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
		[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
	};

	c->id = ++last_id;
	vcuda_list_add(&c->node, &all);
	c->refs++;
	c->alive = true;
	c->ending = c->abandoned = false;
	__atomic_store_n(&c->cancel, false, __ATOMIC_RELAXED);
	c->error = CUDA_SUCCESS;
	c->flags = flags;
	c->cache = CU_FUNC_CACHE_PREFER_NONE;
	for (unsigned int i = 0; i < SOFTGPU_LIMITS; i++)
		c->limits[i] = limits[i];
	c->limits[CU_LIMIT_SHMEM_SIZE] = softgpu_device()->most_shared;
	vcuda_list_init(&c->streams);
	vcuda_list_init(&c->events);
	vcuda_list_init(&c->owned);
	softgpu_stream_init(&c->null_stream, c, CU_STREAM_DEFAULT, SOFTGPU_PRIORITY_LEAST);
	c->null_stream.legacy = true;
	c->null_stream.blocking = false;
	ptx_start();
}

/* The newest object first: an object may use older ones. */
static void end_owned(struct CUctx_st *c)
{
	while (!vcuda_list_empty(&c->owned)) {
		struct softgpu_owned *owned = container_of(c->owned.prev, struct softgpu_owned, node);

		owned->end(owned);
	}
}

/* Ends a context's life: waits for its work, then frees all that belongs to it. */
static void end(struct CUctx_st *c)
{
	struct softgpu_scope scope = {.context = c, .last = softgpu_submitted()};

	vcuda_list_remove(&c->node);
	c->alive = false;
	c->ending = true;
	softgpu_schedule_again();
	softgpu_wait(&scope);
	softgpu_streams_destroy(c);
	softgpu_events_destroy(c);
	end_owned(c);
	softgpu_memory_release(c);
	softgpu_peers_drop(c);
	softgpu_context_put(c);
}

static bool live(const struct CUctx_st *c)
{
	return softgpu_registry_has(c, SOFTGPU_CONTEXT);
}

static CUresult current(struct CUctx_st **context)
{
	struct CUctx_st *c;

	if (!softgpu_initialised())
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

CUresult softgpu_enter_failed(struct CUctx_st **context)
{
	CUresult result;

	softgpu_lock();
	result = current(context);
	if (result != CUDA_SUCCESS)
		softgpu_unlock();
	return result;
}

static __thread bool at_once;

void softgpu_enter_at_once(void)
{
	at_once = true;
}

CUresult softgpu_enter(struct CUctx_st **context)
{
	return softgpu_enter_with(context, 0);
}

/*
 * A stream may wait for ever, and the operations queued behind it take memory. The next command may queue what the
 * stream waits for. So a caller with many bytes waits for room only while something runs.
 */
CUresult softgpu_enter_with(struct CUctx_st **context, uint64_t bytes)
{
	CUresult result = softgpu_enter_failed(context);

	while (result == CUDA_SUCCESS && (*context)->error == CUDA_SUCCESS && !at_once && !softgpu_has_room(bytes)) {
		if (bytes && softgpu_is_stuck()) {
			vcuda_log_once("copies and kernels that wait for a stream hold all the memory that queued "
				       "commands may have: more are refused (raise vcudad's --max-queued)");
			if (softgpu_meter())
				softgpu_meter()->queue_refused();
			return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
		}
		softgpu_wait_any();
		result = current(context);
		if (result != CUDA_SUCCESS)
			return softgpu_leave(result);
	}
	if (result == CUDA_SUCCESS && (*context)->error != CUDA_SUCCESS)
		result = softgpu_leave((*context)->error);
	return result;
}

CUresult softgpu_leave(CUresult result)
{
	softgpu_unlock();
	return result;
}

void softgpu_context_get(struct CUctx_st *context)
{
	context->refs++;
}

void softgpu_context_put(struct CUctx_st *context)
{
	if (--context->refs)
		return;
	if (context->primary)
		softgpu_wake_waiters(); /* threads that want to start it again */
	else
		free(context);
}

CUresult softgpu_contextEnds(void)
{
	struct softgpu_scope scope;
	struct CUctx_st *c;
	CUresult result = softgpu_enter_failed(&c);

	if (result != CUDA_SUCCESS)
		return result;
	scope = (struct softgpu_scope){.context = c, .last = softgpu_submitted()};
	c->ending = true;
	softgpu_schedule_again();
	return softgpu_leave(softgpu_context_wait(c, &scope));
}

CUresult softgpu_context_state(const struct CUctx_st *context)
{
	return context->alive ? context->error : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static void set_error(struct CUctx_st *context, CUresult error)
{
	context->error = error;
	__atomic_store_n(&context->cancel, true, __ATOMIC_RELAXED);
}

bool softgpu_context_fail(struct CUctx_st *context, CUresult error)
{
	if (context->error != CUDA_SUCCESS)
		return false;
	set_error(context, error);
	if (softgpu_device()->one_context)
		return true;
	faults[context->device] = error;
	for (struct vcuda_list *node = all.next; node != &all; node = node->next) {
		struct CUctx_st *other = container_of(node, struct CUctx_st, node);

		if (other->device == context->device)
			set_error(other, error);
	}
	return true;
}

CUresult softgpu_context_wait(struct CUctx_st *context, const struct softgpu_scope *scope)
{
	uint64_t id = context->id;
	CUresult result;

	softgpu_context_get(context);
	softgpu_wait(scope);
	result = context->id == id ? softgpu_context_state(context) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
	softgpu_context_put(context);
	return result;
}

static CUresult primary_make(struct primary *p, CUdevice dev)
{
	if (p->context)
		return CUDA_SUCCESS;
	p->context = calloc(1, sizeof(*p->context));
	if (!p->context)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p->context->device = dev;
	p->context->primary = true;
	if (!softgpu_registry_add(p->context, SOFTGPU_CONTEXT)) {
		free(p->context);
		p->context = NULL;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

CUresult softgpu_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	CUresult result = softgpu_device_check(dev);
	struct primary *p;

	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	softgpu_lock();
	p = &primaries[dev];
	result = primary_make(p, dev);
	if (result != CUDA_SUCCESS)
		return softgpu_leave(result);
	/* Another thread may be ending its last life. */
	while (!p->context->alive && p->context->refs)
		softgpu_wait_any();
	if (!p->context->alive && faults[dev] != CUDA_SUCCESS)
		return softgpu_leave(faults[dev]);
	if (!p->context->alive)
		start(p->context, p->flags);
	p->retained++;
	*pctx = p->context;
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	CUresult result = softgpu_device_check(dev);
	struct primary *p;

	if (result != CUDA_SUCCESS)
		return result;
	softgpu_lock();
	p = &primaries[dev];
	if (p->retained == 0)
		return softgpu_leave(CUDA_ERROR_INVALID_CONTEXT);
	if (--p->retained == 0 && p->context->alive)
		end(p->context);
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	CUresult result = softgpu_device_check(dev);
	struct primary *p;

	if (result != CUDA_SUCCESS)
		return result;
	softgpu_lock();
	p = &primaries[dev];
	p->retained = 0;
	if (p->context && p->context->alive)
		end(p->context);
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned *flags, int *active)
{
	CUresult result = softgpu_device_check(dev);

	if (result != CUDA_SUCCESS)
		return result;
	softgpu_lock();
	if (flags)
		*flags = primaries[dev].flags;
	if (active)
		*active = primaries[dev].context && primaries[dev].context->alive;
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned flags)
{
	CUresult result = softgpu_device_check(dev);
	struct primary *p;

	if (result != CUDA_SUCCESS)
		return result;
	if (flags & ~(unsigned int)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	softgpu_lock();
	p = &primaries[dev];
	p->flags = flags;
	if (p->context && p->context->alive)
		p->context->flags = flags;
	return softgpu_leave(CUDA_SUCCESS);
}

static CUresult push(struct CUctx_st *c)
{
	if (stack.depth == STACK_DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack.entry[stack.depth].context = c;
	stack.entry[stack.depth++].id = c->id;
	return CUDA_SUCCESS;
}

CUresult softgpu_cuCtxCreate_v2(CUcontext *pctx, unsigned flags, CUdevice dev)
{
	CUresult result = softgpu_device_check(dev);
	struct CUctx_st *c;

	if (result != CUDA_SUCCESS)
		return result;
	if (!pctx || (flags & ~(unsigned int)CU_CTX_FLAGS_MASK))
		return CUDA_ERROR_INVALID_VALUE;
	c = calloc(1, sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->device = dev;
	softgpu_lock();
	if (faults[dev] != CUDA_SUCCESS) {
		free(c);
		return softgpu_leave(faults[dev]);
	}
	start(c, flags);
	if (!softgpu_registry_add(c, SOFTGPU_CONTEXT)) {
		vcuda_list_remove(&c->node);
		free(c);
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	result = push(c);
	if (result != CUDA_SUCCESS) {
		vcuda_list_remove(&c->node);
		softgpu_registry_remove(c);
		free(c);
		return softgpu_leave(result);
	}
	*pctx = c;
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuCtxDestroy_v2(CUcontext ctx)
{
	softgpu_lock();
	if (!live(ctx) || !ctx->alive)
		return softgpu_leave(CUDA_ERROR_INVALID_CONTEXT);
	/* The primary context is released, not destroyed. */
	if (ctx->primary)
		return softgpu_leave(CUDA_ERROR_INVALID_CONTEXT);
	if (stack.depth && stack.entry[stack.depth - 1].context == ctx)
		stack.depth--;
	softgpu_registry_remove(ctx);
	end(ctx);
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuCtxSetCurrent(CUcontext ctx)
{
	CUresult result;

	if (!softgpu_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!ctx) {
		if (stack.depth)
			stack.depth--;
		return CUDA_SUCCESS;
	}
	softgpu_lock();
	if (!live(ctx))
		return softgpu_leave(CUDA_ERROR_INVALID_CONTEXT);
	if (stack.depth)
		stack.depth--;
	result = push(ctx);
	return softgpu_leave(result);
}

CUresult softgpu_cuCtxGetCurrent(CUcontext *pctx)
{
	if (!softgpu_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = stack.depth ? stack.entry[stack.depth - 1].context : NULL;
	return CUDA_SUCCESS;
}

CUresult softgpu_cuCtxPopCurrent_v2(CUcontext *pctx)
{
	if (!softgpu_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (stack.depth == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	stack.depth--;
	if (pctx)
		*pctx = stack.entry[stack.depth].context;
	return CUDA_SUCCESS;
}
