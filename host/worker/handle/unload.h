/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_UNLOAD_H
#define VCUDA_UNLOAD_H

/* Around whatever takes modules away: what reads in them is kept from doing so meanwhile. From any thread. */
void worker_unload_begin(void);
void worker_unload_end(void);

#endif
