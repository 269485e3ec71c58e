/* SPDX-License-Identifier: Apache-2.0 */
#include "queue/profile.h"

#include <stdatomic.h>

#include "protocol/handlers.h"
#include "protocol/profile-rows.h"

static struct {
	_Atomic uint64_t count, sum, most;
} kinds[VCUDA_OP_LIMIT];

void worker_profile_add(unsigned int op, uint64_t value)
{
	uint64_t most = atomic_load_explicit(&kinds[op].most, memory_order_relaxed);

	atomic_fetch_add_explicit(&kinds[op].count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&kinds[op].sum, value, memory_order_relaxed);
	while (most < value && !atomic_compare_exchange_weak_explicit(&kinds[op].most, &most, value, memory_order_relaxed,
								      memory_order_relaxed))
		continue;
}

CUresult vcuda_handle_vcudaProfile(struct worker_session *s, struct vcuda_args_vcudaProfile *a)
{
	(void)s;
	a->used = 0;
	for (unsigned int op = 0; op < VCUDA_OP_LIMIT; op++) {
		uint64_t *row = a->rows + a->used;

		if (!kinds[op].count || a->words - a->used < VCUDA_PROFILE_WORDS)
			continue;
		row[VCUDA_PROFILE_OP] = op;
		row[VCUDA_PROFILE_COUNT] = kinds[op].count;
		row[VCUDA_PROFILE_SUM] = kinds[op].sum;
		row[VCUDA_PROFILE_MOST] = kinds[op].most;
		a->used += VCUDA_PROFILE_WORDS;
	}
	return CUDA_SUCCESS;
}
