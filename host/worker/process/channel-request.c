/* SPDX-License-Identifier: Apache-2.0 */
#include "process/channel-request.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "protocol/wire.h"

void worker_request_close_fds(struct worker_request *q)
{
	for (unsigned int i = 0; i < q->fd_count; i++)
		close(q->fds[i]);
	q->fd_count = 0;
}

static void take_fds(struct worker_request *q, struct msghdr *h)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (q->fd_count < VCUDA_CHANNEL_MAX_FDS)
				q->fds[q->fd_count++] = fd;
			else
				close(fd);
		}
	}
}

int worker_request_receive(struct worker_request *q)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * VCUDA_CHANNEL_MAX_FDS)];
		struct cmsghdr align;
	} control;
	struct iovec iov[2] = {{&q->m, sizeof(q->m)}, {q->extents, sizeof(q->extents)}};
	struct msghdr h = {.msg_iov = iov, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof(control)};
	ssize_t n;

	q->fd_count = 0;
	do {
		n = recvmsg(VCUDA_CHANNEL_FD, &h, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return 0;
	if (n < 0)
		return -errno;
	take_fds(q, &h);
	if (h.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || (size_t)n < sizeof(q->m) ||
	    q->m.extents > VCUDA_CHANNEL_MAX_EXTENTS ||
	    (size_t)n != sizeof(q->m) + q->m.extents * sizeof(q->extents[0])) {
		worker_request_close_fds(q);
		return -EPROTO;
	}
	return 1;
}

void worker_request_reply(const struct worker_request *q, int status, const int *fds, unsigned int fd_count)
{
	struct vcuda_channel_message m = {
		.type = q->m.type,
		.cookie = q->m.cookie,
		.status = status,
		.major = VCUDA_PROTOCOL_MAJOR,
		.minor = VCUDA_PROTOCOL_MINOR,
		.pid = (uint32_t)getpid(),
	};
	union {
		char bytes[CMSG_SPACE(sizeof(int) * 2)];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {&m, sizeof(m)};
	struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd_count) {
		struct cmsghdr *c = &control.align;

		h.msg_control = &control;
		h.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * fd_count);
	}
	if (sendmsg(VCUDA_CHANNEL_FD, &h, MSG_NOSIGNAL) < 0 && errno != EPIPE)
		vcuda_log("cannot answer on the control channel: %s", strerror(errno));
}
