/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a process that computes, of this or another program (protocol/control.h: enum vcuda_process_action). It
 * works without a session, and while the calling process itself is locked. Functions return 0 or -errno; thread-safe
 * for different structures.
 */
#ifndef VCUDA_CLIENT_PROCESS_H
#define VCUDA_CLIENT_PROCESS_H

#include <stdint.h>

#include "protocol/control.h"

struct client_process {
	int pid;
	int fd;                  /* /dev/vcuda, or the connection to vcudad */
	int pidfd;               /* of local processes; -1 */
	uint32_t state, failure; /* the last answer, as in struct vcuda_process of guest/driver/uapi.h */
};

/*
 * Finds the transport as client_session_open() does. Errors: ESRCH (no such process), ENOENT (no transport), EACCES.
 * Where it fails there is nothing to close.
 */
int client_process_open(struct client_process *process, int pid);
void client_process_close(struct client_process *process);

/*
 * Begins a step, or asks for the state, and sets `state` and `failure`. Errors: ESRCH (the process does not compute),
 * EPERM (it is another user's), EBADFD (its state is another than the action needs), EOPNOTSUPP (the host or the
 * driver is older), others of the transport.
 */
int client_process_act(struct client_process *process, enum vcuda_process_action action, uint32_t milliseconds);

/*
 * Begins a step and waits for its end. More errors: the errno of a step that failed: ETIMEDOUT (the work has not
 * ended in time), ENOMEM, ENOSPC, EIO, EOPNOTSUPP (the process shares memory with others).
 */
int client_process_step(struct client_process *process, enum vcuda_process_action action, uint32_t milliseconds);

#endif
