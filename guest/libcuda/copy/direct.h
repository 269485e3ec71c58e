/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large copies of pageable memory where the VM's host has registered all of its RAM with the device: the kernel pins
 * the pages of a part of the memory, and the device copies from or to them in place. Meanwhile the next part is pinned
 * and the last one is released. Nothing stays pinned: the application may unmap its memory at any time.
 */
#ifndef VCUDA_GUEST_DIRECT_H
#define VCUDA_GUEST_DIRECT_H

#include <stddef.h>

#include "copy/copy-policy.h"

/* The bytes [from, to) of a copy. */
struct libcuda_span {
	size_t from, to;
};

/*
 * Copies a part of pageable memory, *done, and waits for it. The caller copies the rest in another form: everything
 * where the host does not offer direct copies, the ends, and the rest after the kernel refused a pin (a limit, or pages
 * in too many pieces). Thread-safe.
 */
CUresult libcuda_direct_copy(const struct libcuda_transfer *t, struct libcuda_span *done);

#endif
