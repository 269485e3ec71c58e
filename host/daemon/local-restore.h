/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of local processes about themselves: they give their sessions up while they are checkpointed, and take them
 * again (protocol/ipc/process.h: enum vcuda_restore_action). Their messages are untrusted. All functions belong to the
 * loop's thread.
 */
#ifndef VCUDA_LOCAL_RESTORE_H
#define VCUDA_LOCAL_RESTORE_H

#include <sys/socket.h>

#include "local.h"
#include "protocol/ipc/process.h"

/* A connection of a process. */
struct daemon_restore {
	struct daemon_local *local;
	struct ucred who;
	int fd;
	pid_t worker; /* the worker that is detached when the connection ends; 0: none */
};

enum daemon_restore_next {
	DAEMON_RESTORE_GOES_ON, /* the reply is to be sent */
	DAEMON_RESTORE_CLOSE,   /* and the connection closed then */
	DAEMON_RESTORE_GIVEN,   /* the reply was sent, and the connection is a worker's: our end is to be closed */
};

/* Acts on a request, and fills the reply in. */
enum daemon_restore_next daemon_local_restore_act(struct daemon_restore *restore,
						  const struct vcuda_restore_request *request,
						  struct vcuda_restore_reply *reply);

/* The connection has ended. */
void daemon_local_restore_end(struct daemon_restore *restore);

#endif
