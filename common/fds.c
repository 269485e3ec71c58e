/* SPDX-License-Identifier: Apache-2.0 */
#include "fds.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	char bytes[CMSG_SPACE(sizeof(int) * VCUDA_FDS_MOST)];
	struct cmsghdr align;
};

ssize_t vcuda_fds_send(int socket, const struct iovec *parts, size_t part_count, const int *fds, unsigned int count,
		       int flags)
{
	union control control;
	struct msghdr h = {.msg_iov = (struct iovec *)parts, .msg_iovlen = part_count};
	size_t bytes = count * sizeof(int);
	ssize_t sent;

	if (count > VCUDA_FDS_MOST)
		return -EINVAL;
	if (count) {
		memset(&control, 0, CMSG_SPACE(bytes));
		h.msg_control = &control;
		h.msg_controllen = CMSG_SPACE(bytes);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(&control.align), fds, bytes);
	}
	do
		sent = sendmsg(socket, &h, flags | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : sent;
}

/* The kernel passes no more descriptors than there is room for, and reports the rest by MSG_CTRUNC. */
static void collect(struct msghdr *h, struct vcuda_fds *fds)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		memcpy(fds->fd + fds->count, CMSG_DATA(c), count * sizeof(int));
		fds->count += (unsigned int)count;
	}
}

ssize_t vcuda_fds_receive(int socket, const struct iovec *parts, size_t part_count, struct vcuda_fds *fds, int flags)
{
	union control control;
	struct msghdr h = {.msg_iov = (struct iovec *)parts, .msg_iovlen = part_count, .msg_control = &control};
	ssize_t bytes;

	fds->count = 0;
	fds->lost = false;
	do {
		h.msg_controllen = sizeof(control);
		bytes = recvmsg(socket, &h, flags | MSG_CMSG_CLOEXEC);
	} while (bytes < 0 && errno == EINTR);
	if (bytes < 0)
		return -errno;
	collect(&h, fds);
	fds->lost = h.msg_flags & MSG_CTRUNC;
	if (fds->lost || h.msg_flags & MSG_TRUNC)
		vcuda_fds_close(fds, 0);
	return h.msg_flags & MSG_TRUNC ? -EMSGSIZE : bytes;
}

void vcuda_fds_close(struct vcuda_fds *fds, unsigned int kept)
{
	while (fds->count > kept)
		close(fds->fd[--fds->count]);
}

int vcuda_fds_take(struct vcuda_fds *fds)
{
	int fd;

	vcuda_fds_close(fds, 1);
	fd = fds->count ? fds->fd[0] : -1;
	fds->count = 0;
	return fd;
}
