/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a process that computes, of this or another program (protocol/control.h: enum vcuda_process_action). It
 * works without a session, and while the calling process itself is locked. Functions return 0 or -errno; thread-safe
 * for different structures.
 */
#ifndef VCUDA_CLIENT_PROCESS_H
#define VCUDA_CLIENT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/own-descriptor.h"
#include "protocol/control.h"

struct client_process {
	int pid;
	struct vcuda_own_descriptor own; /* /dev/vcuda, or the connection to vcudad */
	bool is_local;
	uint32_t state, failure; /* the last answer, as in struct vcuda_process of guest/driver/uapi.h */
	uint32_t flags;          /* VCUDA_PROCESS_QUIET, ... (protocol/ipc/process.h); 0: of the driver */
};

/*
 * Finds the transport as client_session_open() does. Errors: ENOENT (no transport), EACCES, others of the transport.
 * Where it fails there is nothing to close.
 */
int client_process_open(struct client_process *process, int pid);
void client_process_close(struct client_process *process);

/*
 * Begins a step, or asks for the state, and sets `state` and `failure`. Errors: ESRCH (the process does not compute),
 * EPERM (it is another user's), EBADFD (its state is another than the action needs), EOPNOTSUPP (the host or the
 * driver is older, or the operator allows no checkpoints), ECONNRESET (vcudad has closed the connection: its log says
 * why, or it is older), others of the transport.
 */
int client_process_act(struct client_process *process, enum vcuda_process_action action, uint32_t milliseconds);

/*
 * Begins a step and waits for its end, and for the process's own part in it (restore.h). `milliseconds`: that running
 * work may take, for LOCK; 0: no limit. More errors: the errno of a step that failed: ETIMEDOUT (the work has not ended
 * in time; or the host's part of CHECKPOINT or RESTORE is done and the process's is not, and the same step waits for it
 * again), ESRCH of RESTORE (the process has no restore thread that could take its session), ENOMEM, ENOSPC, EIO,
 * EOPNOTSUPP (the process shares memory with others).
 */
int client_process_step(struct client_process *process, enum vcuda_process_action action, uint32_t milliseconds);

/*
 * The restore thread of the process, after one of these calls; 0: it has none, or none that is found. Only a process
 * that has told vcudad of its thread is looked at: the name may be any thread's.
 */
pid_t client_process_thread(const struct client_process *process);

#endif
