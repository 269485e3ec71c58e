/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers: contexts. The ids of objects that end with a context become invalid. The guest does not see a context that
 * was made in advance (warm.h): the first retain takes it if that is of its device. Otherwise it is released, so that
 * it costs the guest no memory.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "session/dispatch.h"
#include "protocol/handlers.h"
#include "handle/handle-host-access.h"
#include "handle/link.h"
#include "common/log.h"
#include "memory/ram.h"
#include "session/activity.h"
#include "session/command.h"
#include "session/destroy.h"
#include "session/release.h"
#include "session/session.h"
#include "queue/stage-events.h"
#include "queue/stage-pin.h"
#include "queue/stage-queue.h"
#include "queue/turn-events.h"
#include "process/warm.h"

/* A device's primary context, NULL if the guest has none. Retaining and releasing it leaves the count as it was. */
static CUcontext primary(struct worker_session *s, CUdevice dev)
{
	CUcontext context = NULL;
	unsigned int flags;
	int active = 0;

	if (!s->ops->cuDevicePrimaryCtxGetState ||
	    s->ops->cuDevicePrimaryCtxGetState(dev, &flags, &active) != CUDA_SUCCESS || !active)
		return NULL;
	if (s->ops->cuDevicePrimaryCtxRetain(&context, dev) != CUDA_SUCCESS)
		return NULL;
	s->ops->cuDevicePrimaryCtxRelease_v2(dev);
	return context;
}

/* 0: it has none. */
static uint64_t id_of(struct worker_session *s, void *context)
{
	if (!context || worker_publish(s, VCUDA_KIND_CONTEXT, true, 0, &context) != CUDA_SUCCESS)
		return 0;
	return (uint64_t)(uintptr_t)context;
}

/* ---- commands that are in a context which ends ---- */

/* Time that the end of a primary context waits for the commands in the context. */
#define CLOSE_SECONDS 30

/* Counts of the guest's retains of each device's context since its last reset. */
static _Atomic unsigned int retained[WORKER_MOST_DEVICES];

static void count_retain(CUdevice dev, CUresult result)
{
	if (result == CUDA_SUCCESS && (unsigned int)dev < WORKER_MOST_DEVICES)
		atomic_fetch_add(&retained[dev], 1);
}

static void count_release(CUdevice dev, CUresult result)
{
	if (result == CUDA_SUCCESS && (unsigned int)dev < WORKER_MOST_DEVICES && atomic_load(&retained[dev]))
		atomic_fetch_sub(&retained[dev], 1);
}

static void count_reset(CUdevice dev, CUresult result)
{
	if (result == CUDA_SUCCESS && (unsigned int)dev < WORKER_MOST_DEVICES)
		atomic_store(&retained[dev], 0);
}

static bool is_last_release(CUdevice dev)
{
	return (unsigned int)dev < WORKER_MOST_DEVICES && atomic_load(&retained[dev]) <= 1;
}

/*
 * Lets no command into the context until open_context(), and waits for those that are in it: their work ends before the
 * context does. `*closed`: whether there is something to open. A back end with contextEnds needs none of this.
 */
static CUresult close_context(struct worker_session *s, uint64_t id, bool *closed)
{
	*closed = !s->ops->contextEnds && worker_handle_claim(s->handles, id, ~0u);
	if (!*closed || worker_handle_wait(s->handles, id, CLOSE_SECONDS))
		return CUDA_SUCCESS;
	vcuda_log("a primary context stays: commands have been in it for %d s", CLOSE_SECONDS);
	return CUDA_ERROR_TIMEOUT;
}

static void open_context(struct worker_session *s, uint64_t id, bool closed)
{
	if (closed && worker_handle_unclaim(s->handles, id))
		worker_destroy_ready(s);
}

/* ---- primary contexts ---- */

CUresult vcuda_handle_cuDevicePrimaryCtxRetain(struct worker_session *s, struct vcuda_args_cuDevicePrimaryCtxRetain *a)
{
	CUresult result = CUDA_SUCCESS;

	if (!worker_warm_take(a->dev, &a->pctx)) {
		if (!s->ops->cuDevicePrimaryCtxRetain)
			return worker_unsupported(s, VCUDA_OP_cuDevicePrimaryCtxRetain);
		worker_warm_drop();
		result = s->ops->cuDevicePrimaryCtxRetain(&a->pctx, a->dev);
	}
	count_retain(a->dev, result);
	if (result == CUDA_SUCCESS)
		worker_host_access_retained(s, a->dev);
	return result;
}

CUresult vcuda_handle_cuDevicePrimaryCtxGetState(struct worker_session *s,
						 struct vcuda_args_cuDevicePrimaryCtxGetState *a)
{
	unsigned int flags;

	if (!s->ops->cuDevicePrimaryCtxGetState)
		return worker_unsupported(s, VCUDA_OP_cuDevicePrimaryCtxGetState);
	if (!worker_warm_hides(a->dev, &flags))
		return s->ops->cuDevicePrimaryCtxGetState(a->dev, &a->flags, &a->active);
	a->flags = flags;
	a->active = 0;
	return CUDA_SUCCESS;
}

/* Flags other than it was made with: the one that the guest retains is made with them. */
CUresult vcuda_handle_cuDevicePrimaryCtxSetFlags_v2(struct worker_session *s,
						    struct vcuda_args_cuDevicePrimaryCtxSetFlags_v2 *a)
{
	unsigned int flags;

	if (!s->ops->cuDevicePrimaryCtxSetFlags_v2)
		return worker_unsupported(s, VCUDA_OP_cuDevicePrimaryCtxSetFlags_v2);
	if (worker_warm_hides(a->dev, &flags)) {
		if (flags == a->flags)
			return CUDA_SUCCESS;
		worker_warm_drop();
	}
	return s->ops->cuDevicePrimaryCtxSetFlags_v2(a->dev, a->flags);
}

/* `ends`: it is the guest's last. */
static CUresult release_closed(struct worker_session *s, CUdevice dev, CUcontext context, uint64_t id, bool ends)
{
	unsigned int flags;
	CUresult result;
	int active = 1;

	worker_links_end(s, context);
	worker_stage_events_drop(s);
	worker_stage_queue_close(s, context);
	worker_ram_close(context);
	if (ends)
		worker_host_access_close(s, dev);
	/* Commands that were in the context may have begun work after the first time. */
	if (ends)
		worker_activity_forget(s, id);
	result = s->ops->cuDevicePrimaryCtxRelease_v2(dev);
	count_release(dev, result);
	if (result == CUDA_SUCCESS && s->ops->cuDevicePrimaryCtxGetState)
		s->ops->cuDevicePrimaryCtxGetState(dev, &flags, &active);
	if (ends)
		worker_host_access_reopen(s, dev, active);
	if (!active) {
		worker_turn_events_forget(id);
		worker_handle_remove_children(s->handles, id);
		worker_stage_pin_forget(context);
	}
	worker_ram_reopen(context, !active);
	worker_stage_queue_reopen();
	return result;
}

static CUresult release(struct worker_session *s, CUdevice dev)
{
	CUcontext context = primary(s, dev);
	uint64_t id = id_of(s, context);
	CUresult result = CUDA_SUCCESS;
	bool closed = false, ends = is_last_release(dev);

	if (ends) {
		worker_activity_forget(s, id);
		result = close_context(s, id, &closed);
	}
	if (result == CUDA_SUCCESS)
		result = release_closed(s, dev, context, id, ends);
	open_context(s, id, closed);
	return result;
}

struct later {
	struct worker_session *session;
	CUdevice device;
};

static void release_later(void *argument)
{
	struct later *l = argument;
	CUresult result = release(l->session, l->device);

	if (result != CUDA_SUCCESS)
		vcuda_log("the primary context of device %d could not be released (CUDA error %d)", l->device,
			  (int)result);
	free(l);
}

/* True: the primary context is active, has no work left and no error, so its release has no error to report. */
static bool is_done(struct worker_session *s, CUdevice dev)
{
	const struct vcuda_backend_ops *ops = s->ops;
	CUcontext context;
	unsigned int flags;
	CUresult result;
	int active = 0;

	if (!ops->cuDevicePrimaryCtxGetState || ops->cuDevicePrimaryCtxGetState(dev, &flags, &active) != CUDA_SUCCESS ||
	    !active || !ops->cuCtxSynchronize || ops->cuDevicePrimaryCtxRetain(&context, dev) != CUDA_SUCCESS)
		return false;
	result = ops->cuCtxSetCurrent(context);
	if (result == CUDA_SUCCESS)
		result = ops->cuCtxSynchronize();
	ops->cuCtxSetCurrent(NULL);
	ops->cuDevicePrimaryCtxRelease_v2(dev);
	return result == CUDA_SUCCESS;
}

CUresult vcuda_handle_cuDevicePrimaryCtxRelease_v2(struct worker_session *s,
						   struct vcuda_args_cuDevicePrimaryCtxRelease_v2 *a)
{
	struct later *l;
	unsigned int flags;

	if (worker_warm_hides(a->dev, &flags))
		return CUDA_ERROR_INVALID_CONTEXT;
	l = is_done(s, a->dev) ? malloc(sizeof(*l)) : NULL;
	if (!l)
		return release(s, a->dev);
	*l = (struct later){s, a->dev};
	if (worker_release_later(release_later, l))
		return CUDA_SUCCESS;
	free(l);
	return release(s, a->dev);
}

static CUresult reset_closed(struct worker_session *s, CUdevice dev, CUcontext context, uint64_t id)
{
	CUresult result;

	worker_links_end(s, context);
	worker_stage_events_drop(s);
	worker_stage_queue_close(s, context);
	worker_ram_close(context);
	worker_host_access_close(s, dev);
	worker_activity_forget(s, id);
	result = s->ops->cuDevicePrimaryCtxReset_v2(dev);
	count_reset(dev, result);
	worker_host_access_reopen(s, dev, result != CUDA_SUCCESS);
	worker_turn_events_forget(id);
	if (result == CUDA_SUCCESS)
		worker_handle_remove_children(s->handles, id);
	worker_stage_pin_forget(context);
	worker_ram_reopen(context, true);
	worker_stage_queue_reopen();
	return result;
}

CUresult vcuda_handle_cuDevicePrimaryCtxReset_v2(struct worker_session *s,
						 struct vcuda_args_cuDevicePrimaryCtxReset_v2 *a)
{
	unsigned int flags;
	CUcontext context;
	CUresult result;
	uint64_t id;
	bool closed;

	if (worker_warm_hides(a->dev, &flags))
		worker_warm_drop();
	context = primary(s, a->dev);
	id = id_of(s, context);
	worker_activity_forget(s, id);
	result = close_context(s, id, &closed);
	if (result == CUDA_SUCCESS)
		result = reset_closed(s, a->dev, context, id);
	open_context(s, id, closed);
	return result;
}

/* The new context is not left current on the worker's thread: the guest decides which context is current. */
CUresult vcuda_handle_cuCtxCreate_v2(struct worker_session *s, struct vcuda_args_cuCtxCreate_v2 *a)
{
	CUcontext popped;
	CUresult result;

	worker_warm_drop();
	result = s->ops->cuCtxCreate_v2(&a->pctx, a->flags, a->dev);
	if (result == CUDA_SUCCESS)
		s->ops->cuCtxPopCurrent_v2(&popped);
	return result;
}

CUresult vcuda_handle_vcudaContextEnds(struct worker_session *s, struct vcuda_args_vcudaContextEnds *a)
{
	(void)a;
	if (!s->ops->contextEnds)
		return CUDA_SUCCESS;
	worker_activity_forget(s, worker_command_context());
	return s->ops->contextEnds();
}

CUresult vcuda_handle_cuCtxDestroy_v2(struct worker_session *s, struct vcuda_args_cuCtxDestroy_v2 *a)
{
	CUresult result;

	worker_links_end(s, a->ctx);
	worker_stage_events_drop(s);
	worker_stage_queue_close(s, a->ctx);
	worker_ram_close(a->ctx);
	result = s->ops->cuCtxDestroy_v2(a->ctx);
	worker_stage_pin_forget(a->ctx);
	worker_ram_reopen(a->ctx, true);
	worker_stage_queue_reopen();
	return result;
}
