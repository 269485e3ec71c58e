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

void softgpu_timer_start(struct softgpu_timer *timer, struct CUctx_st *context)
{
	timer->context = context;
	timer->begun = 0;
	timer->expired = false;
	vcuda_list_init(&timer->node);
	if (softgpu_device()->time_limit_ns)
		vcuda_list_add(&timer->node, &running);
}

void softgpu_timer_touch(struct softgpu_timer *timer)
{
	uint64_t none = 0;

	/* the time that a kernel waits for a thread is not its own */
	if (softgpu_device()->time_limit_ns && !__atomic_load_n(&timer->begun, __ATOMIC_RELAXED))
		__atomic_compare_exchange_n(&timer->begun, &none, now_ns(), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void softgpu_timer_stop(struct softgpu_timer *timer)
{
	vcuda_list_remove(&timer->node);
}

bool softgpu_timer_expired(struct softgpu_timer *timer)
{
	bool expired = timer->expired;

	timer->expired = false;
	return expired;
}

static void look(uint64_t now)
{
	vcuda_list_for_each (node, &running) {
		struct softgpu_timer *timer = container_of(node, struct softgpu_timer, node);
		uint64_t begun = __atomic_load_n(&timer->begun, __ATOMIC_RELAXED);

		if (begun && now > begun && now - begun > softgpu_device()->time_limit_ns &&
		    softgpu_context_fail(timer->context, CUDA_ERROR_LAUNCH_TIMEOUT))
			timer->expired = true;
	}
}

static void *watch(void *unused)
{
	uint64_t step = softgpu_device()->time_limit_ns / 8;
	struct timespec pause;

	(void)unused;
	step = step < 1000000 ? 1000000 : step > 250000000 ? 250000000 : step;
	pause = (struct timespec){0, (long)step};
	for (;;) {
		nanosleep(&pause, NULL);
		softgpu_lock();
		look(now_ns());
		softgpu_unlock();
	}
	return NULL;
}

bool softgpu_time_limit_start(void)
{
	static bool watching;

	if (!watching && softgpu_device()->time_limit_ns)
		watching = vcuda_thread_start(watch, NULL);
	return watching || !softgpu_device()->time_limit_ns;
}
