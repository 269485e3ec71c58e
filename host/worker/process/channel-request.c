/* SPDX-License-Identifier: Apache-2.0 */
#include "process/channel-request.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fds.h"
#include "common/log.h"
#include "protocol/wire.h"

void worker_request_close_fds(struct worker_request *q)
{
	for (unsigned int i = 0; i < q->fd_count; i++)
		close(q->fds[i]);
	q->fd_count = 0;
}

int worker_request_receive(struct worker_request *q)
{
	const struct iovec parts[2] = {{&q->m, sizeof(q->m)}, {q->extents, sizeof(q->extents)}};
	struct vcuda_fds fds;
	ssize_t n = vcuda_fds_receive(VCUDA_CHANNEL_FD, parts, 2, &fds, 0);

	q->fd_count = 0;
	if (n == 0 || n == -ECONNRESET)
		return 0;
	if (n < 0)
		return n == -EMSGSIZE ? -EPROTO : (int)n;
	if (fds.lost || (size_t)n < sizeof(q->m) || q->m.extents > VCUDA_CHANNEL_MAX_EXTENTS ||
	    (size_t)n != sizeof(q->m) + q->m.extents * sizeof(q->extents[0])) {
		vcuda_fds_close(&fds, 0);
		return -EPROTO;
	}
	vcuda_fds_close(&fds, VCUDA_CHANNEL_MAX_FDS);
	memcpy(q->fds, fds.fd, fds.count * sizeof(*q->fds));
	q->fd_count = fds.count;
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
	const struct iovec part = {&m, sizeof(m)};
	ssize_t n = vcuda_fds_send(VCUDA_CHANNEL_FD, &part, 1, fds, fd_count, 0);

	if (n < 0 && n != -EPIPE)
		vcuda_log("cannot answer on the control channel: %s", strerror((int)-n));
}
