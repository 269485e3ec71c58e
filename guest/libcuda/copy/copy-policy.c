/* SPDX-License-Identifier: Apache-2.0 */
#include "copy/copy-policy.h"

#include "copy/stage-queue.h"
#include "core/request.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum direction { IN = 1, OUT = 2, BOTH = IN | OUT };

enum state {
	ANY,
	ASYNC,
	IDLE, /* a synchronous copy on the default stream, while no work of the context is outstanding */
};

/*
 * The first rule that fits. The thresholds were measured on an H100 (doc/reference/performance.md):
 *
 * - 64 KiB: NVIDIA's driver returns at once from an asynchronous copy of as much pageable memory.
 * - 512 KiB: below this size the calling thread alone is as fast as with others that wake up first. At this size it
 *   copies alone, so that faults in its memory happen on a thread of the application.
 * - 16 MiB: below this size pinning pages for the copy takes longer than it saves.
 * - 64 KiB of mapped memory: a copy that need not be waited for takes 0.5 us instead of 8.
 */
static const struct rule {
	enum direction direction;
	enum libcuda_memory_kind host;
	enum state state;
	size_t most; /* bytes */
	enum libcuda_copy_form form;
} rules[] = {
	{IN, LIBCUDA_MEMORY_PAGEABLE, ASYNC, 64 * KIB, LIBCUDA_COPY_INLINE},
	{BOTH, LIBCUDA_MEMORY_PAGEABLE, ANY, 512 * KIB, LIBCUDA_COPY_QUEUED},
	{BOTH, LIBCUDA_MEMORY_PAGEABLE, ANY, 16 * MIB - 1, LIBCUDA_COPY_STRIPED},
	{IN, LIBCUDA_MEMORY_MAPPED, IDLE, LIBCUDA_STAGE_PIECE, LIBCUDA_COPY_QUEUED},
	{BOTH, LIBCUDA_MEMORY_MAPPED, ANY, SIZE_MAX, LIBCUDA_COPY_DIRECT},
	{BOTH, LIBCUDA_MEMORY_PAGEABLE, ANY, SIZE_MAX, LIBCUDA_COPY_DIRECT},
};

static bool is_in_state(const struct libcuda_transfer *t, enum state state)
{
	switch (state) {
	case ASYNC:
		return t->async;
	case IDLE:
		return libcuda_transfer_is_plain(t) && libcuda_context_is_idle(libcuda_request_context(t->how));
	default:
		return true;
	}
}

enum libcuda_copy_form libcuda_copy_form_of(const struct libcuda_transfer *t, enum libcuda_memory_kind host)
{
	enum direction direction = t->to_device ? IN : OUT;
	const struct rule *r = rules;

	while (!(r->direction & direction) || r->host != host || t->bytes > r->most || !is_in_state(t, r->state))
		r++;
	return r->form;
}
