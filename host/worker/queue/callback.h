/* SPDX-License-Identifier: Apache-2.0 */
/* Host functions of the guest (cuLaunchHostFunc) that streams wait for. */
#ifndef VCUDA_CALLBACK_H
#define VCUDA_CALLBACK_H

#include <stdbool.h>

struct worker_session;

/* Whether a host function is due and has not returned. Any thread. */
bool worker_callback_runs(struct worker_session *s);

/* The guest has rung the doorbell: a host function may have returned. Any thread. */
void worker_callback_rung(void);

#endif
