/* SPDX-License-Identifier: Apache-2.0 */
#include "mapper/grants.h"

#include <errno.h>
#include <stdlib.h>

int daemon_grants_add(struct daemon_grants *grants, uint64_t address, const struct vcuda_channel_extent *extents,
		      uint32_t count, bool writable)
{
	struct daemon_grant *list;
	uint32_t i;

	if (!count)
		return 0;
	list = reallocarray(grants->grants, grants->count + count, sizeof(*list));
	if (!list)
		return -ENOMEM;
	grants->grants = list;
	for (i = 0; i < count; i++) {
		list[grants->count++] = (struct daemon_grant){.address = address,
							      .length = extents[i].length,
							      .offset = extents[i].offset,
							      .region = extents[i].region,
							      .writable = writable};
		address += extents[i].length;
	}
	return 0;
}

void daemon_grants_free(struct daemon_grants *grants)
{
	free(grants->grants);
	*grants = (struct daemon_grants){0};
}

static bool has_same_memory(const struct daemon_grant *a, const struct daemon_grant *b)
{
	return a->length == b->length && a->offset == b->offset && a->region == b->region && a->writable == b->writable;
}

static int compare_addresses(const void *a, const void *b)
{
	const struct daemon_grant *one = a, *other = b;

	return (one->address > other->address) - (one->address < other->address);
}

bool daemon_grants_have(const struct daemon_grants *grants, const struct daemon_grant *wanted)
{
	const struct daemon_grant *found;

	if (!grants->count)
		return false;
	found = bsearch(wanted, grants->grants, grants->count, sizeof(*found), compare_addresses);
	return found && has_same_memory(found, wanted);
}

bool daemon_grants_have_anywhere(const struct daemon_grants *grants, const struct daemon_grant *wanted)
{
	uint32_t i;

	for (i = 0; i < grants->count; i++)
		if (has_same_memory(&grants->grants[i], wanted))
			return true;
	return false;
}
