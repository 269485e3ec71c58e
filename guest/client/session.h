/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's session with its worker: made by cuInit, never ended before the process. A forked child has none: its
 * calls give CUDA_ERROR_NOT_INITIALIZED and touch nothing of the parent's.
 */
#ifndef VCUDA_GUEST_SESSION_H
#define VCUDA_GUEST_SESSION_H

#include "transport.h"
#include "protocol/types.h"

struct vcuda_guest_session {
	struct vcuda_transport *transport;
	struct vcuda_host_info host;
};

/* Constant once vcuda_require_init() gives CUDA_SUCCESS. */
extern struct vcuda_guest_session vcuda_session;

/* cuInit's work; safe to call again and from several threads. */
CUresult vcuda_session_connect(void);

/* True once a ring is there, for the calls that set the session up. False in a forked child. */
bool vcuda_session_attached(void);

/* The error that ended the session, 0 while it lives. */
CUresult vcuda_session_error(void);

/* Ends the session: says so once on stderr, and every later call returns `error`. */
void vcuda_session_lose(CUresult error);

#endif
