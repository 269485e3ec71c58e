/* SPDX-License-Identifier: Apache-2.0 */
/* A listening Unix socket with a place in the file system. */
#ifndef VCUDA_LISTENER_H
#define VCUDA_LISTENER_H

#include <sys/types.h>

#include "loop/loop.h"

struct daemon_listener {
	struct daemon_loop *loop;
	const char *path;
	struct daemon_source source;
	struct daemon_timer pause; /* after an accept that failed for want of descriptors or memory */
	int fd;                    /* -1: closed */
	dev_t device;
	ino_t inode; /* of our socket file: another file may have replaced it */
	void (*accepted)(struct daemon_listener *listener, int fd); /* fd: non-blocking, the callee's */
};

/*
 * Takes the listening socket of that path that systemd has passed, if there is one. Otherwise binds and listens; a stale
 * socket file is replaced, a live one is not. `type`: SOCK_STREAM or SOCK_SEQPACKET. On
 * failure says why and returns -errno. `accepted` is set by the caller before.
 */
int daemon_listener_open(struct daemon_listener *listener, struct daemon_loop *loop, const char *path, int type,
			 mode_t mode);

/* Removes the sockets of that type in the directory whose programs are gone. Other files stay. */
void daemon_listener_clean(const char *directory, int type);

/* Unlinks the socket; connections that were made up to now are still handed out. */
void daemon_listener_drain(struct daemon_listener *listener);
void daemon_listener_close(struct daemon_listener *listener);

#endif
