/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct ranges: parts of the guest process that its kernel has pinned (VCUDA_MAP_DIRECT), of which the worker knows
 * where in the VM's RAM they lie. They are nobody's window: only copies that name them reach them. Thread-safe.
 * Functions return 0 or -errno.
 */
#ifndef VCUDA_DIRECT_H
#define VCUDA_DIRECT_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/ipc/channel.h"

struct vcuda_direct;

/* A part of what a copy names, in one piece of registered RAM; and what is left behind it. */
struct vcuda_direct_part {
	char *memory;
	uint64_t bytes;
	uint64_t offset, left; /* in the range; of the copy */
};

/* As vcuda_window_map() and vcuda_window_unmap(); -EBUSY while it is held. */
int vcuda_direct_map(uint64_t address, uint64_t length, uint64_t offset, bool writable, bool last,
		     const struct vcuda_channel_extent *extents, unsigned int count);
int vcuda_direct_unmap(uint64_t address, uint64_t length);

/* The complete range over [address, address + bytes), a writable one if so asked, which stays until it is released. */
struct vcuda_direct *vcuda_direct_hold(uint64_t address, uint64_t bytes, bool writable);
void vcuda_direct_release(struct vcuda_direct *range);

/* The first part of [address, address + bytes), all of which the range that is held has; then the one behind. */
void vcuda_direct_first(const struct vcuda_direct *range, uint64_t address, uint64_t bytes,
			struct vcuda_direct_part *part);
/* False: that was the last one. */
bool vcuda_direct_next(const struct vcuda_direct *range, struct vcuda_direct_part *part);

#endif
