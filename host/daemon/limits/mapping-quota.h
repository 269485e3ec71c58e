/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context's mapping quota: the mappings that its worker has or is getting, so that none overlaps another and quotas
 * hold whatever the worker answers. Direct ranges (VCUDA_MAP_DIRECT) are mappings here.
 */
#ifndef VCUDA_MAPPING_QUOTA_H
#define VCUDA_MAPPING_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "mapper/grants.h"

struct daemon_mapping {
	uint64_t address, length;
	uint64_t mapped; /* parts so far */
	uint64_t serial; /* of this device, never reused */
	uint32_t extents;
	struct daemon_grants grants;
	bool writable, direct, complete;
	bool leaving; /* being unmapped */
	bool reached; /* one of its grants was used */
};

/* The limits and counts of all mappings of a device. */
struct daemon_device_quota {
	uint64_t pinned, max_pinned;
	uint32_t mappings, max_mappings;
	uint32_t max_extents; /* of one context: a worker's mappings are limited by vm.max_map_count */
	uint64_t next_serial;
};

struct daemon_mapping_quota {
	struct daemon_device_quota *shared; /* NULL once nothing is charged any more */
	struct daemon_mapping *mappings;    /* sorted by address */
	uint32_t count, capacity;
	uint32_t extents;
};

struct daemon_part {
	uint64_t address, length, offset, bytes;
	uint32_t extents;
	const struct vcuda_channel_extent *granted; /* as many extents; NULL: grants are not kept */
	bool writable, direct, last;
};

void daemon_mapping_quota_init(struct daemon_mapping_quota *quota, struct daemon_device_quota *shared);

/* Gives back what is charged; the mappings stay known. */
void daemon_mapping_quota_release(struct daemon_mapping_quota *quota);
void daemon_mapping_quota_free(struct daemon_mapping_quota *quota);

/*
 * Enters a part; the first one makes the mapping and charges all of its length. 0 and *serial, or -errno: -EEXIST
 * (overlaps), -ENOENT (a later part of nothing), -EINVAL (not the next part of that mapping), -EDQUOT (the VM's pinned
 * bytes or mappings), -ENOMEM (too many extents, or no memory).
 */
int daemon_mapping_quota_add(struct daemon_mapping_quota *quota, const struct daemon_part *part, uint64_t *serial);

/* The mapping of exactly this range, NULL if there is none. */
struct daemon_mapping *daemon_mapping_quota_find(struct daemon_mapping_quota *quota, uint64_t address, uint64_t length);

/* The mapping with this number, NULL if there is none. */
struct daemon_mapping *daemon_mapping_quota_find_serial(struct daemon_mapping_quota *quota, uint64_t serial);

/* Whether `wanted` was granted to a mapping that is still there. Then the mapping counts as reached. */
bool daemon_mapping_quota_grants(struct daemon_mapping_quota *quota, const struct daemon_grant *wanted);

/* Strikes the mapping out if it is still there. */
void daemon_mapping_quota_remove(struct daemon_mapping_quota *quota, uint64_t serial);

/* The worker would not unmap it after all. */
void daemon_mapping_quota_keep(struct daemon_mapping_quota *quota, uint64_t serial);

#endif
