/* SPDX-License-Identifier: Apache-2.0 */
#include "at-work.h"

#include <stdatomic.h>

#include "backend-cpu.h"
#include "protocol/cpu-devices.h"

static unsigned int kernels[VCUDA_CPU_DEVICES_MOST], all[VCUDA_CPU_DEVICES_MOST]; /* threads */
static _Atomic uint32_t nowhere;
static _Atomic uint32_t *told = &nowhere;

__attribute__((visibility("default"))) void vcuda_cpu_tell_work(_Atomic uint32_t *to)
{
	told = to;
}

/* Only this process writes the word, one thread at a time. */
static void tell(uint32_t bit, bool set)
{
	uint32_t word = atomic_load_explicit(told, memory_order_relaxed);

	atomic_store_explicit(told, set ? word | bit : word & ~bit, memory_order_relaxed);
}

void softgpu_at_work_begin(int device, bool kernel)
{
	if (kernel && !kernels[device]++)
		tell(VCUDA_CPU_RUNS_KERNEL(device), true);
	if (!all[device]++)
		tell(VCUDA_CPU_RUNS(device), true);
}

void softgpu_at_work_end(int device, bool kernel)
{
	if (kernel && !--kernels[device])
		tell(VCUDA_CPU_RUNS_KERNEL(device), false);
	if (!--all[device])
		tell(VCUDA_CPU_RUNS(device), false);
}
