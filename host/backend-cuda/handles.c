/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handles of the host's cuBLAS and cuBLASLt. A call takes one of its own, so that one that waits for its result
 * delays no other thread's work.
 */
#include "handles.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "blas.h"
#include "common/log.h"

static const struct vcuda_backend_ops *driver;
static CUresult (*context_id)(CUcontext context, unsigned long long *id); /* NULL: the driver is older */

void backend_handles_init(const struct vcuda_backend_ops *ops, void *driver_library)
{
	driver = ops;
	context_id = (CUresult(*)(CUcontext, unsigned long long *))dlsym(driver_library, "cuCtxGetId");
}

static struct backend_handle *take_unused(struct backend_handles *from, CUcontext context, uint64_t id)
{
	struct backend_handle *h;

	pthread_mutex_lock(&from->lock);
	for (struct backend_handle **at = &from->unused; (h = *at); at = &h->next) {
		if (h->context == context && h->id == id) {
			*at = h->next;
			break;
		}
	}
	pthread_mutex_unlock(&from->lock);
	return h;
}

static CUresult make(const struct backend_handles *in, CUcontext context, uint64_t id, struct backend_handle **made)
{
	struct backend_handle *h = calloc(1, sizeof(*h));
	int status;

	if (!h)
		return CUDA_ERROR_OUT_OF_MEMORY;
	status = in->create(&h->handle);
	if (status != CUBLAS_STATUS_SUCCESS) {
		vcuda_log("the host's %s() gave status %d", in->create_name, status);
		free(h);
		return backend_blas_result(status);
	}
	h->context = context;
	h->id = id;
	*made = h;
	return CUDA_SUCCESS;
}

CUresult backend_handles_take(struct backend_handles *from, struct backend_handle **h)
{
	unsigned long long id = 0;
	CUcontext context;
	CUresult result = driver->cuCtxGetCurrent(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (context_id)
		context_id(context, &id);
	*h = take_unused(from, context, id);
	return *h ? CUDA_SUCCESS : make(from, context, id, h);
}

void backend_handles_put(struct backend_handles *to, struct backend_handle *h)
{
	pthread_mutex_lock(&to->lock);
	h->next = to->unused;
	to->unused = h;
	pthread_mutex_unlock(&to->lock);
}

void backend_handles_forget(struct backend_handles *of, CUcontext context)
{
	struct backend_handle *its = NULL, *h;

	pthread_mutex_lock(&of->lock);
	for (struct backend_handle **at = &of->unused; (h = *at);) {
		if (h->context != context) {
			at = &h->next;
			continue;
		}
		*at = h->next;
		h->next = its;
		its = h;
	}
	pthread_mutex_unlock(&of->lock);
	while ((h = its)) {
		its = h->next;
		of->destroy(h->handle);
		free(h);
	}
}
