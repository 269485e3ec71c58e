/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's session with its worker: opened once, it ends with the process. A forked child has none, and touches
 * nothing of the parent's session.
 */
#ifndef VCUDA_GUEST_SESSION_H
#define VCUDA_GUEST_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>

#include "ring/ring.h"
#include "transport.h"

struct client_session {
	struct client_transport *transport;
	int gone;             /* the error of all calls once the worker is gone without a reason */
	uint32_t host_pid;    /* the worker's process, for messages; 0 until the program knows */
	_Atomic bool open;    /* calls can be made */
	_Atomic bool forked;  /* this process is a child of one that had a session */
	_Atomic int32_t lost; /* the error that ended the session, or 0 */
};

/* The first two members are constant once the session is open. */
extern struct client_session client_session;

/*
 * Finds a worker. Returns 0 or -errno, with a line in the log that says what to do; -EPROTONOSUPPORT: the worker speaks
 * another major version. `gone`: see the structure. Not thread-safe; not after it has succeeded.
 */
int client_session_open(int gone);

/* Ends the session: writes one line on stderr, and every later call returns `error`. Returns the session's error. */
int client_session_lose(int error);

/*
 * Ends the session if `err`, of a function of the transport, says that the worker or a descriptor of the transport is
 * gone. Returns the session's error, or 0 if the session goes on.
 */
int client_session_check(int err);

/* This process is a forked child of one that had a session. */
static inline bool client_session_forked(void)
{
	return atomic_load_explicit(&client_session.forked, memory_order_relaxed);
}

/* True once calls can be made. False in a forked child. */
static inline bool client_session_attached(void)
{
	return atomic_load_explicit(&client_session.open, memory_order_acquire) && !client_session_forked();
}

/* The error that ended the session, 0 while it lives. Only for an open session. */
static inline int client_session_error(void)
{
	const struct vcuda_shm *shm = client_session.transport->shm;
	int lost = atomic_load_explicit(&client_session.lost, memory_order_relaxed);

	if (!lost)
		lost = atomic_load_explicit(&shm->lost, memory_order_relaxed);
	return lost ? client_session_lose(lost) : 0;
}

#endif
