/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large copies of pageable memory where the VM's host has registered all of its RAM with the device: the kernel pins
 * the pages of a part of it, the device copies from or to them where they lie, and meanwhile the next part is pinned
 * and the last one let go. Nothing stays pinned: the application may unmap its memory at any time.
 */
#ifndef VCUDA_GUEST_DIRECT_H
#define VCUDA_GUEST_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/client/call.h"
#include "protocol/cuda-abi.h"

/* Of a copy: the bytes [from, to). */
struct libcuda_span {
	size_t from, to;
};

/*
 * Copies what it can of `bytes` bytes on one of the worker's streams and waits for that. What it has not copied, before
 * and behind *done, is the caller's to copy in another way: all of it where nothing is offered or the copy is not
 * large, the ends, and what is left where the kernel pins no more (a limit, or pages in too many pieces). Thread-safe.
 */
CUresult libcuda_direct_copy(const struct call_options *how, void *host, uint64_t device, size_t bytes, bool to_device,
			     CUstream stream, struct libcuda_span *done);

#endif
