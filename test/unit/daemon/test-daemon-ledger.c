/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of the ledger that change while workers run. What workers say is in test/vhost/test-ledger.py. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/daemon/limits/ledger.h"

#define MIB (1ull << 20)

#define check(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "%s:%d: " #condition "\n", __FILE__, __LINE__);                                \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

static struct daemon_loop loop;
static const uint32_t guest_pid = 42;

static void broken(struct daemon_ledger_row *row)
{
	check(!row);
}

static void stop(struct daemon_loop *l)
{
	l->stop = true;
}

static uint64_t take(int worker, uint64_t bytes)
{
	struct vcuda_ledger_message m = {.type = VCUDA_LEDGER_TAKE, .bytes = bytes};

	check(send(worker, &m, sizeof(m), 0) == sizeof(m));
	loop.stop = false;
	daemon_loop_run(&loop);
	check(recv(worker, &m, sizeof(m), 0) == sizeof(m));
	return m.bytes;
}

static void test_limits_change(void)
{
	struct daemon_options options = {.max_device_memory = 10 * MIB,
					 .max_process_device_memory = VCUDA_LEDGER_NO_LIMIT};
	struct daemon_ledger_row row;
	int worker;

	check(daemon_loop_init(&loop) == 0);
	loop.idle = stop;
	daemon_ledger_refresh(&options);
	check(daemon_ledger_open(&row, &loop, &worker) == 0);
	check(daemon_ledger_start(&row, getpid(), &guest_pid, broken) == 0);
	check(take(worker, 8 * MIB) == 8 * MIB);

	/* below what is granted, which stays */
	options.max_device_memory = 4 * MIB;
	daemon_ledger_refresh(&options);
	check(take(worker, 1) == 0);
	check(daemon_ledger_granted(0) == 8 * MIB);

	options.max_device_memory = 20 * MIB;
	options.max_process_device_memory = 12 * MIB;
	daemon_ledger_refresh(&options);
	check(take(worker, 5 * MIB) == 0);
	check(take(worker, 4 * MIB) == 4 * MIB);

	daemon_ledger_close(&row);
	check(daemon_ledger_granted(0) == 0);
	close(worker);
	daemon_loop_close(&loop);
}

/* A worker that asks and ends at once has broken no rule. */
static void test_worker_ends(void)
{
	const struct vcuda_ledger_message m = {.type = VCUDA_LEDGER_JOIN};
	struct daemon_ledger_row row;
	int worker;

	check(daemon_loop_init(&loop) == 0);
	loop.idle = stop;
	loop.stop = false;
	check(daemon_ledger_open(&row, &loop, &worker) == 0);
	check(daemon_ledger_start(&row, getpid(), &guest_pid, broken) == 0);
	check(send(worker, &m, sizeof(m), 0) == sizeof(m));
	close(worker);
	daemon_loop_run(&loop);
	check(row.fd < 0);
	daemon_ledger_close(&row);
	daemon_loop_close(&loop);
}

int main(void)
{
	test_limits_change();
	test_worker_ends();
	return 0;
}
