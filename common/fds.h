/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over Unix sockets that have descriptors with them (SCM_RIGHTS). Thread-safe; nothing is allocated. */
#ifndef VCUDA_FDS_H
#define VCUDA_FDS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Largest number of descriptors in one message. */
#define VCUDA_FDS_MOST 64

/* The descriptors of a message. They are the receiver's to close, and close on exec. */
struct vcuda_fds {
	unsigned int count;
	bool lost; /* the message had more than this process had room for: none is left of it, and `count` is 0 */
	int fd[VCUDA_FDS_MOST];
};

/*
 * Sends the parts as one message, with `count` descriptors, at most VCUDA_FDS_MOST, which stay the caller's. `flags`
 * are sendmsg()'s; there is no SIGPIPE. Returns the bytes that were sent, or -errno. -ETOOMANYREFS: too many
 * descriptors of the user are on their way.
 */
ssize_t vcuda_fds_send(int socket, const struct iovec *parts, size_t part_count, const int *fds, unsigned int count,
		       int flags);

/*
 * Receives a message into the parts. `flags` are recvmsg()'s. Returns the bytes that were received, 0 at the end of the
 * connection, or -errno, when there is no descriptor. -EMSGSIZE: a message that the parts have no room for, whose
 * descriptors are closed.
 */
ssize_t vcuda_fds_receive(int socket, const struct iovec *parts, size_t part_count, struct vcuda_fds *fds, int flags);

/* Closes all but the first `kept`. */
void vcuda_fds_close(struct vcuda_fds *fds, unsigned int kept);

/* Closes all but the first, which is then the caller's alone; -1: there is none. */
int vcuda_fds_take(struct vcuda_fds *fds);

#endif
