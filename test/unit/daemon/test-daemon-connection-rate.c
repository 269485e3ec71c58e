/* SPDX-License-Identifier: Apache-2.0 */
/* The token buckets of users. */
#include <stdio.h>
#include <stdlib.h>

#include "host/daemon/limits/connection-rate.h"
#include "test/check.h"

#define MS_PER_TOKEN (1000 / DAEMON_CONNECTIONS_PER_S)

static struct daemon_connection_rate rate;

static void use_up(uid_t user, uint64_t now)
{
	unsigned int i;

	for (i = 0; i < DAEMON_CONNECTION_BURST; i++)
		CHECK(daemon_connection_rate_take(&rate, user, now) == 0);
}

static unsigned int count_users(void)
{
	unsigned int count = 0;

	vcuda_list_for_each (node, &rate.users)
		count++;
	return count;
}

static void test_burst_and_refill(void)
{
	uint64_t now = 5000;

	use_up(1, now);
	CHECK(daemon_connection_rate_take(&rate, 1, now) == MS_PER_TOKEN);
	CHECK(daemon_connection_rate_take(&rate, 1, now + MS_PER_TOKEN - 1) == 1);
	CHECK(daemon_connection_rate_take(&rate, 1, now + MS_PER_TOKEN) == 0);
	CHECK(daemon_connection_rate_take(&rate, 1, now + MS_PER_TOKEN) == MS_PER_TOKEN);
	/* Small requests add up. */
	for (now += MS_PER_TOKEN; now < 5000 + 4 * MS_PER_TOKEN - 1; now++)
		daemon_connection_rate_take(&rate, 2, now);
	CHECK(daemon_connection_rate_take(&rate, 1, 5000 + 3 * MS_PER_TOKEN) == 0);
}

static void test_users_are_apart(void)
{
	use_up(11, 100000);
	CHECK(daemon_connection_rate_take(&rate, 11, 100000) > 0);
	CHECK(daemon_connection_rate_take(&rate, 12, 100000) == 0);
}

/* A bucket holds no more than a burst, however long the pause was. */
static void test_long_pause(void)
{
	use_up(21, 200000);
	use_up(21, UINT64_MAX / 2);
	CHECK(daemon_connection_rate_take(&rate, 21, UINT64_MAX / 2) > 0);
}

static void test_users_are_forgotten(void)
{
	uid_t user;
	uint64_t now = UINT64_MAX / 2;

	for (user = 1000; user < 3000; user++)
		CHECK(daemon_connection_rate_take(&rate, user, now += 1000) == 0);
	CHECK(count_users() < 10);
}

int main(void)
{
	daemon_connection_rate_init(&rate);
	test_burst_and_refill();
	test_users_are_apart();
	test_long_pause();
	test_users_are_forgotten();
	daemon_connection_rate_free(&rate);
	CHECK(count_users() == 0);
	return 0;
}
