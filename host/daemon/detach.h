/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers of local processes that are checkpointed, and hold no connection meanwhile (protocol/ipc/process.h). A
 * detached worker belongs to the process that has its token. It counts as any other worker, for all quotas, and ends
 * with its owner: `keep_detached` seconds after the owner's end, unless another process of the user has claimed it by
 * then. An owner without a restore thread counts as ended: it runs another program, which does not have the token. An
 * owner with more than 64 threads, none of the first of which is the restore thread, counts as living.
 *
 * Messages of a process are untrusted. No call blocks. All functions belong to the loop's thread.
 */
#ifndef VCUDA_DAEMON_DETACH_H
#define VCUDA_DAEMON_DETACH_H

#include <stdbool.h>
#include <stdint.h>

#include "options/options.h"
#include "worker/worker.h"

struct ucred;

/* Called when the worker of a local process starts, and when it has ended. */
void daemon_detach_init(struct daemon_worker *worker);
void daemon_detach_drop(struct daemon_worker *worker);

/* The worker is checkpointed, attached, and takes no step. */
bool daemon_detach_is_possible(const struct daemon_worker *worker);

/*
 * The process of a checkpointed worker asks for the token. 0 or -errno: EAGAIN: the worker is not checkpointed, takes a
 * step, or has a token already. Until daemon_detach_end() the worker is attached still.
 */
int daemon_detach_begin(struct daemon_worker *worker, const struct daemon_options *options);

/* The process has closed its connection. */
void daemon_detach_end(struct daemon_worker *worker);

/* The process stays attached: its token is void, and the worker ends with its channel. */
void daemon_detach_cancel(struct daemon_worker *worker);

/* Whether the token is the worker's. Takes the same time for all tokens. */
bool daemon_detach_is_token(const struct daemon_worker *worker, const uint8_t token[VCUDA_TOKEN_BYTES]);

/* `who` has the token of the detached worker, and becomes its process. 0 or -errno: EPERM: it may not. */
int daemon_detach_claim(struct daemon_worker *worker, const struct ucred *who);

/* Whether the process that has claimed the worker may attach now: it is restored, and the worker takes no step. */
bool daemon_detach_may_attach(const struct daemon_worker *worker);

/* Then: gives the connection, which stays the caller's, to the worker. The token is void. */
void daemon_detach_attach(struct daemon_worker *worker, int connection);

#endif
