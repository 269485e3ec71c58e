/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local clients that hold other processes (protocol/ipc/process.h). Their messages are untrusted. A client that sends
 * nothing for --client-timeout loses its place. All functions belong to the loop's thread.
 */
#ifndef VCUDA_LOCAL_PROCESS_H
#define VCUDA_LOCAL_PROCESS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "local.h"

/* Whether the client of an accepted connection holds other processes. */
bool daemon_local_process_is(int fd);

/* Takes the connection, which is closed at once where there is no place for it. */
void daemon_local_process_add(struct daemon_local *local, int fd, const struct ucred *who);

/* Closes all connections. */
void daemon_local_process_close(struct daemon_local *local);

#endif
