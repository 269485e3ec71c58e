/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's requests to its keeper, when the keeper answers late. The test is the keeper: its answers lie ready. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/worker/session/keeper.h"
#include "host/worker/session/ledger.h"

static int connections[2]; /* the keeper's end, and the worker's */

unsigned int worker_ledger_gpu(unsigned int device)
{
	return device;
}

int worker_ledger_keeper(void)
{
	return connections[1];
}

static void make_connection(void)
{
	if (!connections[1])
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, connections), 0);
}

/* The next request of the worker's, whose descriptor is closed. */
static struct vcuda_keeper_message hear(void)
{
	struct vcuda_keeper_message m;
	int fd;

	assert_int_equal(vcuda_keeper_receive(connections[0], &m, &fd, MSG_DONTWAIT), 1);
	if (fd >= 0)
		close(fd);
	return m;
}

static void hear_nothing(void)
{
	struct vcuda_keeper_message m;
	int fd;

	assert_int_equal(vcuda_keeper_receive(connections[0], &m, &fd, MSG_DONTWAIT), -EAGAIN);
}

static void answer(struct vcuda_keeper_message m, int status)
{
	m.status = status;
	assert_int_equal(vcuda_keeper_send(connections[0], &m, -1, 0), 0);
}

static int ask(uint32_t type)
{
	struct vcuda_keeper_message m = {.type = type};
	int fd, status = worker_keeper_exchange(&m, -1, &fd);

	assert_int_equal(fd, -1);
	return status;
}

/* The call has failed: what the keeper has made of the offer meanwhile must not stay. */
static void test_a_late_offer_is_cancelled(void **state)
{
	struct vcuda_keeper_message offer, cancel;

	make_connection();
	assert_int_equal(ask(VCUDA_KEEPER_OFFER), -ETIMEDOUT);
	offer = hear();
	assert_int_equal(offer.type, VCUDA_KEEPER_OFFER);
	cancel = hear();
	assert_int_equal(cancel.type, VCUDA_KEEPER_CANCEL);
	assert_int_equal(cancel.count, offer.account);
	assert_int_not_equal(cancel.account, offer.account);
	hear_nothing();
	/* The next call takes neither late answer for its own. */
	answer(offer, 0);
	answer(cancel, 0);
	answer((struct vcuda_keeper_message){.type = VCUDA_KEEPER_WITHDRAW, .account = cancel.account + 1}, -ENOENT);
	assert_int_equal(ask(VCUDA_KEEPER_WITHDRAW), -ENOENT);
	assert_int_equal(hear().type, VCUDA_KEEPER_WITHDRAW);
	hear_nothing();
}

/* Nothing is left of other requests. */
static void test_others_are_not(void **state)
{
	make_connection();
	assert_int_equal(ask(VCUDA_KEEPER_TAKE), -ETIMEDOUT);
	assert_int_equal(hear().type, VCUDA_KEEPER_TAKE);
	hear_nothing();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_late_offer_is_cancelled),
		cmocka_unit_test(test_others_are_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
