/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More VMs than the device has memory for (vcudad --overcommit). The arbiter (host/arbiter/memory.h) grants this
 * vcudad's VM a part of the memory, has the VM go out where another one needs its memory, and lets it in again. All
 * workers of the VM go out together: their gates are closed and their memory is released (gate.h).
 *
 * The ledger asks here before it grants a worker more than the VM has from the arbiter. That worker is told to wait,
 * and waits in front of its gate: a VM whose workers wait for memory can go out. A worker that cannot wait, for
 * instance because a kernel runs, gets its memory at once, up to a part of 1 / DAEMON_OVERCOMMIT_DRAFT of the capacity
 * beyond the grant; the arbiter learns of it afterwards. A VM that is out comes in when one of its commands waits in
 * front of a gate, or the operator resumes it.
 *
 * No call blocks. All functions belong to the loop's thread.
 */
#ifndef VCUDA_DAEMON_OVERCOMMIT_H
#define VCUDA_DAEMON_OVERCOMMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "loop/loop.h"
#include "options/options.h"

#define DAEMON_OVERCOMMIT_DRAFT 8

/* Without --overcommit nothing happens. Before daemon_arbiter_open(), and before there are workers. */
void daemon_overcommit_open(struct daemon_loop *loop, const struct daemon_options *options);
void daemon_overcommit_close(void);

/* The arbiter has no room for this VM's --min-device-memory, and never had: the loop has been told to stop. */
bool daemon_overcommit_is_refused(void);

struct daemon_overcommit_state {
	const char *place;          /* "in", "going-out", "out", "coming-in" */
	uint64_t granted, capacity; /* bytes; capacity 0: not known from the arbiter yet */
	uint64_t wait;              /* ms: how long this VM waits at the longest when it is out */
	uint64_t times;             /* number of times that the VM went out */
};

void daemon_overcommit_state(struct daemon_overcommit_state *state);

#endif
