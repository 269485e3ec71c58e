/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of image-channel.h, as both ends send and receive them. */
#ifndef VCUDA_IMAGE_MESSAGE_H
#define VCUDA_IMAGE_MESSAGE_H

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "image-channel.h"

/* `fd` goes along, unless that is -1. 0 or -errno. */
static inline int vcuda_image_send(int socket, const struct vcuda_image_message *m, int fd, int flags)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec part = {(void *)m, sizeof(*m)};
	struct msghdr h = {.msg_iov = &part, .msg_iovlen = 1};

	if (fd >= 0) {
		h.msg_control = &control;
		h.msg_controllen = sizeof(control);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(int));
	}
	return sendmsg(socket, &h, MSG_NOSIGNAL | flags) < 0 ? -errno : 0;
}

/*
 * As recvmsg() does, whose flags are in *flags, before and after. *fd is the descriptor that came along, -1: none. No
 * more than one fits; the kernel closes others.
 */
static inline ssize_t vcuda_image_receive(int socket, struct vcuda_image_message *m, int *fd, int *flags)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec part = {m, sizeof(*m)};
	struct msghdr h = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_LEN(sizeof(int))};
	ssize_t n = recvmsg(socket, &h, MSG_CMSG_CLOEXEC | *flags);
	struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&h);

	*fd = -1;
	*flags = h.msg_flags;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(c), sizeof(int));
	return n;
}

#endif
