/* SPDX-License-Identifier: Apache-2.0 */
#include "turn.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend-cpu.h"

static struct vcuda_demand unread;
static _Atomic uint32_t never;
static struct vcuda_turns turns = {&never, -1, &unread};

__attribute__((visibility("default"))) void vcuda_cpu_turns(const struct vcuda_turns *to)
{
	turns = *to;
}

bool softgpu_takes_turns(void)
{
	return turns.state != &never;
}

bool softgpu_is_held(void)
{
	return atomic_load(turns.state) & VCUDA_TURNS_HELD;
}

void softgpu_turn_wait(void)
{
	uint32_t state;

	while ((state = atomic_load(turns.state)) & VCUDA_TURNS_HELD)
		syscall(SYS_futex, turns.state, FUTEX_WAIT, state, NULL, NULL, 0);
}

void softgpu_turn_end(void)
{
	if (atomic_fetch_sub(&turns.demand->running, 1) == 1 && softgpu_is_held())
		eventfd_write(turns.drained, 1);
}

bool softgpu_turn_begin(void)
{
	atomic_fetch_add(&turns.demand->running, 1);
	if (!softgpu_is_held())
		return true;
	softgpu_turn_end();
	return false;
}

void softgpu_turn_want(void)
{
	atomic_fetch_add(&turns.demand->wanted, 1);
	atomic_fetch_add(&turns.demand->begun, 1);
}

void softgpu_turn_want_no_more(void)
{
	atomic_fetch_sub(&turns.demand->wanted, 1);
}
