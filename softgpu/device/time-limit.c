/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that looks now and then at the kernels that run, where a limit is set. */
#include "device/time-limit.h"

#include <time.h>

#include "device/context.h"
#include "device/device.h"
#include "common/start-thread.h"

static struct vcuda_list running = VCUDA_LIST_INIT(running);

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void cpu_timer_start(struct cpu_timer *timer, struct CUctx_st *context)
{
	timer->context = context;
	timer->begun = 0;
	timer->expired = false;
	vcuda_list_init(&timer->node);
	if (cpu_device()->time_limit_ns)
		vcuda_list_add(&timer->node, &running);
}

void cpu_timer_touch(struct cpu_timer *timer)
{
	uint64_t none = 0;

	/* the time that a kernel waits for a thread is not its own */
	if (cpu_device()->time_limit_ns && !__atomic_load_n(&timer->begun, __ATOMIC_RELAXED))
		__atomic_compare_exchange_n(&timer->begun, &none, now_ns(), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void cpu_timer_stop(struct cpu_timer *timer)
{
	vcuda_list_remove(&timer->node);
}

bool cpu_timer_expired(struct cpu_timer *timer)
{
	bool expired = timer->expired;

	timer->expired = false;
	return expired;
}

static void look(uint64_t now)
{
	vcuda_list_for_each (node, &running) {
		struct cpu_timer *timer = container_of(node, struct cpu_timer, node);
		uint64_t begun = __atomic_load_n(&timer->begun, __ATOMIC_RELAXED);

		if (begun && now > begun && now - begun > cpu_device()->time_limit_ns &&
		    cpu_context_fail(timer->context, CUDA_ERROR_LAUNCH_TIMEOUT))
			timer->expired = true;
	}
}

static void *watch(void *unused)
{
	uint64_t step = cpu_device()->time_limit_ns / 8;
	struct timespec pause;

	(void)unused;
	step = step < 1000000 ? 1000000 : step > 250000000 ? 250000000 : step;
	pause = (struct timespec){0, (long)step};
	for (;;) {
		nanosleep(&pause, NULL);
		cpu_lock();
		look(now_ns());
		cpu_unlock();
	}
	return NULL;
}

bool cpu_time_limit_start(void)
{
	static bool watching;

	if (!watching && cpu_device()->time_limit_ns)
		watching = vcuda_thread_start(watch, NULL);
	return watching || !cpu_device()->time_limit_ns;
}
