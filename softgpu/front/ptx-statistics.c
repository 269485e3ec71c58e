/* SPDX-License-Identifier: Apache-2.0 */
#include "front/ptx-statistics.h"

struct ptx_statistics ptx_statistics;

void ptx_statistics_get(struct ptx_statistics *to)
{
	to->compiled = __atomic_load_n(&ptx_statistics.compiled, __ATOMIC_RELAXED);
	to->quick = __atomic_load_n(&ptx_statistics.quick, __ATOMIC_RELAXED);
	to->loaded = __atomic_load_n(&ptx_statistics.loaded, __ATOMIC_RELAXED);
	to->whole = __atomic_load_n(&ptx_statistics.whole, __ATOMIC_RELAXED);
	to->bodies = __atomic_load_n(&ptx_statistics.bodies, __ATOMIC_RELAXED);
}

void ptx_statistics_count(uint64_t *number)
{
	__atomic_add_fetch(number, 1, __ATOMIC_RELAXED);
}
