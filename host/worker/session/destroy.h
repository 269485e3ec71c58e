/* SPDX-License-Identifier: Apache-2.0 */
/* Destructions that commands in flight have put off. Thread-safe. */
#ifndef VCUDA_DESTROY_H
#define VCUDA_DESTROY_H

#include <stdbool.h>

struct worker_session;

/* Once, before the first command. False: no thread could be started. */
bool worker_destroy_start(void);

/* Starts the destructions whose objects no command uses any more. Waits for none of them. */
void worker_destroy_ready(struct worker_session *s);

#endif
