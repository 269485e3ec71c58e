/* SPDX-License-Identifier: Apache-2.0 */
/* Destructions that commands in flight have put off. Thread-safe. */
#ifndef VCUDA_DESTROY_H
#define VCUDA_DESTROY_H

struct worker_session;

/* Starts the destructions whose objects no command uses any more. Waits for none of them. */
void worker_destroy_ready(struct worker_session *s);

#endif
