/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct ranges: parts of the guest process that its kernel has pinned (VCUDA_MAP_DIRECT). The worker knows their
 * places in the VM's RAM. They are no mappings: only copies that name them reach them. Thread-safe. Functions return 0
 * or -errno.
 */
#ifndef VCUDA_DIRECT_H
#define VCUDA_DIRECT_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/ipc/channel.h"

struct worker_direct;

/* A part of what a copy names, in one piece of registered RAM; and what is left behind it. */
struct worker_direct_part {
	char *memory;
	uint64_t bytes;
	uint64_t offset, left; /* in the range; of the copy */
};

/* As worker_mapping_add() and worker_mapping_remove(); -EBUSY while it is held. */
int worker_direct_map(uint64_t address, uint64_t length, uint64_t offset, bool writable, bool last,
		      const struct vcuda_channel_extent *extents, unsigned int count);
int worker_direct_unmap(uint64_t address, uint64_t length);

/* The complete range over [address, address + bytes), a writable one if so asked, which stays until it is released. */
struct worker_direct *worker_direct_hold(uint64_t address, uint64_t bytes, bool writable);
void worker_direct_release(struct worker_direct *range);

/* The first part of [address, address + bytes), all of which the range that is held has; then the one behind. */
void worker_direct_first(const struct worker_direct *range, uint64_t address, uint64_t bytes,
			 struct worker_direct_part *part);
/* False: that was the last one. */
bool worker_direct_next(const struct worker_direct *range, struct worker_direct_part *part);

#endif
