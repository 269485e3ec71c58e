/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels outside of the VM's turns: moments at which the driver looked, and what workers say of their work. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "host/daemon/limits/ledger.h"
#include "host/daemon/limits/overrun.h"

#define SECOND 1000000000ull
#define STEP (SECOND / 5)
#define ROUND (SECOND * 4 / 10)

#define check(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "%s:%d: " #condition "\n", __FILE__, __LINE__);                                \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

#define WORKERS 3

static struct daemon_options options = {.backend = "cuda",
					.share = 1,
					.max_kernel_time = 10,
					.max_device_memory = VCUDA_LEDGER_NO_LIMIT,
					.max_process_device_memory = VCUDA_LEDGER_NO_LIMIT};
static struct daemon_loop loop;
static struct daemon_ledger_row rows[WORKERS];
static const uint32_t guest_pid = 42;
static int ends[WORKERS];
static uint64_t now = 1000 * SECOND;
static unsigned int broken_count;

static void broken(struct daemon_ledger_row *row)
{
	check(row->over);
	broken_count++;
}

/* Workers whose numbers are no processes': nothing sends a signal here. */
static void begin(void)
{
	now += 100 * SECOND;
	daemon_overrun_turn(DAEMON_OVERRUN_OWN, now);
	broken_count = 0;
	for (int i = 0; i < WORKERS; i++) {
		check(!daemon_ledger_open(&rows[i], &loop, &ends[i]));
		check(!daemon_ledger_start(&rows[i], 100000000 + i, &guest_pid, broken));
	}
}

static void end(void)
{
	for (int i = 0; i < WORKERS; i++) {
		daemon_ledger_end_work(&rows[i]);
		daemon_ledger_close(&rows[i]);
		close(ends[i]);
	}
}

static void set(int worker, bool running, bool waits)
{
	atomic_store(&rows[worker].demand->running, running);
	atomic_store(&rows[worker].demand->waits, waits);
}

static bool is_told(int worker)
{
	return atomic_load(&rows[worker].demand->overran);
}

/* The driver looks for a second, and finds kernels of the worker, or of another process of the host. */
static void look(int worker, uint32_t busy)
{
	static struct vcuda_gpu_use m;

	m = (struct vcuda_gpu_use){.type = VCUDA_GPU_USE_SAMPLES, .gpu = 1};
	for (uint64_t until = now + SECOND; now < until; now += STEP)
		m.samples[m.count++] = (struct vcuda_gpu_use_sample){
			.process = (uint32_t)(100000000 + worker), .busy = busy, .time_ns = now};
	daemon_overrun_samples(&m);
}

static void look_for(int worker, uint32_t busy, int seconds)
{
	while (seconds--)
		look(worker, busy);
}

static void test_waits(void)
{
	begin();
	set(0, true, true);
	set(1, true, true);
	daemon_overrun_turn(DAEMON_OVERRUN_LATE, now);
	look_for(0, 100, 9);
	check(rows[0].overrun_ns && !rows[1].overrun_ns && daemon_overrun_is_recent());
	check(!is_told(0));
	look_for(0, 100, 2);
	check(is_told(0) && !is_told(1) && !broken_count);
	/* It goes on. */
	look_for(0, 100, 3);
	check(broken_count == 1 && rows[0].over);
	look_for(0, 100, 3);
	check(broken_count == 1);
	end();
}

static void test_its_turn(void)
{
	begin();
	set(0, true, true);
	look_for(0, 100, 20);
	/* Each of these moments is in a turn of 2 ms, or just before or behind one. */
	for (int i = 0; i < 100; i++) {
		daemon_overrun_turn(DAEMON_OVERRUN_LATE, now + STEP / 2);
		daemon_overrun_turn(DAEMON_OVERRUN_OWN, now + STEP - SECOND / 1000);
		look(0, 100);
		now -= SECOND - STEP;
	}
	check(!rows[0].overrun_ns && !is_told(0));
	end();
}

/* One turn of 2 ms in each 0.4 s: one of two looks has no turn in the time before it. */
static void test_between_turns(void)
{
	begin();
	set(0, true, true);
	for (uint64_t at = now - STEP / 4; at < now + 40 * SECOND; at += ROUND) {
		daemon_overrun_turn(DAEMON_OVERRUN_LATE, at + SECOND / 500);
		daemon_overrun_turn(DAEMON_OVERRUN_OWN, at + ROUND);
	}
	look_for(0, 100, 19);
	check(rows[0].overrun_ns > 9 * SECOND && rows[0].overrun_ns < 10 * SECOND && !is_told(0));
	look_for(0, 100, 2);
	check(is_told(0));
	end();
}

/* The driver names the only VM with kernels also while another one's turn is, which copies. */
static void test_rounds(void)
{
	begin();
	for (int i = 0; i < 20; i++) {
		for (uint64_t at = now; at < now + SECOND; at += SECOND / 25) {
			daemon_overrun_turn(DAEMON_OVERRUN_OWN, at);
			daemon_overrun_turn(DAEMON_OVERRUN_ENDED, at + SECOND / 50);
		}
		look(0, 100);
	}
	check(!rows[0].overrun_ns && !is_told(0));
	end();
}

static void test_limit_of_the_worker(void)
{
	begin();
	set(0, true, false);
	daemon_overrun_turn(DAEMON_OVERRUN_LATE, now);
	look_for(0, 100, 30);
	check(!rows[0].overrun_ns && !is_told(0));
	end();
}

/* Each kernel is late, and has ended when the driver's words arrive. */
static void test_late_kernels(void)
{
	begin();
	for (int i = 0; i < 30; i++) {
		daemon_overrun_turn(DAEMON_OVERRUN_OWN, now);
		daemon_overrun_turn(DAEMON_OVERRUN_LATE, now + STEP / 2);
		daemon_overrun_turn(DAEMON_OVERRUN_ENDED, now + SECOND - STEP / 2);
		look(0, 100);
	}
	check(!rows[0].overrun_ns && !is_told(0));
	end();
}

static void test_lies(void)
{
	begin();
	set(0, false, false);
	daemon_overrun_turn(DAEMON_OVERRUN_ENDED, now);
	look_for(0, 100, 11);
	check(is_told(0));
	end();
}

static void test_little(void)
{
	begin();
	set(0, true, true);
	daemon_overrun_turn(DAEMON_OVERRUN_LATE, now);
	/* A GPU that is idle most of the time. */
	look_for(0, 5, 100);
	check(!is_told(0));
	look_for(WORKERS + 1, 100, 4);
	check(!rows[0].overrun_ns);
	/* Kernels now and then. */
	for (int i = 0; i < 5; i++) {
		look_for(0, 100, 8);
		look_for(WORKERS + 1, 100, 4);
	}
	check(!is_told(0));
	look_for(0, 0, 20);
	check(!is_told(0));
	end();
}

static void test_all_together(void)
{
	begin();
	for (int i = 0; i < WORKERS; i++)
		set(i, true, true);
	daemon_overrun_turn(DAEMON_OVERRUN_LATE, now);
	look(2, 30);
	for (int i = 0; i < 5; i++) {
		look(0, 100);
		look(1, 100);
	}
	check(is_told(0) && is_told(1) && !is_told(2));
	end();
}

int main(void)
{
	check(!daemon_loop_init(&loop));
	check(!daemon_ledger_refresh(&options));
	daemon_overrun_open(&options);
	check(!daemon_overrun_is_recent());
	test_waits();
	test_its_turn();
	test_between_turns();
	test_rounds();
	test_limit_of_the_worker();
	test_late_kernels();
	test_lies();
	test_little();
	test_all_together();
	daemon_loop_close(&loop);
	return 0;
}
