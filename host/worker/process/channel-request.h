/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the control channel and their answers. */
#ifndef VCUDA_CHANNEL_REQUEST_H
#define VCUDA_CHANNEL_REQUEST_H

#include "protocol/ipc/channel.h"

/* One request as it arrived. Descriptors that the handler does not take are closed. */
struct worker_request {
	struct vcuda_channel_message m;
	struct vcuda_channel_extent extents[VCUDA_CHANNEL_MAX_EXTENTS];
	int fds[VCUDA_CHANNEL_MAX_FDS];
	unsigned int fd_count;
};

/* 1: a whole request; 0: the peer hung up; -errno. Blocks. */
int worker_request_receive(struct worker_request *q);

/* Answers with copies of at most two descriptors. */
void worker_request_reply(const struct worker_request *q, int status, const int *fds, unsigned int fd_count);

void worker_request_close_fds(struct worker_request *q);

#endif
