/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors that the keeper waits for, in its only thread. */
#ifndef VCUDA_KEEPER_LOOP_H
#define VCUDA_KEEPER_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct keeper_source {
	int fd;
	void (*ready)(struct keeper_source *source);
};

/* Has `ready` called on epoll's `events`, and on errors, until the descriptor is closed. False: not possible (errno).
 */
bool keeper_watch(struct keeper_source *source, uint32_t events);

#endif
