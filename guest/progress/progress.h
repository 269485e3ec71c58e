/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line on the terminal while the program waits for the software GPU's compiler: how many kernels are done, which one
 * is compiled, and for how long. Nothing where stderr is not a terminal, TERM is "dumb", or VCUDA_PROGRESS or VCUDA_LOG
 * is 0. Thread-safe.
 */
#ifndef VCUDA_PROGRESS_H
#define VCUDA_PROGRESS_H

#include "ring/ring.h"

/*
 * Before a thread sleeps: looks at what is compiled, and writes the line once the program has waited for a second.
 * Returns the microseconds after which the thread looks again; 0: there is no need.
 */
uint32_t client_progress_look(struct vcuda_shm *shm);

/* After the thread's wait: removes the line, as the program may write to its terminal from now on. */
void client_progress_end(void);

#endif
