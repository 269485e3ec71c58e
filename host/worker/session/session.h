/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: what one worker keeps for its guest process. There is one per worker.
 *
 * Locking: `handles` and `mappings` have locks of their own; the rest is set before the dispatcher starts and then
 * constant, or belongs to the dispatcher.
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
#define WORKER_THREADS 256

#define WORKER_PENDING_ERRORS 4

/* For the thread that queries contexts while VMs take turns on a GPU (queue/turn.h). */
struct worker_context_watcher {
	/* The context is destroyed from now on. Once this returns the watcher does not use it. */
	void (*ends)(uint64_t context);
	/* The destruction is put off: the context's work counts as running until it has ended. */
	void (*is_put_off)(void);
	void (*has_ended)(void);
};

struct worker_session {
	const struct vcuda_backend_ops *ops;
	/*
	 * Functions of a back end that releases its device memory itself (softgpu/backend-cpu.h), else NULL; set before
	 * `ops`.
	 */
	int (*release)(int fd);
	int (*restore)(void);
	/* Function of a back end whose memory the driver releases (backend-cuda/ipc.h), else NULL; set before `ops`. */
	bool (*has_shared)(void);
	/*
	 * Functions of a session over `local`, else NULL; set before the guest's first request is served. detach():
	 * the worker outlives its channel. attach(): it has the channel `fd`, which stays the caller's, and ends with
	 * that; -1: with the one that it has. 0 or -errno.
	 */
	void (*detach)(void);
	int (*attach)(int fd);
	const struct worker_context_watcher *watcher; /* NULL: there is none; set before `ops` */
	struct worker_handles *handles;
	struct worker_mappings *mappings;
	void *shm;           /* VCUDA_SHM_BYTES, or VCUDA_SHM_BYTES_0 with a guest of minor 0 */
	int doorbell;        /* eventfd: the guest published while the dispatcher slept */
	int notify;          /* eventfd for vcudad to wake the guest (virtio), or -1: wake the futex (local) */
	uint32_t peer_minor; /* the guest library's protocol minor */
	pid_t guest_pid;     /* as the guest says, for messages */
	_Atomic bool broken; /* malformed input: the session ends */
	_Atomic bool has_graph_waits; /* a graph has or had a node that waits for a value */
	/* Errors of async calls by thread, for some contexts, that no sync call has reported yet. */
	_Atomic uint64_t async_error[WORKER_THREADS][WORKER_PENDING_ERRORS];
};

#endif
