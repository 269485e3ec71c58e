/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers: devices' access to guest memory that is mapped in the arena, in the place of an allocation of
 * cuMemCreate(). Such memory is of no context, but the driver registers memory in one. So it is the primary context of
 * a device, which stays as long as the registration.
 */
#include <pthread.h>
#include <stdlib.h>

#include "handle/handle-host-access.h"
#include "protocol/handlers.h"
#include "session/dispatch.h"
#include "session/session.h"

/* A registration, with its hold on the mappings. */
struct access {
	void *p;
	CUdevice dev;
	CUcontext context;
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

/* A context that was reset has ended its registrations. */
static CUresult unregister_in(struct worker_session *s, CUcontext context, void *p)
{
	CUcontext before = NULL;
	CUresult result;

	s->ops->cuCtxGetCurrent(&before);
	result = s->ops->cuCtxSetCurrent(context);
	if (result == CUDA_SUCCESS)
		result = s->ops->cuMemHostUnregister(p);
	s->ops->cuCtxSetCurrent(before);
	return result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED ? CUDA_SUCCESS : result;
}

static CUresult take(struct worker_session *s, struct access **at)
{
	struct access *a = *at;
	CUresult result = a ? unregister_in(s, a->context, a->p) : CUDA_SUCCESS;

	if (!a || result != CUDA_SUCCESS)
		return result;
	*at = a->next;
	vcuda_mapping_release(s->mappings, a->p);
	s->ops->cuDevicePrimaryCtxRelease_v2(a->dev);
	free(a);
	return CUDA_SUCCESS;
}

static CUresult give(struct worker_session *s, void *p, size_t bytes, CUdevice dev, bool writes)
{
	struct access *a = calloc(1, sizeof(*a));
	CUresult result;

	if (!a)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*a = (struct access){.p = p, .dev = dev, .next = all};
	result = s->ops->cuDevicePrimaryCtxRetain(&a->context, dev);
	if (result != CUDA_SUCCESS)
		goto free_access;
	result = vcuda_mapping_hold(s->mappings, p, bytes, true) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		goto release_context;
	result = register_in(s, a->context, p, bytes, writes);
	if (result != CUDA_SUCCESS)
		goto release_mapping;
	all = a;
	return CUDA_SUCCESS;

release_mapping:
	vcuda_mapping_release(s->mappings, p);
release_context:
	s->ops->cuDevicePrimaryCtxRelease_v2(dev);
free_access:
	free(a);
	return result;
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
