/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's end of the control channel: ATTACH first, then mappings, on a thread of its own until the peer hangs up.
 */
#ifndef VCUDA_CHANNEL_SERVE_H
#define VCUDA_CHANNEL_SERVE_H

struct worker_session;

/* warm: vcudad says later which of the others it is. */
enum worker_channel_kind { WORKER_CHANNEL_LOCAL, WORKER_CHANNEL_VIRTIO, WORKER_CHANNEL_WARM };

/*
 * Waits for ATTACH and sets up the session's shared area and event descriptors. 0 or -errno (logged); the peer has its
 * answer in either case.
 */
int worker_channel_attach(struct worker_session *s, enum worker_channel_kind kind);

/*
 * A warm worker's way back to the start, before its guest process has its answer to hello, and so has nothing yet but
 * the shared area: runs the worker program anew in this process, and it serves the guest from its first command on as
 * if it had never been warm. A worker with a mapper ends, and vcudad starts another one for that. Returns only if that
 * cannot be, with -errno.
 */
int worker_channel_restart(void);

/* The restarted program calls this in place of attaching; `fd` is the value of its option. 0 or -errno. */
int worker_channel_resume(struct worker_session *s, enum worker_channel_kind kind, int fd);

/* Starts the thread that serves mapping requests. It ends the process when the peer closes the channel. 0 or -errno. */
int worker_channel_start(struct worker_session *s);

#endif
