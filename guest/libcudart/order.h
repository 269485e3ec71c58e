/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a copy is ordered. The plain calls run in the legacy default stream and wait; the "Async" ones run in a stream;
 * the plain ones compiled for per-thread default streams (_ptds) run in the thread's own stream and wait for it.
 */
#ifndef CUDART_ORDER_H
#define CUDART_ORDER_H

#include "runtime.h"

struct order {
	enum { ORDER_DEFAULT, ORDER_ASYNC, ORDER_PER_THREAD, ORDER_DESCRIBE } how;
	cudaStream_t stream;
	CUDA_MEMCPY3D *description; /* ORDER_DESCRIBE: what would be copied, and nothing is */
};

/* A copy in the driver's form. An empty one has no width. */
cudaError_t cudart_describe_3d(const struct cudaMemcpy3DParms *params, CUDA_MEMCPY3D *copy);

static const struct order order_default = {ORDER_DEFAULT, NULL, NULL};
static const struct order order_per_thread = {ORDER_PER_THREAD, cudaStreamPerThread, NULL};

static inline struct order order_async(cudaStream_t stream)
{
	return (struct order){ORDER_ASYNC, stream, NULL};
}

static inline struct order order_async_per_thread(cudaStream_t stream)
{
	return (struct order){ORDER_ASYNC, cudart_per_thread(stream), NULL};
}

/* After a copy was enqueued in order.stream: waits where the caller expects that. */
static inline cudaError_t order_finish(struct order order, CUresult enqueued)
{
	if (enqueued || order.how == ORDER_ASYNC)
		return (cudaError_t)enqueued;
	return (cudaError_t)cuStreamSynchronize(order.stream);
}

#endif
