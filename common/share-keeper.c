/* SPDX-License-Identifier: Apache-2.0 */
#include "share-keeper.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

int vcuda_keeper_send(int socket, const struct vcuda_keeper_message *m, int fd, int flags)
{
	union control control = {0};
	struct iovec iov = {(void *)(uintptr_t)m, sizeof(*m)};
	struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t bytes;

	if (fd >= 0) {
		h.msg_control = &control;
		h.msg_controllen = sizeof(control);
		control.align = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	}
	do
		bytes = sendmsg(socket, &h, flags | MSG_NOSIGNAL);
	while (bytes < 0 && errno == EINTR);
	return bytes < 0 ? -errno : 0;
}

/* There is room for two, with which some kernels fill the space of one and its padding: the second one is closed. */
static int take_descriptor(struct msghdr *h)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(h);
	int fds[2], count;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return -1;
	count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(fds, CMSG_DATA(c), (size_t)count * sizeof(int));
	if (count > 1)
		close(fds[1]);
	return count ? fds[0] : -1;
}

int vcuda_keeper_receive(int socket, struct vcuda_keeper_message *m, int *fd, int flags)
{
	union control control;
	struct iovec iov = {m, sizeof(*m)};
	struct msghdr h = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	ssize_t bytes;

	*fd = -1;
	do
		bytes = recvmsg(socket, &h, flags | MSG_CMSG_CLOEXEC);
	while (bytes < 0 && errno == EINTR);
	if (bytes < 0)
		return -errno;
	*fd = take_descriptor(&h);
	if (bytes == sizeof(*m) && !(h.msg_flags & MSG_TRUNC))
		return 1;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return bytes ? -EPROTO : 0;
}
