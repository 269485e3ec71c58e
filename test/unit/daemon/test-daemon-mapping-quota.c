/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger of windows against a plain model of it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/daemon/mapping-quota.h"

#define PAGES 64

#define check(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "%s:%d: " #condition "\n", __FILE__, __LINE__);                                \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

static struct vcuda_part whole(unsigned int page, unsigned int pages)
{
	return (struct vcuda_part){.address = page * 4096ull,
				   .length = pages * 4096ull,
				   .bytes = pages * 4096ull,
				   .extents = pages,
				   .writable = true,
				   .last = true};
}

static void test_random(void)
{
	struct vcuda_quota quota = {.max_pinned = 40 * 4096, .max_windows = 12, .max_extents = 36};
	struct vcuda_ledger ledger;
	uint64_t serials[PAGES] = {0};
	unsigned int lengths[PAGES] = {0}, i, round, used = 0, windows = 0;

	vcuda_ledger_init(&ledger, &quota);
	srand(1);
	for (round = 0; round < 200000; round++) {
		unsigned int page = (unsigned int)rand() % PAGES, pages = 1 + (unsigned int)rand() % 8;
		struct vcuda_part part = whole(page, pages);
		int expected = 0, status;
		uint64_t serial = 0;

		if (rand() % 2) {
			struct vcuda_window *window = vcuda_ledger_find(&ledger, part.address, part.length);

			check(!window == (lengths[page] != pages));
			if (!window)
				continue;
			check(window->serial == serials[page]);
			vcuda_ledger_strike(&ledger, window->serial);
			used -= pages;
			windows--;
			lengths[page] = 0;
			continue;
		}
		for (i = 0; i < PAGES; i++)
			if (lengths[i] && i < page + pages && page < i + lengths[i])
				expected = -EEXIST;
		if (!expected && (used + pages > 40 || windows == 12))
			expected = -EDQUOT;
		if (used + pages > 36)
			expected = -ENOMEM;
		status = vcuda_ledger_enter(&ledger, &part, &serial);
		check(status == expected);
		if (status)
			continue;
		lengths[page] = pages;
		serials[page] = serial;
		used += pages;
		windows++;
		check(quota.pinned == used * 4096ull && quota.windows == windows && ledger.extents == used);
	}
	vcuda_ledger_free(&ledger);
	check(!quota.pinned && !quota.windows);
}

static void test_parts(void)
{
	struct vcuda_quota quota = {.max_pinned = 1 << 20, .max_windows = 4, .max_extents = 100};
	struct vcuda_part part = {.address = 4096, .length = 3 * 4096, .bytes = 4096, .extents = 1};
	struct vcuda_ledger ledger;
	uint64_t first, serial;

	vcuda_ledger_init(&ledger, &quota);
	check(!vcuda_ledger_enter(&ledger, &part, &first));
	check(quota.pinned == 3 * 4096);
	part.offset = 8192;
	check(vcuda_ledger_enter(&ledger, &part, &serial) == -EINVAL);
	part.offset = 4096;
	part.writable = true;
	check(vcuda_ledger_enter(&ledger, &part, &serial) == -EINVAL);
	part.writable = false;
	check(!vcuda_ledger_enter(&ledger, &part, &serial) && serial == first);
	part.offset = 8192;
	part.last = true;
	check(!vcuda_ledger_enter(&ledger, &part, &serial) && serial == first);
	check(vcuda_ledger_enter(&ledger, &part, &serial) == -EINVAL);
	part.length = 4096;
	check(vcuda_ledger_enter(&ledger, &part, &serial) == -ENOENT);
	/* What was discharged when the worker was reaped is not given back twice. */
	vcuda_ledger_discharge(&ledger);
	check(!quota.pinned && !quota.windows);
	vcuda_ledger_strike(&ledger, first);
	check(!quota.pinned && !quota.windows && !ledger.count && !ledger.extents);
	vcuda_ledger_free(&ledger);
}

int main(void)
{
	test_random();
	test_parts();
	return 0;
}
