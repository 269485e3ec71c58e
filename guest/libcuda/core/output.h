/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text that kernels print. The worker keeps it and sets a flag in the shared memory. A call that finds the flag
 * set writes the text to stdout before it returns.
 */
#ifndef VCUDA_GUEST_OUTPUT_H
#define VCUDA_GUEST_OUTPUT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "ring/ring.h"

/* A thread fetches text, or holds text that it has not written yet. */
extern _Atomic bool libcuda_output_in_flight;

/*
 * Whether a call that the worker has answered must not return yet: text waits in the worker, or another thread has
 * fetched it. The worker clears `output` when it hands the text out, so the flag alone misses the second case.
 */
static inline bool libcuda_output_is_due(struct vcuda_shm *shm)
{
	/* The order matters: a thread sets its flag before it makes the worker clear the other one. */
	return atomic_load_explicit(&shm->output, memory_order_acquire) ||
	       atomic_load_explicit(&libcuda_output_in_flight, memory_order_acquire);
}

/*
 * Writes what kernels have printed to this process's standard output, in one piece. Waits for a thread that is
 * writing some, at most 1 s. Thread-safe; holds no reply slot.
 */
void libcuda_output_forward(struct vcuda_shm *shm);

/* In a forked child: before the child uses stdout. */
void libcuda_output_forked(void);

#endif
