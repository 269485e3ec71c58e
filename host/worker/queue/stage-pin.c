/* SPDX-License-Identifier: Apache-2.0 */
#include "queue/stage-pin.h"

#include <pthread.h>

#include "common/log.h"
#include "ring/ring.h"

/*
 * Pinning them takes 2.4 ms on the host of an H100, and saves some microseconds a copy: who copies little is faster
 * without.
 */
#define WORTH_BYTES (8u << 20)
#define LEAST_BYTES (16u << 10) /* that a copy counts for */

static struct {
	pthread_mutex_t lock;
	_Atomic uint64_t copied;
	_Atomic bool
		tried; /* changes under the lock; where it could not be done it is not tried again in that context */
	CUcontext context;
} pin = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void try_to(struct worker_session *s)
{
	CUresult result;

	pin.context = NULL;
	if (s->ops->cuCtxGetCurrent)
		s->ops->cuCtxGetCurrent(&pin.context);
	result = s->ops->cuMemHostRegister_v2(vcuda_shm_stage(s->shm, 0),
					      (size_t)vcuda_shm_blocks(s->peer_minor) * VCUDA_STAGE_BLOCK_BYTES,
					      CU_MEMHOSTREGISTER_PORTABLE);
	/* A context that ends, or tries to, may leave them as they are. */
	if (result != CUDA_SUCCESS && result != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
		vcuda_log("staging memory could not be pinned (CUDA error %d): pageable copies are slower",
			  (int)result);
}

void worker_stage_pin(struct worker_session *s, size_t bytes)
{
	if (atomic_load_explicit(&pin.tried, memory_order_acquire) || !s->ops->cuMemHostRegister_v2)
		return;
	bytes = bytes < LEAST_BYTES ? LEAST_BYTES : bytes;
	if (atomic_fetch_add_explicit(&pin.copied, bytes, memory_order_relaxed) + bytes < WORTH_BYTES)
		return;
	pthread_mutex_lock(&pin.lock);
	if (!pin.tried)
		try_to(s);
	atomic_store_explicit(&pin.tried, true, memory_order_release);
	pthread_mutex_unlock(&pin.lock);
}

void worker_stage_pin_forget(CUcontext context)
{
	pthread_mutex_lock(&pin.lock);
	if (pin.context == context)
		atomic_store(&pin.tried, false);
	pthread_mutex_unlock(&pin.lock);
}
