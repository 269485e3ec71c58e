/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_CALLBACK_H
#define VCUDA_CALLBACK_H

/* The guest has rung: a host function may have returned. Any thread. */
void worker_callback_rung(void);

#endif
