/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The turns of this vcudad's VM on the device (vcudad --share): what its workers do goes to the arbiter
 * (protocol/ipc/arbiter.h), and what the arbiter says goes to the workers, in the ledger's page.
 *
 * The workers' words about their work are looked at every few milliseconds. They are the VM's own affair: a VM that
 * says that it has work has its share of the turns, and no more.
 */
#ifndef VCUDA_DAEMON_TURNS_H
#define VCUDA_DAEMON_TURNS_H

#include "loop/loop.h"
#include "options/options.h"

/* Without a share nothing happens. After daemon_ledger_refresh(). */
void daemon_turns_open(struct daemon_loop *loop, const struct daemon_options *options);
void daemon_turns_close(void);

/* "lost": there is no arbiter; "open": work runs at any time; "own", "other": whose turn it is. */
const char *daemon_turns_state(void);

/* While VMs take turns, since the start. Time counts in which the VM has work, or its work of the last turn runs. */
struct daemon_turns_time {
	uint64_t wanted_ns; /* the whole of it */
	uint64_t had_ns;    /* turns, and the time until their work had ended */
};

struct daemon_turns_time daemon_turns_time(void);

#endif
