/* SPDX-License-Identifier: Apache-2.0 */
/* The mapping quota of mappings against a plain model of it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/daemon/limits/mapping-quota.h"
#include "test/seed.h"
#include "test/check.h"

#define PAGES 64

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

			CHECK(!mapping == (lengths[page] != pages));
			if (!mapping)
				continue;
			CHECK(mapping->serial == serials[page]);
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
		CHECK(status == expected);
		if (status)
			continue;
		lengths[page] = pages;
		serials[page] = serial;
		used += pages;
		mappings++;
		CHECK(shared.pinned == used * 4096ull && shared.mappings == mappings && quota.extents == used);
	}
	daemon_mapping_quota_free(&quota);
	CHECK(!shared.pinned && !shared.mappings);
}

static void test_parts(void)
{
	struct daemon_device_quota shared = {.max_pinned = 1 << 20, .max_mappings = 4, .max_extents = 100};
	struct daemon_part part = {.address = 4096, .length = 3 * 4096, .bytes = 4096, .extents = 1};
	struct daemon_mapping_quota quota;
	uint64_t first, serial;

	daemon_mapping_quota_init(&quota, &shared);
	CHECK(!daemon_mapping_quota_add(&quota, &part, &first));
	CHECK(shared.pinned == 3 * 4096);
	part.offset = 8192;
	CHECK(daemon_mapping_quota_add(&quota, &part, &serial) == -EINVAL);
	part.offset = 4096;
	part.writable = true;
	CHECK(daemon_mapping_quota_add(&quota, &part, &serial) == -EINVAL);
	part.writable = false;
	CHECK(!daemon_mapping_quota_add(&quota, &part, &serial) && serial == first);
	part.offset = 8192;
	part.last = true;
	CHECK(!daemon_mapping_quota_add(&quota, &part, &serial) && serial == first);
	CHECK(daemon_mapping_quota_add(&quota, &part, &serial) == -EINVAL);
	part.length = 4096;
	CHECK(daemon_mapping_quota_add(&quota, &part, &serial) == -ENOENT);
	/* The quota that was released when the worker was reaped is not given back twice. */
	daemon_mapping_quota_release(&quota);
	CHECK(!shared.pinned && !shared.mappings);
	daemon_mapping_quota_remove(&quota, first);
	CHECK(!shared.pinned && !shared.mappings && !quota.count && !quota.extents);
	daemon_mapping_quota_free(&quota);
}

/* Three mappings side by side, the middle one in two parts. */
static void test_grants(void)
{
	struct daemon_device_quota shared = {.max_pinned = 1 << 20, .max_mappings = 4, .max_extents = 100};
	const struct vcuda_channel_extent extents[2] = {{0, 0, 0x10000, 8192}, {1, 0, 0x20000, 4096}};
	const struct daemon_grant second = {0x10000 + 8192, 4096, 0x20000, 1, true},
				  none = {0x10000, 8192, 0x10000, 0, true};
	struct daemon_part part = {
		.length = 3 * 4096, .bytes = 3 * 4096, .extents = 2, .granted = extents, .writable = true};
	struct daemon_mapping_quota quota;
	struct daemon_grant wanted;
	uint64_t serials[3], i;

	daemon_mapping_quota_init(&quota, &shared);
	CHECK(!daemon_mapping_quota_grants(&quota, &none));
	for (i = 0; i < 3; i++) {
		part.address = 0x10000 + i * part.length;
		CHECK(!daemon_mapping_quota_add(&quota, &part, &serials[i]));
	}
	for (i = 0; i < 3; i++) {
		wanted = second;
		wanted.address += i * part.length;
		CHECK(daemon_mapping_quota_grants(&quota, &wanted));
		wanted.length = 8192;
		CHECK(!daemon_mapping_quota_grants(&quota, &wanted));
		wanted.length = 4096;
		wanted.writable = false;
		CHECK(!daemon_mapping_quota_grants(&quota, &wanted));
		wanted.writable = true;
		wanted.region = 0;
		CHECK(!daemon_mapping_quota_grants(&quota, &wanted));
		wanted.region = 1;
		wanted.offset += 4096;
		CHECK(!daemon_mapping_quota_grants(&quota, &wanted));
		wanted.offset -= 4096;
		wanted.address -= 4096;
		CHECK(!daemon_mapping_quota_grants(&quota, &wanted));
	}
	CHECK(daemon_mapping_quota_find_serial(&quota, serials[1])->reached);
	daemon_mapping_quota_remove(&quota, serials[1]);
	wanted = second;
	CHECK(daemon_mapping_quota_grants(&quota, &wanted));
	wanted.address += part.length;
	CHECK(!daemon_mapping_quota_grants(&quota, &wanted));
	wanted.address += part.length;
	CHECK(daemon_mapping_quota_grants(&quota, &wanted));
	daemon_mapping_quota_free(&quota);
}

static void test_grants_of_parts(void)
{
	struct daemon_device_quota shared = {.max_pinned = 1 << 20, .max_mappings = 4, .max_extents = 100};
	struct vcuda_channel_extent extent = {.offset = 0x10000, .length = 4096};
	struct daemon_part part = {.address = 4096, .length = 8192, .bytes = 4096, .extents = 1, .granted = &extent};
	struct daemon_mapping_quota quota;
	uint64_t serial;

	daemon_mapping_quota_init(&quota, &shared);
	CHECK(!daemon_mapping_quota_add(&quota, &part, &serial));
	CHECK(!daemon_mapping_quota_find_serial(&quota, serial)->reached);
	part.offset = 4096;
	part.last = true;
	extent.offset = 0x20000;
	CHECK(!daemon_mapping_quota_add(&quota, &part, &serial));
	CHECK(daemon_mapping_quota_grants(&quota, &(struct daemon_grant){4096, 4096, 0x10000, 0, false}));
	CHECK(daemon_mapping_quota_grants(&quota, &(struct daemon_grant){8192, 4096, 0x20000, 0, false}));
	CHECK(!daemon_mapping_quota_grants(&quota, &(struct daemon_grant){8192, 4096, 0x10000, 0, false}));
	CHECK(daemon_mapping_quota_find_serial(&quota, serial)->complete);
	daemon_mapping_quota_free(&quota);
	CHECK(!daemon_mapping_quota_find_serial(&quota, serial));
}

int main(void)
{
	test_random();
	test_parts();
	test_grants();
	test_grants_of_parts();
	return 0;
}
