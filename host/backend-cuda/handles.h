/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of library handles (cuBLAS, cuBLASLt), one context each. Thread-safe. */
#ifndef VCUDA_CUDA_HANDLES_H
#define VCUDA_CUDA_HANDLES_H

#include "protocol/backend.h"

#include <pthread.h>

/* A library's handle, of one context. It serves one call at a time. */
struct backend_handle {
	void *handle;
	CUcontext context;
	uint64_t id; /* of the context: a later context may have the same address */
	struct backend_handle *next;
	/* The handle's last settings, noted by its user; not set in a new handle. */
	CUstream stream;
	uint32_t flags;
	bool set;
};

/* The unused handles of a library, kept for the next call in the same context. */
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

/* Before the current context ends: destroys its unused handles. */
void backend_handles_forget(struct backend_handles *of, CUcontext context);

#endif
