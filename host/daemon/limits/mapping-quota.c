/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "limits/mapping-quota.h"

void daemon_mapping_quota_init(struct daemon_mapping_quota *quota, struct daemon_device_quota *shared)
{
	*quota = (struct daemon_mapping_quota){.shared = shared};
}

void daemon_mapping_quota_release(struct daemon_mapping_quota *quota)
{
	uint32_t i;

	if (!quota->shared)
		return;
	for (i = 0; i < quota->count; i++)
		quota->shared->pinned -= quota->mappings[i].length;
	quota->shared->mappings -= quota->count;
	quota->shared = NULL;
}

void daemon_mapping_quota_free(struct daemon_mapping_quota *quota)
{
	uint32_t i;

	daemon_mapping_quota_release(quota);
	for (i = 0; i < quota->count; i++)
		daemon_grants_free(&quota->mappings[i].grants);
	free(quota->mappings);
	quota->mappings = NULL;
	quota->count = quota->capacity = 0;
}

/* The first mapping that ends behind `address`. */
static uint32_t position(const struct daemon_mapping_quota *quota, uint64_t address)
{
	uint32_t low = 0, high = quota->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct daemon_mapping *mapping = &quota->mappings[middle];

		if (mapping->address + mapping->length <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int grow(struct daemon_mapping_quota *quota)
{
	uint32_t capacity = quota->capacity ? quota->capacity * 2 : 8;
	struct daemon_mapping *mappings;

	if (quota->count < quota->capacity)
		return 0;
	mappings = realloc(quota->mappings, capacity * sizeof(*mappings));
	if (!mappings)
		return -ENOMEM;
	quota->mappings = mappings;
	quota->capacity = capacity;
	return 0;
}

static int grant(struct daemon_grants *grants, const struct daemon_part *part)
{
	if (!part->granted)
		return 0;
	return daemon_grants_add(grants, part->address + part->offset, part->granted, part->extents, part->writable);
}

static int enter_first(struct daemon_mapping_quota *quota, const struct daemon_part *part, uint64_t *serial)
{
	struct daemon_device_quota *shared = quota->shared;
	uint32_t place = position(quota, part->address);
	struct daemon_grants grants = {0};
	struct daemon_mapping *mapping;

	if (place < quota->count && quota->mappings[place].address < part->address + part->length)
		return -EEXIST;
	/* The limit may have been lowered since. */
	if (shared->pinned > shared->max_pinned || part->length > shared->max_pinned - shared->pinned ||
	    shared->mappings == shared->max_mappings)
		return -EDQUOT;
	if (grow(quota) || grant(&grants, part))
		return -ENOMEM;
	mapping = &quota->mappings[place];
	memmove(mapping + 1, mapping, (quota->count - place) * sizeof(*mapping));
	*mapping = (struct daemon_mapping){.address = part->address,
					   .length = part->length,
					   .mapped = part->bytes,
					   .serial = ++shared->next_serial,
					   .extents = part->extents,
					   .grants = grants,
					   .writable = part->writable,
					   .direct = part->direct,
					   .complete = part->last};
	quota->count++;
	shared->pinned += part->length;
	shared->mappings++;
	*serial = mapping->serial;
	return 0;
}

static int enter_next(struct daemon_mapping_quota *quota, const struct daemon_part *part, uint64_t *serial)
{
	struct daemon_mapping *mapping = daemon_mapping_quota_find(quota, part->address, part->length);

	if (!mapping)
		return -ENOENT;
	if (mapping->leaving || mapping->complete || mapping->mapped != part->offset ||
	    mapping->writable != part->writable || mapping->direct != part->direct)
		return -EINVAL;
	if (grant(&mapping->grants, part))
		return -ENOMEM;
	mapping->mapped += part->bytes;
	mapping->extents += part->extents;
	mapping->complete = part->last;
	*serial = mapping->serial;
	return 0;
}

int daemon_mapping_quota_add(struct daemon_mapping_quota *quota, const struct daemon_part *part, uint64_t *serial)
{
	int status;

	if (part->extents > quota->shared->max_extents - quota->extents)
		return -ENOMEM;
	status = (part->offset ? enter_next : enter_first)(quota, part, serial);
	if (!status)
		quota->extents += part->extents;
	return status;
}

struct daemon_mapping *daemon_mapping_quota_find(struct daemon_mapping_quota *quota, uint64_t address, uint64_t length)
{
	uint32_t place = position(quota, address);
	struct daemon_mapping *mapping;

	if (place == quota->count)
		return NULL;
	mapping = &quota->mappings[place];
	return mapping->address == address && mapping->length == length ? mapping : NULL;
}

struct daemon_mapping *daemon_mapping_quota_find_serial(struct daemon_mapping_quota *quota, uint64_t serial)
{
	uint32_t i;

	for (i = 0; i < quota->count; i++)
		if (quota->mappings[i].serial == serial)
			return &quota->mappings[i];
	return NULL;
}

bool daemon_mapping_quota_grants(struct daemon_mapping_quota *quota, const struct daemon_grant *wanted)
{
	uint32_t place = position(quota, wanted->address);

	if (place == quota->count || !daemon_grants_have(&quota->mappings[place].grants, wanted))
		return false;
	quota->mappings[place].reached = true;
	return true;
}

void daemon_mapping_quota_remove(struct daemon_mapping_quota *quota, uint64_t serial)
{
	struct daemon_mapping *mapping = daemon_mapping_quota_find_serial(quota, serial);

	if (!mapping)
		return;
	quota->extents -= mapping->extents;
	if (quota->shared) {
		quota->shared->pinned -= mapping->length;
		quota->shared->mappings--;
	}
	daemon_grants_free(&mapping->grants);
	quota->count--;
	memmove(mapping, mapping + 1, (size_t)(&quota->mappings[quota->count] - mapping) * sizeof(*mapping));
}

void daemon_mapping_quota_keep(struct daemon_mapping_quota *quota, uint64_t serial)
{
	struct daemon_mapping *mapping = daemon_mapping_quota_find_serial(quota, serial);

	if (mapping)
		mapping->leaving = false;
}
