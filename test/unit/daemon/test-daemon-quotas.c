/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas by name, and the values that are taken for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/daemon/options/quotas.h"
#include "test/check.h"

static void test_sizes(void)
{
	static const struct {
		const char *text;
		uint64_t value;
	} good[] = {{"0", 0},
		    {"17", 17},
		    {"1k", 1 << 10},
		    {"3M", 3 << 20},
		    {"8G", 8ull << 30},
		    {"2t", 2ull << 40},
		    {"9223372036854775807", INT64_MAX}};
	static const char *const bad[] = {"",
					  " 1",
					  "-1",
					  "+1",
					  "x",
					  "1x",
					  "1GB",
					  "G",
					  "1.5G",
					  "0x1",
					  "1 G",
					  "9999999T",
					  "9223372036854775808",
					  "99999999999999999999"};
	uint64_t value;
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(*good); i++)
		CHECK(daemon_parse_size(good[i].text, &value) && value == good[i].value);
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(!daemon_parse_size(bad[i], &value));
	CHECK(daemon_parse_number("64", &value) && value == 64);
	CHECK(!daemon_parse_number("64k", &value) && !daemon_parse_number("", &value));
}

static void test_table(void)
{
	struct daemon_options options = {.max_contexts = 7, .max_pinned = 9};
	enum daemon_quota quota;

	for (quota = 0; quota < DAEMON_QUOTAS; quota++)
		CHECK(daemon_quota_find(daemon_quota_kind(quota)->name) == quota);
	CHECK(daemon_quota_find("max") == DAEMON_QUOTAS && daemon_quota_find("") == DAEMON_QUOTAS);
	CHECK(daemon_quota_get(&options, DAEMON_QUOTA_CONTEXTS) == 7);
	CHECK(daemon_quota_set(&options, DAEMON_QUOTA_PINNED, "2M") && options.max_pinned == 2 << 20);
	CHECK(!daemon_quota_set(&options, DAEMON_QUOTA_CONTEXTS, "0"));
	CHECK(!daemon_quota_set(&options, DAEMON_QUOTA_CONTEXTS, "1025"));
	CHECK(options.max_contexts == 7);
	CHECK(daemon_quota_set(&options, DAEMON_QUOTA_CONTEXTS, "1024") && options.max_contexts == 1024);
}

static void test_refusals(void)
{
	daemon_quota_refuse(DAEMON_QUOTA_PINNED);
	daemon_quota_refuse(DAEMON_QUOTA_PINNED);
	CHECK(daemon_quota_refusals(DAEMON_QUOTA_PINNED) == 2 && daemon_quota_refusals(DAEMON_QUOTA_CONTEXTS) == 0);
}

int main(void)
{
	test_sizes();
	test_table();
	test_refusals();
	return 0;
}
