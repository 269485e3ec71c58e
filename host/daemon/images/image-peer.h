/* SPDX-License-Identifier: Apache-2.0 */
/* vcudad's end of a worker's way to the cache of images (image-channel.h). What comes in is hostile. */
#ifndef VCUDA_IMAGE_PEER_H
#define VCUDA_IMAGE_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "loop/loop.h"

struct daemon_image_peer {
	struct daemon_loop *loop;
	struct daemon_source source;
	int fd; /* -1: none, or closed */
	bool has_guest;
	uint64_t guest; /* whose images it may have: VCUDA_WORKER_TABLE_VM, or a user */
};

/* Once for the daemon; without it, or with limit 0, no worker has a way. */
void daemon_image_peers_open(struct daemon_loop *loop, uint64_t limit);

/* Returns the worker's end, which is the caller's; -1: it has none. */
int daemon_image_peer_open(struct daemon_image_peer *peer, struct daemon_loop *loop);
void daemon_image_peer_close(struct daemon_image_peer *peer);

/* The worker has ended: what it offered last is taken before. */
void daemon_image_peer_end(struct daemon_image_peer *peer);

/* That guest is gone: none of its images stay, nor come later. */
void daemon_image_peers_forget(uint64_t guest);

/* From now on the worker serves that guest; before, it has no images. */
void daemon_image_peer_serves(struct daemon_image_peer *peer, uint64_t guest);

#endif
