/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ptx-hot.h"

#include <stddef.h>

#include "common/deadline.h"

static struct ptx_machine_code *code_of(const struct ptx_binary *b, bool masked)
{
	return __atomic_load_n(masked ? &b->masked : &b->full, __ATOMIC_ACQUIRE);
}

static bool is_counted(const struct ptx_machine_code *code)
{
	return code && code->quick && !__atomic_load_n(&code->hot, __ATOMIC_RELAXED);
}

void ptx_hot_begin(struct ptx_hot *hot, const struct ptx_binary *b)
{
	const struct ptx_machine_code *masked = code_of(b, true);

	hot->has_masked = masked != NULL;
	hot->since = is_counted(code_of(b, false)) || is_counted(masked) ? vcuda_now_ns() : 0;
}

static void count(const struct ptx_binary *b, bool masked, uint64_t ns)
{
	struct ptx_machine_code *code = code_of(b, masked);

	if (!is_counted(code) || __atomic_add_fetch(&code->ran_ns, ns, __ATOMIC_RELAXED) < code->worth_ns ||
	    __atomic_exchange_n(&code->hot, true, __ATOMIC_RELAXED))
		return;
	b->improve((struct ptx_binary *)(uintptr_t)b, masked);
}

void ptx_hot_end(const struct ptx_hot *hot, const struct ptx_binary *b)
{
	uint64_t ns;

	/* A call that made the masked version, or waited for that, has not run for all of its time. */
	if (!hot->since || hot->has_masked != (code_of(b, true) != NULL))
		return;
	ns = vcuda_now_ns() - hot->since;
	count(b, false, ns);
	count(b, true, ns);
}
