/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_CUDA_HANDLES_H
#define VCUDA_CUDA_HANDLES_H

#include "protocol/backend.h"

#include <pthread.h>

/* A library's handle, of one context. It serves one call at a time. */
struct backend_handle {
	void *handle;
	CUcontext context;
	uint64_t id; /* of the context: another may come to lie at its address */
	struct backend_handle *next;
	/* What the handle was told last, if its user says so; not set in a new one. */
	CUstream stream;
	uint32_t flags;
	bool set;
};

/* Those of a library that nobody uses, kept for the next call in the same context. */
struct backend_handles {
	const char *create_name;
	int (*create)(void **handle); /* both return CUBLAS_STATUS_* */
	int (*destroy)(void *handle);
	pthread_mutex_t lock;
	struct backend_handle *unused;
};

/* `driver`: the driver's library. */
void backend_handles_init(const struct vcuda_backend_ops *ops, void *driver);

/*
 * One of the current context, made if there is none, for the caller alone until it puts it back. Errors: no context,
 * those of the library's create().
 */
CUresult backend_handles_take(struct backend_handles *from, struct backend_handle **h);
void backend_handles_put(struct backend_handles *to, struct backend_handle *h);

/* The context, which is current, ends: its handles that nobody uses go. */
void backend_handles_forget(struct backend_handles *of, CUcontext context);

#endif
