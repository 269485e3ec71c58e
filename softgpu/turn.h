/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns of several VMs on the host's processors (protocol/turns.h): the demand of this back end, and whether its turn
 * is now. Without turns (vcuda_cpu_turns()) it is always this back end's turn. Thread-safe.
 */
#ifndef VCUDA_CPU_TURN_H
#define VCUDA_CPU_TURN_H

#include <stdbool.h>

/* Whether the work of this VM waits for its turns, and whether another VM has the turn now. Without the lock. */
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
