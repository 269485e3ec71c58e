/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that go from process to process over a socket of the Unix domain. */
#ifndef TEST_LOCAL_SEND_FILE_H
#define TEST_LOCAL_SEND_FILE_H

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

union send_file_control {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

/* False: the socket does not take it. The descriptor stays the caller's. */
static inline bool send_file(int to, int fd)
{
	union send_file_control control = {0};
	struct iovec iov = {"x", 1};
	struct msghdr h = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};

	control.align = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	return sendmsg(to, &h, 0) == 1;
}

/* Waits for one, which is the caller's then. -1: the message has none. */
static inline int receive_file(int from)
{
	union send_file_control control;
	char c;
	struct iovec iov = {&c, 1};
	struct msghdr h = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	int fd;

	if (recvmsg(from, &h, 0) != 1 || h.msg_controllen < CMSG_LEN(sizeof(int)))
		return -1;
	memcpy(&fd, CMSG_DATA(&control.align), sizeof(fd));
	return fd;
}

#endif
