/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that looks now and then at the kernels that run, where a limit is set. */
#include "device/time-limit.h"

#include <time.h>

#include "device/context.h"
#include "device/device.h"
#include "common/deadline.h"
#include "common/start-thread.h"
#include "turn.h"

#define LEAST_STEP_NS 1000000
#define MOST_STEP_NS 250000000

/* Where VMs take turns a step is as short as a turn. */
#define MOST_STEP_OF_TURN_NS 2000000

static struct vcuda_list running = VCUDA_LIST_INIT(running);

void softgpu_timer_start(struct softgpu_timer *timer, struct CUctx_st *context)
{
	timer->context = context;
	timer->begun = false;
	timer->ran_ns = 0;
	timer->expired = false;
	vcuda_list_init(&timer->node);
	if (softgpu_device()->time_limit_ns)
		vcuda_list_add(&timer->node, &running);
}

void softgpu_timer_touch(struct softgpu_timer *timer)
{
	/* the time that a kernel waits for a thread is not its own */
	if (softgpu_device()->time_limit_ns)
		__atomic_store_n(&timer->begun, true, __ATOMIC_RELAXED);
}

void softgpu_timer_pause(struct softgpu_timer *timer)
{
	__atomic_store_n(&timer->begun, false, __ATOMIC_RELAXED);
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

static void expire(struct softgpu_timer *timer)
{
	if (!softgpu_context_fail(timer->context, CUDA_ERROR_LAUNCH_TIMEOUT))
		return;
	timer->expired = true;
	if (softgpu_device()->time_refused)
		softgpu_device()->time_refused();
}

/* `passed`: since the last look. */
static void look(uint64_t passed)
{
	vcuda_list_for_each (node, &running) {
		struct softgpu_timer *timer = container_of(node, struct softgpu_timer, node);

		if (!__atomic_load_n(&timer->begun, __ATOMIC_RELAXED))
			continue;
		timer->ran_ns += passed;
		if (timer->ran_ns > softgpu_device()->time_limit_ns)
			expire(timer);
	}
}

/* Time in which this process was stopped, or no work could run, counts for no kernel. */
static void *watch(void *unused)
{
	uint64_t most = softgpu_takes_turns() ? MOST_STEP_OF_TURN_NS : MOST_STEP_NS;
	uint64_t step = softgpu_device()->time_limit_ns / 8, last = vcuda_now_ns(), now;
	struct timespec pause;

	(void)unused;
	step = step < LEAST_STEP_NS ? LEAST_STEP_NS : step > most ? most : step;
	pause = (struct timespec){0, (long)step};
	for (;; last = now) {
		nanosleep(&pause, NULL);
		now = vcuda_now_ns();
		if (softgpu_is_held())
			continue;
		softgpu_lock();
		look(now - last < 2 * step ? now - last : 2 * step);
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
