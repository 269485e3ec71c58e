/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a copy is ordered. The plain calls run in the legacy default stream and wait; the "Async" ones run in a stream;
 * the plain ones compiled for per-thread default streams (_ptds) run in the thread's own stream and wait for it.
 */
#ifndef CUDART_ORDER_H
#define CUDART_ORDER_H

#include "runtime.h"

struct order {
	enum { ORDER_DEFAULT, ORDER_ASYNC, ORDER_PER_THREAD } how;
	cudaStream_t stream;
};

static const struct order order_default = {ORDER_DEFAULT, NULL};
static const struct order order_per_thread = {ORDER_PER_THREAD, cudaStreamPerThread};

static inline struct order order_async(cudaStream_t stream)
{
	return (struct order){ORDER_ASYNC, stream};
}

static inline struct order order_async_per_thread(cudaStream_t stream)
{
	return (struct order){ORDER_ASYNC, cudart_per_thread(stream)};
}

/* After a copy was enqueued in order.stream: waits where the caller expects that. */
static inline cudaError_t order_finish(struct order order, CUresult enqueued)
{
	if (enqueued || order.how == ORDER_ASYNC)
		return (cudaError_t)enqueued;
	return (cudaError_t)cuStreamSynchronize(order.stream);
}

#endif
