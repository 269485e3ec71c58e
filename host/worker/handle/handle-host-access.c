/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers: devices' access to guest memory that is mapped in the arena, in the place of an allocation of
 * cuMemCreate(). Such memory is of no context, but the driver registers memory in one. So it is the primary context of
 * a device that has access, which stays as long as the registration. It ends nevertheless with the guest's last release
 * and with a reset: then the registration moves to the primary context of another device that has access, or waits for
 * the return of one.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "handle/handle-host-access.h"
#include "protocol/handlers.h"
#include "session/dispatch.h"
#include "session/session.h"

#define ALL_DEVICES (-1)

/* A registration, with its hold on the mappings. */
struct access {
	void *p;
	size_t bytes;
	uint8_t flags[WORKER_MOST_DEVICES]; /* of each device: CUmemAccess_flags */
	bool writes;                        /* the access of the registration */
	CUdevice home;                      /* the device whose primary context `context` is */
	CUcontext context; /* NULL: not registered until the primary context of a device with access is there again */
	bool is_stuck;     /* cannot be unregistered before the end of its context, which may never come */
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

/* The link to the entry of `p`; the link at the end of the list if there is no entry. */
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
	s->ops->cuDevicePrimaryCtxRelease_v2(a->home);
	a->context = NULL;
	return CUDA_SUCCESS;
}

static bool may_write(const struct access *a)
{
	for (int i = 0; i < WORKER_MOST_DEVICES; i++)
		if (a->flags[i] == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return true;
	return false;
}

/* Registers what is not registered. */
static CUresult resume(struct worker_session *s, struct access *a, CUdevice home)
{
	CUcontext context;
	CUresult result = s->ops->cuDevicePrimaryCtxRetain(&context, home);

	if (result != CUDA_SUCCESS)
		return result;
	a->home = home;
	a->writes = may_write(a);
	result = register_in(s, context, a->p, a->bytes, a->writes);
	if (result == CUDA_SUCCESS)
		a->context = context;
	else
		s->ops->cuDevicePrimaryCtxRelease_v2(home);
	return result;
}

/* ---- devices ---- */

static bool has_context(const struct worker_session *s, CUdevice dev)
{
	unsigned int flags;
	int active = 0;

	return s->ops->cuDevicePrimaryCtxGetState &&
	       s->ops->cuDevicePrimaryCtxGetState(dev, &flags, &active) == CUDA_SUCCESS && active;
}

/* One with access; with its primary context there, if so asked. -1: none. */
static CUdevice find_device(const struct worker_session *s, const struct access *a, bool with_context, CUdevice but)
{
	for (CUdevice i = 0; i < WORKER_MOST_DEVICES; i++)
		if (i != but && a->flags[i] != CU_MEM_ACCESS_FLAGS_PROT_NONE && (!with_context || has_context(s, i)))
			return i;
	return -1;
}

/*
 * Where it is registered from now on: no context is made for it where it need not be. `given`: the device that has just
 * got access, or -1. The result is -1 where it waits for a context.
 */
static CUdevice choose_home(const struct worker_session *s, const struct access *a, CUdevice given)
{
	CUdevice home;

	if (a->context && a->flags[a->home] != CU_MEM_ACCESS_FLAGS_PROT_NONE)
		return a->home;
	home = find_device(s, a, true, -1);
	if (home >= 0)
		return home;
	return given < 0 && a->context ? find_device(s, a, false, -1) : given;
}

/* Makes the registration as the devices' access is. */
static CUresult fit(struct worker_session *s, struct access *a, CUdevice given)
{
	CUdevice home = choose_home(s, a, given);
	CUresult result;

	if (a->context && a->home == home && a->writes == may_write(a))
		return CUDA_SUCCESS;
	result = suspend(s, a);
	return result == CUDA_SUCCESS && home >= 0 ? resume(s, a, home) : result;
}

static void log_loss(const struct access *a, CUdevice dev, CUresult result)
{
	vcuda_log("device %d has no access to host memory of cuMemCreate() at %p: it could not be registered (CUDA "
		  "error %d)",
		  dev, a->p, (int)result);
}

/* After an error the access is as it was. */
static CUresult set_device(struct worker_session *s, struct access *a, CUdevice dev, uint8_t flags)
{
	struct access next = *a;
	CUresult result, again;

	next.flags[dev] = flags;
	result = fit(s, &next, flags != CU_MEM_ACCESS_FLAGS_PROT_NONE ? dev : -1);
	if (result == CUDA_SUCCESS) {
		*a = next;
		return result;
	}
	if (!a->context || next.context)
		return result;
	a->context = NULL;
	again = resume(s, a, a->home);
	if (again != CUDA_SUCCESS)
		log_loss(a, a->home, again);
	return result;
}

/* ---- registrations ---- */

static struct access **add(struct worker_session *s, void *p, size_t bytes)
{
	struct access *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	*a = (struct access){.p = p, .bytes = bytes, .next = all};
	if (!vcuda_mapping_hold(s->mappings, p, bytes, true, VCUDA_HOLD_ACCESS)) {
		free(a);
		return NULL;
	}
	all = a;
	return &all;
}

/* The registration has ended. */
static void drop(struct worker_session *s, struct access **at)
{
	struct access *a = *at;

	*at = a->next;
	vcuda_mapping_release(s->mappings, a->p, VCUDA_HOLD_ACCESS);
	free(a);
}

static CUresult take_all(struct worker_session *s, struct access **at)
{
	CUresult result = *at ? suspend(s, *at) : CUDA_SUCCESS;

	if (*at && result == CUDA_SUCCESS)
		drop(s, at);
	return result;
}

static CUresult set(struct worker_session *s, void *p, size_t bytes, CUdevice dev, uint8_t flags)
{
	struct access **at = find(p);
	CUresult result;

	if (dev == ALL_DEVICES)
		return take_all(s, at);
	if (!*at && flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
		return CUDA_SUCCESS;
	if (!*at)
		at = add(s, p, bytes);
	if (!at || (*at)->bytes != bytes)
		return CUDA_ERROR_INVALID_VALUE;
	result = set_device(s, *at, dev, flags);
	if (find_device(s, *at, false, -1) < 0)
		drop(s, at);
	return result;
}

/* ---- the end of primary contexts ---- */

/* To the primary context of a device with access, if one but that of `but` is there. With the lock held. */
static void move(struct worker_session *s, struct access *a, CUdevice but)
{
	CUdevice home = find_device(s, a, true, but);
	CUresult result = home >= 0 ? resume(s, a, home) : CUDA_SUCCESS;

	if (result != CUDA_SUCCESS)
		log_loss(a, home, result);
}

/*
 * In a context after a kernel's fault each call gives the fault's error. Such a context has to end nevertheless, and
 * takes its registrations with it; where another reference keeps it, the registration and its pages stay.
 */
void worker_host_access_close(struct worker_session *s, int dev)
{
	pthread_mutex_lock(&lock);
	for (struct access *a = all; a; a = a->next) {
		if (!a->context || a->home != dev)
			continue;
		if (suspend(s, a) == CUDA_SUCCESS) {
			move(s, a, dev);
			continue;
		}
		a->is_stuck = true;
		s->ops->cuDevicePrimaryCtxRelease_v2(dev);
	}
}

/* With the lock held. */
static void settle_stuck(struct worker_session *s, struct access *a, bool active)
{
	CUcontext context;

	a->is_stuck = false;
	if (active && s->ops->cuDevicePrimaryCtxRetain(&context, a->home) == CUDA_SUCCESS)
		vcuda_log("access to host memory of cuMemCreate() stays with the primary context of device %d, in "
			  "which it cannot be ended",
			  a->home);
	if (active)
		return;
	a->context = NULL;
	move(s, a, a->home);
}

/* With the lock held. */
static void resume_all(struct worker_session *s, int dev)
{
	CUresult result;

	for (struct access *a = all; a; a = a->next) {
		bool waits = !a->context && a->flags[dev] != CU_MEM_ACCESS_FLAGS_PROT_NONE;

		result = waits ? resume(s, a, dev) : CUDA_SUCCESS;
		if (result != CUDA_SUCCESS)
			log_loss(a, dev, result);
	}
}

void worker_host_access_reopen(struct worker_session *s, int dev, bool active)
{
	for (struct access *a = all; a; a = a->next)
		if (a->home == dev && a->is_stuck)
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
	if ((a->dev < 0 || a->dev >= WORKER_MOST_DEVICES) &&
	    (a->dev != ALL_DEVICES || a->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE))
		return CUDA_ERROR_INVALID_DEVICE;
	if (a->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && a->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
	    a->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	result = set(s, (void *)(uintptr_t)a->p, a->size, a->dev, (uint8_t)a->flags);
	pthread_mutex_unlock(&lock);
	return result;
}
