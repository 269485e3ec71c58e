/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock that a thread holds over calls at which threads can be cancelled. A cancelled thread would leave the lock
 * behind, so the thread cannot be cancelled while it holds the lock. For any thread.
 */
#ifndef LIBCUDA_MEMORY_LOCK_H
#define LIBCUDA_MEMORY_LOCK_H

#include <pthread.h>

#include "protocol/cuda-abi.h"

/* Returns the thread's cancel state of before, for memory_unlock(). */
static inline int memory_lock(pthread_mutex_t *lock)
{
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(lock);
	return cancel_state;
}

/* Returns `result`. */
static inline CUresult memory_unlock(pthread_mutex_t *lock, int cancel_state, CUresult result)
{
	pthread_mutex_unlock(lock);
	pthread_setcancelstate(cancel_state, NULL);
	return result;
}

#endif
