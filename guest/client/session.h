/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's session with its worker: opened once, it ends with the process. A forked child has none, and touches
 * nothing of the parent's session.
 */
#ifndef VCUDA_GUEST_SESSION_H
#define VCUDA_GUEST_SESSION_H

#include <stdbool.h>

#include "transport.h"

struct vcuda_guest_session {
	struct vcuda_transport *transport;
	int gone;          /* what calls return after the worker went without a word */
	uint32_t host_pid; /* the worker's process, for messages; 0 until the program knows */
};

/* Constant once the session is open, except for host_pid. */
extern struct vcuda_guest_session vcuda_session;

/*
 * Finds a worker. Returns 0 or -errno, with a line in the log that says what to do; -EPROTONOSUPPORT: the worker speaks
 * another major version. `gone`: see the structure. Not thread-safe; not after it has succeeded.
 */
int vcuda_session_open(int gone);

/* True once calls can be made. False in a forked child. */
bool vcuda_session_attached(void);

/* This process is a forked child of one that had a session. */
bool vcuda_session_forked(void);

/* The error that ended the session, 0 while it lives. */
int vcuda_session_error(void);

/* Ends the session: writes one line on stderr, and every later call returns `error`. */
void vcuda_session_lose(int error);

#endif
