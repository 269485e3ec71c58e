/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers: devices' access to guest memory that is mapped in the arena, in the place of an allocation of
 * cuMemCreate(). Such memory is of no context, but the driver registers memory in one. So it is the primary context of
 * a device, which stays as long as the registration; it ends all the same with the guest's last release and with a
 * reset, and the registration waits for its return.
 */
#include <pthread.h>
#include <stdlib.h>

#include "common/log.h"
#include "handle/handle-host-access.h"
#include "protocol/handlers.h"
#include "session/dispatch.h"
#include "session/session.h"

/* A registration, with its hold on the mappings. */
struct access {
	void *p;
	size_t bytes;
	bool writes;
	CUdevice dev;
	CUcontext context; /* NULL: not registered until the device's primary context is there again */
	bool is_stuck;     /* it could not be unregistered before the end of its context, which may not come */
	struct access *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct access *all;

bool worker_host_access_is_there(const struct worker_session *s)
{
	const struct vcuda_backend_ops *ops = s->ops;

	return ops->cuMemHostRegister_v2 && ops->cuMemHostUnregister && ops->cuDevicePrimaryCtxRetain &&
	       ops->cuDevicePrimaryCtxRelease_v2 && ops->cuCtxGetCurrent && ops->cuCtxSetCurrent;
}

/* The link to it; the link at the end: there is none. */
static struct access **find(const void *p)
{
	struct access **at;

	for (at = &all; *at && (*at)->p != p; at = &(*at)->next)
		continue;
	return at;
}

static CUresult register_in(struct worker_session *s, CUcontext context, void *p, size_t bytes, bool writes)
{
	const unsigned int flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
	CUcontext before = NULL;
	CUresult result;

	s->ops->cuCtxGetCurrent(&before);
	result = s->ops->cuCtxSetCurrent(context);
	if (result == CUDA_SUCCESS && !writes)
		result = s->ops->cuMemHostRegister_v2(p, bytes, flags | CU_MEMHOSTREGISTER_READ_ONLY);
	/* Not all devices register memory for reading only. */
	if ((result == CUDA_SUCCESS && writes) || result == CUDA_ERROR_NOT_SUPPORTED)
		result = s->ops->cuMemHostRegister_v2(p, bytes, flags);
	s->ops->cuCtxSetCurrent(before);
	return result;
}

static CUresult unregister_in(struct worker_session *s, CUcontext context, void *p)
{
	CUcontext before = NULL;
	CUresult result;

	s->ops->cuCtxGetCurrent(&before);
	result = s->ops->cuCtxSetCurrent(context);
	if (result == CUDA_SUCCESS)
		result = s->ops->cuMemHostUnregister(p);
	s->ops->cuCtxSetCurrent(before);
	return result;
}

/* Ends the registration, if there is one; the hold stays. */
static CUresult suspend(struct worker_session *s, struct access *a)
{
	CUresult result = a->context ? unregister_in(s, a->context, a->p) : CUDA_SUCCESS;

	if (!a->context || result != CUDA_SUCCESS)
		return result;
	s->ops->cuDevicePrimaryCtxRelease_v2(a->dev);
	a->context = NULL;
	return CUDA_SUCCESS;
}

/* Registers what is not registered. */
static CUresult resume(struct worker_session *s, struct access *a)
{
	CUcontext context;
	CUresult result = s->ops->cuDevicePrimaryCtxRetain(&context, a->dev);

	if (result != CUDA_SUCCESS)
		return result;
	result = register_in(s, context, a->p, a->bytes, a->writes);
	if (result == CUDA_SUCCESS)
		a->context = context;
	else
		s->ops->cuDevicePrimaryCtxRelease_v2(a->dev);
	return result;
}

static CUresult take(struct worker_session *s, struct access **at)
{
	struct access *a = *at;
	CUresult result = a ? suspend(s, a) : CUDA_SUCCESS;

	if (!a || result != CUDA_SUCCESS)
		return result;
	*at = a->next;
	vcuda_mapping_release(s->mappings, a->p, VCUDA_HOLD_ACCESS);
	free(a);
	return CUDA_SUCCESS;
}

static CUresult give(struct worker_session *s, void *p, size_t bytes, CUdevice dev, bool writes)
{
	struct access *a = calloc(1, sizeof(*a));
	CUresult result;

	if (!a)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*a = (struct access){.p = p, .bytes = bytes, .writes = writes, .dev = dev, .next = all};
	result = vcuda_mapping_hold(s->mappings, p, bytes, true, VCUDA_HOLD_ACCESS) ? CUDA_SUCCESS
										    : CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		goto free_access;
	result = resume(s, a);
	if (result != CUDA_SUCCESS)
		goto release_mapping;
	all = a;
	return CUDA_SUCCESS;

release_mapping:
	vcuda_mapping_release(s->mappings, p, VCUDA_HOLD_ACCESS);
free_access:
	free(a);
	return result;
}

/* ---- the end of primary contexts ---- */

/*
 * In a context after a kernel's fault each call gives the fault's error. Such a context has to end all the same, and
 * takes its registrations with it; where another reference keeps it, the registration and its pages stay.
 */
void worker_host_access_close(struct worker_session *s, int dev)
{
	pthread_mutex_lock(&lock);
	for (struct access *a = all; a; a = a->next) {
		if (a->dev != dev || suspend(s, a) == CUDA_SUCCESS)
			continue;
		a->is_stuck = true;
		s->ops->cuDevicePrimaryCtxRelease_v2(dev);
	}
}

/* With the lock held. */
static void settle_stuck(struct worker_session *s, struct access *a, bool active)
{
	CUcontext context;

	a->is_stuck = false;
	if (active && s->ops->cuDevicePrimaryCtxRetain(&context, a->dev) == CUDA_SUCCESS)
		vcuda_log("access to host memory of cuMemCreate() stays with the primary context of device %d, in "
			  "which it cannot be ended",
			  a->dev);
	else if (!active)
		a->context = NULL;
}

/* With the lock held. */
static void resume_all(struct worker_session *s, int dev)
{
	CUresult result;

	for (struct access *a = all; a; a = a->next) {
		result = a->dev == dev && !a->context ? resume(s, a) : CUDA_SUCCESS;
		if (result != CUDA_SUCCESS)
			vcuda_log("device %d has lost its access to host memory of cuMemCreate() with its primary "
				  "context (CUDA error %d)",
				  dev, (int)result);
	}
}

void worker_host_access_reopen(struct worker_session *s, int dev, bool active)
{
	for (struct access *a = all; a; a = a->next)
		if (a->dev == dev && a->is_stuck)
			settle_stuck(s, a, active);
	if (active)
		resume_all(s, dev);
	pthread_mutex_unlock(&lock);
}

void worker_host_access_retained(struct worker_session *s, int dev)
{
	pthread_mutex_lock(&lock);
	resume_all(s, dev);
	pthread_mutex_unlock(&lock);
}

CUresult vcuda_handle_vcudaMemHostAccess(struct worker_session *s, struct vcuda_args_vcudaMemHostAccess *a)
{
	CUresult result;

	if (!worker_host_access_is_there(s))
		return worker_unsupported(s, VCUDA_OP_vcudaMemHostAccess);
	pthread_mutex_lock(&lock);
	result = take(s, find(a->p));
	if (result == CUDA_SUCCESS && a->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
		result = give(s, (void *)(uintptr_t)a->p, a->size, a->dev,
			      a->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	pthread_mutex_unlock(&lock);
	return result;
}
