/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns of several VMs on the host's processors (protocol/turns.h): this back end's demand, and whose turn it is. Where
 * no turns are set (vcuda_cpu_turns()), it is always this one's. Thread-safe.
 */
#ifndef VCUDA_CPU_TURN_H
#define VCUDA_CPU_TURN_H

#include <stdbool.h>

/* Whether the work of this VM waits for its turns, and whether the turn is another VM's now. Without the lock. */
bool softgpu_takes_turns(void);
bool softgpu_is_held(void);

/* Until it is not another VM's turn. Not with the lock held. */
void softgpu_turn_wait(void);

/* Work begins. False: it is another VM's turn. Else softgpu_turn_end() follows. */
bool softgpu_turn_begin(void);
void softgpu_turn_end(void);

/* An operation has units to run, and has none any more. */
void softgpu_turn_want(void);
void softgpu_turn_want_no_more(void);

#endif
