/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at what workers offer, and names it, in a thread of its own: that takes a millisecond a MiB. Even to close a
 * descriptor that a worker sent may take long, so it is left to the thread as well.
 */
#ifndef VCUDA_IMAGE_CHECK_H
#define VCUDA_IMAGE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/ipc/image-channel.h"
#include "loop/loop.h"

struct daemon_image_check {
	struct daemon_image_check *next;
	int fd; /* -1: closed, since it is not what it should be */
	uint64_t bytes; /* as the worker says */
	uint64_t guest;
	unsigned int epoch; /* the caller's: it comes back unchanged */
	int status;         /* 0: it is that, and its name is right */
	struct vcuda_image_name name;
};

/* `done` gets each in the loop, and owns it and its descriptor from then on. 0 or -errno. */
int daemon_image_check_open(struct daemon_loop *loop, void (*done)(struct daemon_image_check *check));

/*
 * Takes over a descriptor, in any case. How many and how large ones wait for their turn is bounded; what is too much is
 * closed, and nobody hears of it.
 */
void daemon_image_check_start(int fd, uint64_t bytes, uint64_t guest, unsigned int epoch);

/* Has the thread close it, before it looks at anything else. Where very many wait for that it is done here and now. */
void daemon_image_check_close(int fd);

/* What the thread does, for tests: names a file that is as image-channel.h says. 0 or -errno. */
int daemon_image_check_file(int fd, uint64_t bytes, struct vcuda_image_name *name);

#endif
