/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger's account of the host's memory, which refuses on demand. After cmocka.h. */
#ifndef TEST_FAKE_HOST_MEMORY_H
#define TEST_FAKE_HOST_MEMORY_H

#include "host/worker/session/ledger.h"

static _Atomic uint64_t host_held;
static bool host_is_full;

bool worker_ledger_host_room(uint64_t bytes)
{
	return !host_is_full;
}

bool worker_ledger_host_hold(uint64_t bytes)
{
	host_held += host_is_full ? 0 : bytes;
	return !host_is_full;
}

void worker_ledger_host_release(uint64_t bytes)
{
	assert_true(bytes <= host_held);
	host_held -= bytes;
}

/* The teardown of a group: all that was held is released. */
static inline int no_host_memory_is_held(void **state)
{
	return host_held ? -1 : 0;
}

#endif
