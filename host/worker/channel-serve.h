/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's end of the control channel: ATTACH first, then windows, on a thread of its own until the peer hangs up. */
#ifndef VCUDA_CHANNEL_SERVE_H
#define VCUDA_CHANNEL_SERVE_H

#include <stdbool.h>

struct vcuda_session;

/*
 * Waits for ATTACH and sets up the session's shared area and event descriptors. 0 or -errno (logged); the peer has its answer in
 * either case.
 */
int vcuda_channel_attach(struct vcuda_session *s, bool local);

/* Starts the thread that serves window requests. It ends the process when the peer closes the channel. 0 or -errno. */
int vcuda_channel_start(struct vcuda_session *s);

#endif
