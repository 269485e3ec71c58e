/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: what one worker keeps for its guest process. There is one per worker.
 *
 * Locking: `handles` and `windows` have locks of their own; the rest is set before the lane starts and then constant,
 * or belongs to the lane.
 */
#ifndef VCUDA_SESSION_H
#define VCUDA_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "protocol/backend.h"
#include "protocol/calls.h"
#include "session/handle.h"
#include "ring/ring.h"
#include "memory/mapping.h"

/* Async errors are kept by guest thread number modulo this. */
#define VCUDA_THREADS 256

#define VCUDA_PENDING_ERRORS 4

struct vcuda_session {
	const struct vcuda_backend_ops *ops;
	struct vcuda_handles *handles;
	struct vcuda_windows *windows;
	void *shm;           /* VCUDA_SHM_BYTES, or VCUDA_SHM_BYTES_0 with a guest of minor 0 */
	int doorbell;        /* eventfd: the guest published while the lane slept */
	int notify;          /* eventfd for vcudad to wake the guest (virtio), or -1: wake the futex (local) */
	uint32_t peer_minor; /* the guest library's protocol minor */
	pid_t guest_pid;     /* as the guest says, for messages */
	_Atomic bool broken; /* malformed input: the session ends */
	/* Of async calls of each thread's in some contexts, that no sync call has reported yet. */
	_Atomic uint64_t async_error[VCUDA_THREADS][VCUDA_PENDING_ERRORS];
};

#endif
