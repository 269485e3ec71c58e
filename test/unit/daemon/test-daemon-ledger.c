/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of the ledger that change while workers run. test/vhost/test-ledger.py tests the workers' messages. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/daemon/limits/ledger.h"
#include "test/check.h"

#define MIB (1ull << 20)

static struct daemon_loop loop;
static const uint32_t guest_pid = 42;

static void broken(struct daemon_ledger_row *row)
{
	CHECK(!row);
}

static void stop(struct daemon_loop *l)
{
	l->stop = true;
}

static struct vcuda_ledger_message ask(int worker, struct vcuda_ledger_message m)
{
	CHECK(send(worker, &m, sizeof(m), 0) == sizeof(m));
	loop.stop = false;
	daemon_loop_run(&loop);
	CHECK(recv(worker, &m, sizeof(m), 0) == sizeof(m));
	return m;
}

static uint64_t take(int worker, uint64_t bytes)
{
	return ask(worker, (struct vcuda_ledger_message){.type = VCUDA_LEDGER_TAKE, .bytes = bytes}).bytes;
}

static void test_limits_change(void)
{
	struct daemon_options options = {
		.backend = "cpu", .max_device_memory = 10 * MIB, .max_process_device_memory = VCUDA_LEDGER_NO_LIMIT};
	struct daemon_ledger_row row;
	int worker;

	CHECK(daemon_loop_init(&loop) == 0);
	loop.idle = stop;
	daemon_ledger_refresh(&options);
	CHECK(daemon_ledger_open(&row, &loop, &worker) == 0);
	CHECK(daemon_ledger_start(&row, getpid(), &guest_pid, broken) == 0);
	CHECK(take(worker, 8 * MIB) == 8 * MIB);

	/* below what is granted, which stays */
	options.max_device_memory = 4 * MIB;
	daemon_ledger_refresh(&options);
	CHECK(take(worker, 1) == 0);
	CHECK(daemon_ledger_granted(0) == 8 * MIB);

	options.max_device_memory = 20 * MIB;
	options.max_process_device_memory = 12 * MIB;
	daemon_ledger_refresh(&options);
	CHECK(take(worker, 5 * MIB) == 0);
	CHECK(take(worker, 4 * MIB) == 4 * MIB);

	daemon_ledger_close(&row);
	CHECK(daemon_ledger_granted(0) == 0);
	close(worker);
	daemon_loop_close(&loop);
}

/* A worker that asks and ends at once has broken no rule. */
static void test_worker_ends(void)
{
	const struct vcuda_ledger_message m = {.type = VCUDA_LEDGER_JOIN};
	struct daemon_ledger_row row;
	int worker;

	CHECK(daemon_loop_init(&loop) == 0);
	loop.idle = stop;
	loop.stop = false;
	CHECK(daemon_ledger_open(&row, &loop, &worker) == 0);
	CHECK(daemon_ledger_start(&row, getpid(), &guest_pid, broken) == 0);
	CHECK(send(worker, &m, sizeof(m), 0) == sizeof(m));
	close(worker);
	daemon_loop_run(&loop);
	CHECK(row.fd < 0);
	daemon_ledger_close(&row);
	daemon_loop_close(&loop);
}

static uint64_t granted_to_vm;
static unsigned int wants;

static uint64_t room(bool now)
{
	uint64_t most = granted_to_vm + (now ? MIB : 0), sum = daemon_ledger_sum();

	return most > sum ? most - sum : 0;
}

static void count_want(void)
{
	wants++;
}

static void ignore(void)
{
}

static const struct daemon_ledger_row *paused;

static bool counts(const struct daemon_ledger_row *row)
{
	return row != paused;
}

static const struct daemon_ledger_growth growth = {.room = room, .counts = counts, .want = count_want, .waits = ignore};

/* The answer to a request for `bytes` of which nothing is granted. */
static uint64_t answer_to(int worker, uint32_t type, uint64_t bytes)
{
	struct vcuda_ledger_message m = ask(worker, (struct vcuda_ledger_message){.type = type, .bytes = bytes});

	CHECK(m.type == type && m.bytes == 0);
	return m.spare;
}

/* A worker waits for what the VM has no room for; one that cannot wait has a little more at once. */
static void test_growth(void)
{
	struct daemon_options options = {.backend = "cpu",
					 .max_device_memory = 100 * MIB,
					 .max_process_device_memory = VCUDA_LEDGER_NO_LIMIT,
					 .overcommit = 64 * MIB};
	struct vcuda_ledger_message m = {.type = VCUDA_LEDGER_TAKE, .bytes = 3 * MIB, .spare = 100 * MIB};
	struct daemon_ledger_row row, other;
	int worker, other_worker;

	CHECK(daemon_loop_init(&loop) == 0);
	loop.idle = stop;
	CHECK(daemon_ledger_refresh(&options) == 0);
	CHECK(daemon_ledger_limit() == 64 * MIB);
	daemon_ledger_on_growth(&growth);
	CHECK(daemon_ledger_open(&row, &loop, &worker) == 0 && daemon_ledger_open(&other, &loop, &other_worker) == 0);
	CHECK(daemon_ledger_start(&row, getpid(), &guest_pid, broken) == 0);
	CHECK(daemon_ledger_start(&other, getpid(), &guest_pid, broken) == 0);

	/* The spare part is of the room that there is. */
	granted_to_vm = 4 * MIB;
	CHECK(ask(worker, m).bytes == 4 * MIB);
	CHECK(answer_to(worker, VCUDA_LEDGER_TAKE, MIB) == VCUDA_LEDGER_WAIT);
	CHECK(answer_to(worker, VCUDA_LEDGER_TAKE, 2 * MIB) == VCUDA_LEDGER_WAIT);
	CHECK(answer_to(other_worker, VCUDA_LEDGER_TAKE, 8 * MIB) == VCUDA_LEDGER_WAIT);
	/* The worker that has waited longest is served first, unless it is paused. */
	CHECK(wants == 3 && daemon_ledger_wanted() == 2 * MIB);
	paused = &row;
	CHECK(daemon_ledger_wanted() == 8 * MIB);
	paused = NULL;
	m = (struct vcuda_ledger_message){.type = VCUDA_LEDGER_TAKE_NOW, .bytes = MIB, .spare = MIB};
	CHECK(ask(worker, m).bytes == MIB);
	CHECK(answer_to(other_worker, VCUDA_LEDGER_TAKE_NOW, 1) == VCUDA_LEDGER_NO_ROOM);

	/* A grant to one thread does not end the wait of another thread of that worker. */
	CHECK(daemon_ledger_wanted() == 2 * MIB);
	granted_to_vm = 8 * MIB;
	daemon_ledger_end_wait(false);
	CHECK(daemon_ledger_wanted() == 0);
	CHECK(take(worker, 2 * MIB) == 2 * MIB);

	/* In vain: the same again is refused once, and after that it is another question. */
	CHECK(answer_to(worker, VCUDA_LEDGER_TAKE, 8 * MIB) == VCUDA_LEDGER_WAIT);
	CHECK(answer_to(other_worker, VCUDA_LEDGER_TAKE, 8 * MIB) == VCUDA_LEDGER_WAIT);
	daemon_ledger_end_wait(true);
	CHECK(answer_to(other_worker, VCUDA_LEDGER_TAKE, 8 * MIB) == VCUDA_LEDGER_WAIT);
	CHECK(answer_to(worker, VCUDA_LEDGER_TAKE, 4 * MIB) == VCUDA_LEDGER_WAIT);
	CHECK(answer_to(worker, VCUDA_LEDGER_TAKE, 8 * MIB) == VCUDA_LEDGER_NO_ROOM);
	CHECK(answer_to(worker, VCUDA_LEDGER_TAKE, 8 * MIB) == VCUDA_LEDGER_WAIT);
	daemon_ledger_close(&other);

	/* A program that begins waits for nothing. */
	CHECK(daemon_ledger_wanted() == 8 * MIB);
	m = (struct vcuda_ledger_message){.type = VCUDA_LEDGER_JOIN};
	ask(worker, m);
	CHECK(daemon_ledger_wanted() == 0);
	CHECK(answer_to(worker, VCUDA_LEDGER_TAKE, 9 * MIB) == VCUDA_LEDGER_WAIT);

	/* No other VM makes room for what the limit forbids; nor does a worker that has ended wait. */
	CHECK(answer_to(worker, VCUDA_LEDGER_TAKE, 65 * MIB) == VCUDA_LEDGER_ASK_AGAIN);
	daemon_ledger_close(&row);
	CHECK(daemon_ledger_wanted() == 0);
	CHECK(daemon_ledger_sum() == 0);
	daemon_ledger_on_growth(NULL);
	close(worker);
	close(other_worker);
	daemon_loop_close(&loop);
}

static void wait_for_stop(pid_t worker)
{
	siginfo_t info;

	CHECK(waitid(P_PID, (id_t)worker, &info, WSTOPPED) == 0 && info.si_code == CLD_STOPPED);
}

static void wait_for_continuation(pid_t worker)
{
	siginfo_t info;

	CHECK(waitid(P_PID, (id_t)worker, &info, WCONTINUED) == 0 && info.si_code == CLD_CONTINUED);
}

/* Only a worker whose work runs is stopped, and it goes on when that work has ended just before the signal. */
static void test_work_is_stopped(void)
{
	struct daemon_options options = {.backend = "cpu", .share = 1};
	struct daemon_ledger_row row;
	pid_t worker;
	int end;

	CHECK(daemon_loop_init(&loop) == 0);
	CHECK(daemon_ledger_refresh(&options) == 0);
	CHECK(daemon_ledger_open(&row, &loop, &end) == 0);
	worker = fork();
	if (!worker)
		for (;;)
			pause();
	CHECK(daemon_ledger_start(&row, worker, &guest_pid, broken) == 0);
	CHECK(daemon_ledger_stop_work() && !row.stopped);

	/* A worker of the software GPU that claims to use a GPU is stopped nevertheless. */
	row.demand->running = row.demand->on_gpu = 1;
	CHECK(daemon_ledger_stop_work());
	wait_for_stop(worker);
	daemon_ledger_continue_ended();
	CHECK(row.stopped);
	daemon_ledger_continue_work();
	wait_for_continuation(worker);

	daemon_ledger_stop_work();
	wait_for_stop(worker);
	row.demand->running = 0;
	daemon_ledger_continue_ended();
	wait_for_continuation(worker);

	/* A GPU's work runs on, whatever its process does. */
	options.backend = "auto";
	CHECK(daemon_ledger_refresh(&options) == 0);
	row.demand->running = 1;
	CHECK(!daemon_ledger_stop_work() && !row.stopped);

	/* Another process may have the number of a worker that has ended. */
	row.demand->running = 1;
	daemon_ledger_end_work(&row);
	daemon_ledger_stop_work();
	CHECK(!row.stopped);
	daemon_ledger_close(&row);
	close(end);
	kill(worker, SIGKILL);
	waitpid(worker, NULL, 0);
	daemon_loop_close(&loop);
}

static unsigned int drained;

static void count_drained(void)
{
	drained++;
}

/* Each signal of a worker arrives, whatever it does with the descriptor besides. */
static void test_drained(void)
{
	struct daemon_options options = {.backend = "cpu", .share = 1};
	struct daemon_ledger_row row;
	eventfd_t count;
	int end;

	CHECK(daemon_loop_init(&loop) == 0);
	loop.idle = stop;
	CHECK(daemon_ledger_refresh(&options) == 0);
	CHECK(daemon_ledger_open(&row, &loop, &end) == 0);
	CHECK(daemon_ledger_start(&row, getpid(), &guest_pid, broken) == 0);
	daemon_ledger_on_drained(count_drained);
	for (unsigned int i = 1; i <= 2; i++) {
		CHECK(eventfd_write(row.drained_fd, 1) == 0);
		loop.stop = false;
		daemon_loop_run(&loop);
		CHECK(drained == i);
	}
	/* Nothing that the handler does takes from the counter: its read would wait after a worker's. */
	CHECK(eventfd_read(row.drained_fd, &count) == 0 && count == 2);
	daemon_ledger_on_drained(NULL);
	daemon_ledger_close(&row);
	close(end);
	daemon_loop_close(&loop);
}

/* The grants change places with the memory, unless a limit is in the way. */
static void test_swap(void)
{
	struct daemon_options options = {
		.backend = "cuda", .max_device_memory = 10 * MIB, .max_process_device_memory = VCUDA_LEDGER_NO_LIMIT};
	struct daemon_ledger_row row, other;
	int ends[2];

	CHECK(daemon_loop_init(&loop) == 0);
	loop.idle = stop;
	CHECK(daemon_ledger_refresh(&options) == 0);
	CHECK(daemon_ledger_open(&row, &loop, &ends[0]) == 0 && daemon_ledger_open(&other, &loop, &ends[1]) == 0);
	CHECK(daemon_ledger_start(&row, getpid(), &guest_pid, broken) == 0);
	CHECK(daemon_ledger_start(&other, getpid(), &guest_pid, broken) == 0);
	CHECK(take(ends[0], 6 * MIB) == 6 * MIB && take(ends[1], 3 * MIB) == 3 * MIB);
	CHECK(daemon_ledger_row_gpu(&row) == 0);
	CHECK(daemon_ledger_row_may_swap(&row, 0, 1));
	daemon_ledger_row_swap(&row, 0, 1);
	CHECK(daemon_ledger_row_gpu(&row) == 1 && row.granted[0] == 0 && row.granted[1] == 6 * MIB);
	CHECK(daemon_ledger_granted(0) == 3 * MIB && daemon_ledger_granted(1) == 6 * MIB);
	options.max_device_memory = 8 * MIB;
	CHECK(daemon_ledger_refresh(&options) == 0);
	CHECK(!daemon_ledger_row_may_swap(&row, 1, 0) && !daemon_ledger_row_may_swap(&other, 0, 1));
	daemon_ledger_close(&row);
	daemon_ledger_close(&other);
	CHECK(daemon_ledger_granted(0) == 0 && daemon_ledger_granted(1) == 0);
	close(ends[0]);
	close(ends[1]);
	daemon_loop_close(&loop);
}

int main(void)
{
	test_swap();
	test_limits_change();
	test_worker_ends();
	test_growth();
	test_work_is_stopped();
	test_drained();
	return 0;
}
