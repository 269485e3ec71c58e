/* SPDX-License-Identifier: Apache-2.0 */
/* Grants: runs of guest RAM that a worker's mapper may map, each at one address with one right. */
#ifndef VCUDA_GRANTS_H
#define VCUDA_GRANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/ipc/channel.h"

struct daemon_grant {
	uint64_t address, length; /* bytes */
	uint64_t offset;          /* in the region */
	uint32_t region;          /* as the worker counts them */
	bool writable;
};

struct daemon_grants {
	struct daemon_grant *grants; /* sorted by address */
	uint32_t count;
};

/* Adds the runs one after another, from address on, behind all earlier ones. 0, or -ENOMEM and nothing is added. */
int daemon_grants_add(struct daemon_grants *grants, uint64_t address, const struct vcuda_channel_extent *extents,
		      uint32_t count, bool writable);
void daemon_grants_free(struct daemon_grants *grants);

/* Whether `wanted` is one of the grants. */
bool daemon_grants_have(const struct daemon_grants *grants, const struct daemon_grant *wanted);

/* The same, whatever the address. */
bool daemon_grants_have_anywhere(const struct daemon_grants *grants, const struct daemon_grant *wanted);

#endif
