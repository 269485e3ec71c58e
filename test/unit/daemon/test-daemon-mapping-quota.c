/* SPDX-License-Identifier: Apache-2.0 */
/* The mapping quota of mappings against a plain model of it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/daemon/mapping-quota.h"
#include "test/seed.h"

#define PAGES 64

#define check(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "%s:%d: " #condition "\n", __FILE__, __LINE__);                                \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

static struct daemon_part whole(unsigned int page, unsigned int pages)
{
	return (struct daemon_part){.address = page * 4096ull,
				    .length = pages * 4096ull,
				    .bytes = pages * 4096ull,
				    .extents = pages,
				    .writable = true,
				    .last = true};
}

static void test_random(void)
{
	struct daemon_device_quota shared = {.max_pinned = 40 * 4096, .max_mappings = 12, .max_extents = 36};
	struct daemon_mapping_quota quota;
	uint64_t serials[PAGES] = {0};
	unsigned int lengths[PAGES] = {0}, i, round, used = 0, mappings = 0;

	daemon_mapping_quota_init(&quota, &shared);
	srand(test_seed());
	for (round = 0; round < 200000; round++) {
		unsigned int page = (unsigned int)rand() % PAGES, pages = 1 + (unsigned int)rand() % 8;
		struct daemon_part part = whole(page, pages);
		int expected = 0, status;
		uint64_t serial = 0;

		if (rand() % 2) {
			struct daemon_mapping *mapping = daemon_mapping_quota_find(&quota, part.address, part.length);

			check(!mapping == (lengths[page] != pages));
			if (!mapping)
				continue;
			check(mapping->serial == serials[page]);
			daemon_mapping_quota_remove(&quota, mapping->serial);
			used -= pages;
			mappings--;
			lengths[page] = 0;
			continue;
		}
		for (i = 0; i < PAGES; i++)
			if (lengths[i] && i < page + pages && page < i + lengths[i])
				expected = -EEXIST;
		if (!expected && (used + pages > 40 || mappings == 12))
			expected = -EDQUOT;
		if (used + pages > 36)
			expected = -ENOMEM;
		status = daemon_mapping_quota_add(&quota, &part, &serial);
		check(status == expected);
		if (status)
			continue;
		lengths[page] = pages;
		serials[page] = serial;
		used += pages;
		mappings++;
		check(shared.pinned == used * 4096ull && shared.mappings == mappings && quota.extents == used);
	}
	daemon_mapping_quota_free(&quota);
	check(!shared.pinned && !shared.mappings);
}

static void test_parts(void)
{
	struct daemon_device_quota shared = {.max_pinned = 1 << 20, .max_mappings = 4, .max_extents = 100};
	struct daemon_part part = {.address = 4096, .length = 3 * 4096, .bytes = 4096, .extents = 1};
	struct daemon_mapping_quota quota;
	uint64_t first, serial;

	daemon_mapping_quota_init(&quota, &shared);
	check(!daemon_mapping_quota_add(&quota, &part, &first));
	check(shared.pinned == 3 * 4096);
	part.offset = 8192;
	check(daemon_mapping_quota_add(&quota, &part, &serial) == -EINVAL);
	part.offset = 4096;
	part.writable = true;
	check(daemon_mapping_quota_add(&quota, &part, &serial) == -EINVAL);
	part.writable = false;
	check(!daemon_mapping_quota_add(&quota, &part, &serial) && serial == first);
	part.offset = 8192;
	part.last = true;
	check(!daemon_mapping_quota_add(&quota, &part, &serial) && serial == first);
	check(daemon_mapping_quota_add(&quota, &part, &serial) == -EINVAL);
	part.length = 4096;
	check(daemon_mapping_quota_add(&quota, &part, &serial) == -ENOENT);
	/* What was discharged when the worker was reaped is not given back twice. */
	daemon_mapping_quota_release(&quota);
	check(!shared.pinned && !shared.mappings);
	daemon_mapping_quota_remove(&quota, first);
	check(!shared.pinned && !shared.mappings && !quota.count && !quota.extents);
	daemon_mapping_quota_free(&quota);
}

int main(void)
{
	test_random();
	test_parts();
	return 0;
}
