/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels in other VMs' turns: moments at which the driver looked, and what workers say of their work. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/deadline.h"
#include "host/daemon/limits/ledger.h"
#include "host/daemon/limits/overrun.h"
#include "test/check.h"

#define SECOND 1000000000ull
#define STEP (SECOND / 5)
#define ROUND (SECOND * 4 / 10)

#define WORKERS 64

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
	CHECK(row->over);
	broken_count++;
}

/* Workers whose numbers are no processes': nothing sends a signal here. */
static void begin(void)
{
	daemon_overrun_late_until(now);
	now += 100 * SECOND;
	broken_count = 0;
	for (int i = 0; i < WORKERS; i++) {
		CHECK(!daemon_ledger_open(&rows[i], &loop, &ends[i]));
		CHECK(!daemon_ledger_start(&rows[i], 100000000 + i, &guest_pid, broken));
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
static void look_at(uint32_t gpu, int worker, uint32_t busy)
{
	static struct vcuda_gpu_use m;

	m = (struct vcuda_gpu_use){.type = VCUDA_GPU_USE_SAMPLES, .gpu = gpu};
	for (uint64_t until = now + SECOND; now < until; now += STEP)
		m.samples[m.count++] = (struct vcuda_gpu_use_sample){
			.process = (uint32_t)(100000000 + worker), .busy = busy, .time_ns = now};
	daemon_overrun_samples(&m);
}

static void look(int worker, uint32_t busy)
{
	look_at(1, worker, busy);
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
	daemon_overrun_late_from(now);
	look_for(0, 100, 9);
	CHECK(rows[0].overrun_ns[1] && !rows[1].overrun_ns[1]);
	CHECK(!is_told(0));
	look_for(0, 100, 2);
	CHECK(is_told(0) && !is_told(1) && !broken_count);
	/* The worker goes on. */
	look_for(0, 100, 3);
	CHECK(broken_count == 1 && rows[0].over);
	look_for(0, 100, 3);
	CHECK(broken_count == 1);
	/* Until its processes are gone the row is there. */
	daemon_ledger_end_work(&rows[0]);
	look_for(0, 100, 20);
	CHECK(broken_count == 1);
	end();
}

/* One turn of 2 ms in each 0.4 s: one of two looks has no turn in the time before it. */
static void test_between_turns(void)
{
	begin();
	set(0, true, true);
	for (uint64_t at = now - STEP / 4; at < now + 22 * SECOND; at += ROUND) {
		daemon_overrun_late_from(at + SECOND / 500);
		daemon_overrun_late_until(at + ROUND);
	}
	look_for(0, 100, 19);
	CHECK(rows[0].overrun_ns[1] > 9 * SECOND && rows[0].overrun_ns[1] < 10 * SECOND && !is_told(0));
	look_for(0, 100, 2);
	CHECK(is_told(0));
	end();
}

static void test_in_its_turn(void)
{
	begin();
	set(0, true, true);
	look_for(0, 100, 20);
	CHECK(!rows[0].overrun_ns[1] && !is_told(0));
	end();
}

/* The worker looks at the time itself, or has said that its work has ended. */
static void test_does_not_wait(void)
{
	begin();
	set(0, true, false);
	daemon_overrun_late_from(now);
	look_for(0, 100, 30);
	CHECK(!rows[0].overrun_ns[1] && !is_told(0));
	set(0, false, true);
	look_for(0, 100, 30);
	CHECK(!rows[0].overrun_ns[1] && !is_told(0));
	end();
}

static void test_kernels_that_end(void)
{
	begin();
	set(0, true, true);
	daemon_overrun_late_from(now);
	for (int i = 0; i < 5; i++) {
		look_for(0, 100, 8);
		CHECK(rows[0].overrun_ns[1]);
		daemon_overrun_forget(&rows[0]);
	}
	CHECK(!is_told(0));
	end();
}

static void test_little(void)
{
	begin();
	set(0, true, true);
	daemon_overrun_late_from(now);
	/* A GPU that is idle most of the time. */
	look_for(0, 5, 100);
	CHECK(!is_told(0));
	/* Kernels now and then, of a VM with two thirds: without a look that counts no message need come. */
	options.share = 2;
	daemon_overrun_others_share(1);
	now += 4 * SECOND;
	for (int i = 0; i < 5; i++) {
		look_for(0, 100, 8);
		now += 4 * SECOND;
	}
	CHECK(!is_told(0));
	look_for(0, 0, 20);
	CHECK(!is_told(0));
	options.share = 1;
	end();
}

/* Kernels of two seconds, with pauses in which a share of a half is worth more, and a share of a tenth less. */
static void test_pauses(void)
{
	for (uint32_t others = 1; others <= 9; others += 8) {
		begin();
		daemon_overrun_others_share(others);
		set(0, true, true);
		daemon_overrun_late_from(now);
		for (int i = 0; i < 10; i++) {
			look_for(0, 100, 2);
			now += 3 * SECOND;
		}
		CHECK(is_told(0) == (others == 9));
		end();
	}
}

static void test_all_together(void)
{
	begin();
	for (int i = 0; i < 3; i++)
		set(i, true, true);
	daemon_overrun_late_from(now);
	for (int i = 0; i < 5; i++) {
		look(0, 100);
		look(1, 100);
		look(2, 5);
	}
	CHECK(!is_told(0));
	look(0, 100);
	CHECK(is_told(0) && is_told(1) && !is_told(2));
	end();
}

static int count_told(void)
{
	int count = 0;

	for (int i = 0; i < WORKERS; i++)
		count += is_told(i);
	return count;
}

/* One look of the driver that names the worker. */
static void look_once(uint32_t gpu, int worker)
{
	struct vcuda_gpu_use m = {.type = VCUDA_GPU_USE_SAMPLES, .gpu = gpu, .count = 1};

	m.samples[0] =
		(struct vcuda_gpu_use_sample){.process = (uint32_t)(100000000 + worker), .busy = 100, .time_ns = now};
	daemon_overrun_samples(&m);
}

/* Endless kernels of so many processes that a look finds each of them once in 13 s. */
static void test_many(void)
{
	int worker = 0;

	begin();
	for (int i = 0; i < WORKERS; i++)
		set(i, true, true);
	daemon_overrun_late_from(now);
	for (uint64_t until = now + 9 * SECOND; now < until; now += STEP)
		look_once(1, worker++ % WORKERS);
	CHECK(!count_told());
	for (uint64_t until = now + 20 * SECOND; now < until && count_told() < WORKERS; now += STEP) {
		/* One that was told to end has no kernel any more. */
		while (is_told(worker % WORKERS))
			worker++;
		look_once(1, worker++ % WORKERS);
	}
	CHECK(count_told() == WORKERS);
	end();
}

/* Sixteen processes with endless kernels on two GPUs. */
static void test_many_on_two_gpus(void)
{
	begin();
	for (int i = 0; i < 16; i++)
		set(i, true, true);
	daemon_overrun_late_from(now);
	for (int i = 0; i < 300 && count_told() < 16; i++, now += STEP) {
		for (uint32_t gpu = 1; gpu <= 2; gpu++)
			if (!is_told((i + (gpu == 2 ? 8 : 0)) % 16))
				look_once(gpu, (i + (gpu == 2 ? 8 : 0)) % 16);
	}
	CHECK(count_told() == 16);
	end();
}

/* Rare kernels of one process, whose work never ends, beside kernels of another one that end. */
static void test_rare_beside_others(void)
{
	begin();
	set(0, true, true);
	set(1, true, true);
	daemon_overrun_late_from(now);
	for (int times = 0; times < 12; times++) {
		look_for(0, 100, 2);
		for (int i = 0; i < 45; i++) {
			look(1, 100);
			daemon_overrun_forget(&rows[1]);
			now += SECOND;
		}
	}
	CHECK(!count_told());
	end();
}

/* A process is not ended for the time of another one, which has not been found for long. */
static void test_newcomer(void)
{
	begin();
	set(0, true, true);
	set(1, true, true);
	set(2, true, true);
	daemon_overrun_late_from(now);
	look_for(0, 100, 9);
	for (int i = 0; i < 12; i++) {
		look_once(1, 1);
		daemon_overrun_forget(&rows[1]);
		now += SECOND;
	}
	look_for(2, 100, 2);
	CHECK(!is_told(2));
	look_for(2, 100, 4);
	CHECK(is_told(2) && !is_told(0));
	end();
}

/* After eight times the limit without a look that finds it a process's time counts no more. */
static void test_old(void)
{
	begin();
	for (int i = 0; i < 3; i++)
		set(i, true, true);
	daemon_overrun_late_from(now);
	look_for(0, 100, 9);
	for (int i = 0; i < 50; i++) {
		look_once(1, 1);
		daemon_overrun_forget(&rows[1]);
		now += 2 * SECOND;
	}
	look_for(2, 100, 9);
	CHECK(!count_told());
	look_for(2, 100, 2);
	CHECK(is_told(2));
	end();
}

/* The time that a pause pays for is paid once. */
static void test_paid_once(void)
{
	begin();
	daemon_overrun_others_share(1);
	set(0, true, true);
	set(1, true, true);
	daemon_overrun_late_from(now);
	for (int i = 0; i < 4; i++) {
		look(0, 100);
		look(1, 100);
	}
	now += 4 * SECOND;
	look(0, 100);
	CHECK(rows[0].overrun_ns[1] + rows[1].overrun_ns[1] > 3 * SECOND);
	end();
}

/* Each counts as one that works for some seconds, whatever a pause has paid for. */
static void test_counts(void)
{
	begin();
	now = vcuda_now_ns();
	set(0, true, true);
	set(1, true, true);
	daemon_overrun_late_from(now - 10 * SECOND);
	now -= 5 * SECOND;
	look_once(1, 0);
	now += STEP;
	look_once(1, 0);
	now += 4 * SECOND;
	look_once(1, 1);
	CHECK(daemon_overrun_counts(&rows[0]) && daemon_overrun_counts(&rows[1]) && !daemon_overrun_counts(&rows[2]));
	daemon_overrun_forget(&rows[0]);
	CHECK(!daemon_overrun_counts(&rows[0]));
	end();
}

/* A worker that has ended leaves no time to another one. */
static void test_ended(void)
{
	begin();
	set(0, true, true);
	set(1, true, true);
	daemon_overrun_late_from(now);
	look_for(0, 100, 9);
	daemon_ledger_end_work(&rows[0]);
	look_for(1, 100, 9);
	CHECK(!is_told(1) && !broken_count);
	look_for(1, 100, 2);
	CHECK(is_told(1));
	end();
}

static void test_two_gpus(void)
{
	begin();
	set(0, true, true);
	daemon_overrun_late_from(now);
	for (int i = 0; i < 9; i++) {
		look_at(1, 0, 100);
		now -= SECOND;
		look_at(2, 0, 100);
	}
	CHECK(!is_told(0));
	end();
}

int main(void)
{
	CHECK(!daemon_loop_init(&loop));
	CHECK(!daemon_ledger_refresh(&options));
	daemon_overrun_open(&options);
	test_counts();
	test_in_its_turn();
	CHECK(!daemon_overrun_counts(&rows[0]));
	test_waits();
	CHECK(daemon_overrun_counts(&rows[0]));
	test_between_turns();
	test_does_not_wait();
	test_kernels_that_end();
	test_little();
	test_pauses();
	test_all_together();
	test_many();
	test_many_on_two_gpus();
	test_rare_beside_others();
	test_newcomer();
	test_old();
	test_paid_once();
	test_ended();
	test_two_gpus();
	daemon_loop_close(&loop);
	return 0;
}
