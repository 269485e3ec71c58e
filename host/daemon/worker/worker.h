/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker process as the daemon sees it: a pidfd, and over `virtio` a channel, two eventfds and perhaps a mapper. A
 * worker's messages are untrusted.
 *
 * From daemon_worker_start() on it lives until its process, all processes of its group (worker-group.h) and its mapper
 * are gone; then `reaped` is called once, and it is gone. While a process cannot end, `reaped` is not called, and a log
 * line says so.
 */
#ifndef VCUDA_WORKER_H
#define VCUDA_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "protocol/ipc/channel.h"
#include "protocol/ipc/process.h"
#include "limits/ledger.h"
#include "loop/loop.h"
#include "mapper/mapper.h"
#include "options/options.h"
#include "worker/gate.h"
#include "worker/worker-group.h"
#include "worker/worker-log.h"

/* A worker that is told to end gets this long. */
#define DAEMON_WORKER_GRACE_MS 2000

struct daemon_worker;

struct daemon_worker_ops {
	/* A well-formed reply to the oldest request that was sent; not over `local`. */
	void (*reply)(struct daemon_worker *worker, const struct vcuda_channel_message *reply);
	/* The guest's sleepers must be woken; not over `local`. */
	void (*wake)(struct daemon_worker *worker);
	void (*reaped)(struct daemon_worker *worker);
	/* Whether its mapper may map that; NULL: nothing. */
	bool (*may_map)(struct daemon_worker *worker, const struct daemon_grant *wanted);
};

/* The guest process that a worker serves, as its kernel or the socket says; pid 0: none yet. */
struct daemon_guest {
	uint32_t pid, uid;
	uint64_t since; /* daemon_now() */
};

/* The state of a local process that is checkpointed (detach.h). */
struct daemon_detach {
	struct daemon_source owner_source;
	struct daemon_timer timer; /* from the owner's end on */
	int owner;                 /* a pidfd; -1: the owner has ended, or the worker is not detached */
	uint32_t thread;           /* the restore thread of the guest process; 0: not found yet */
	unsigned int keep;         /* seconds */
	uint32_t flags;            /* VCUDA_PROCESS_QUIET, ... as the process says, and VCUDA_PROCESS_DETACHED */
	bool has_thread;           /* the process has said something of itself */
	bool has_token;
	uint8_t token[VCUDA_TOKEN_BYTES];
};

/* The process number of the guest process is free, or belongs to another process. */
static inline bool daemon_detach_is_ownerless(const struct daemon_detach *detach)
{
	return detach->flags & VCUDA_PROCESS_DETACHED && detach->owner < 0;
}

struct daemon_worker {
	struct daemon_loop *loop;
	const struct daemon_worker_ops *ops;
	void *owner;
	pid_t pid;
	struct daemon_guest guest;
	int pidfd;
	int channel, doorbell, notify; /* -1: none, or closed */
	struct daemon_worker_log log;
	struct daemon_ledger_row ledger;
	struct daemon_gate gate;
	struct daemon_detach detach;
	struct daemon_worker_group group;
	struct daemon_mapper mapper;
	struct daemon_source exit_source, channel_source, notify_source;
	struct daemon_timer end_timer;   /* until it is killed */
	struct daemon_timer reply_timer; /* until the oldest request is overdue */
	struct daemon_timer late_timer;  /* from the first kill on, until the log says that it had no effect */
	struct vcuda_list sent;          /* requests without reply, oldest first */
	struct vcuda_list unsent;        /* messages that the socket had no room for */
	uint64_t next_cookie;
	bool exited; /* the worker and its group have exited, while its mapper still runs */
	bool unfit;  /* the worker exited with VCUDA_CHANNEL_UNFIT */
	bool greedy; /* over a memory quota: killed by the kernel, or for the ledger */
	bool ending; /* told to end, or killed: an end is no news */
	bool quiet;  /* the log never reports the end */
};

/* `local`: fd is the client's connection, and stays the caller's. NULL and *status -errno. */
struct daemon_worker *daemon_worker_start_local(struct daemon_loop *loop, const struct daemon_options *options, int fd,
						const struct daemon_worker_ops *ops, void *owner, int *status);
struct daemon_worker *daemon_worker_start(struct daemon_loop *loop, const struct daemon_options *options,
					  const struct daemon_worker_ops *ops, void *owner, int *status);

/* For a guest process that is yet to come: the first message may also be CLIENT. quiet: neither side logs a failure. */
struct daemon_worker *daemon_worker_start_warm(struct daemon_loop *loop, const struct daemon_options *options,
					       bool quiet, const struct daemon_worker_ops *ops, void *owner,
					       int *status);

/* Notes the guest process that the worker serves from now on, and its guest (keeper/keeper.h). */
void daemon_worker_serve(struct daemon_worker *worker, uint32_t pid, uint32_t uid, uint64_t guest);

/* Whether the worker's process has ended; it may not be reaped yet. */
bool daemon_worker_has_ended(const struct daemon_worker *worker);

/* Closes the channel: the guest process talks to the worker directly, and the worker lives on. */
void daemon_worker_let_go(struct daemon_worker *worker);

/*
 * Sends a request, the cookie being set here; its reply must come within DAEMON_WORKER_REPLY_MS or the worker is
 * killed. Only a first request may carry descriptors. 0 or -errno.
 */
int daemon_worker_send(struct daemon_worker *worker, struct vcuda_channel_message *message,
		       const struct vcuda_channel_extent *extents, const int *fds, unsigned int fd_count);

void daemon_worker_ring(struct daemon_worker *worker);

/* Asks it to end by closing its channel, and kills it if it has not after DAEMON_WORKER_GRACE_MS. */
void daemon_worker_end(struct daemon_worker *worker);
void daemon_worker_kill(struct daemon_worker *worker);

#endif
