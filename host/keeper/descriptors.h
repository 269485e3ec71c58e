/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors of local guest processes that hold entries. */
#ifndef VCUDA_KEEPER_DESCRIPTORS_H
#define VCUDA_KEEPER_DESCRIPTORS_H

#include <stdbool.h>

#include "entries.h"

/*
 * Makes a descriptor that holds the entry (NULL: there is none) and sets *fd to it. The entry is released once all
 * copies of *fd are closed, the caller's included. 0, -ENOENT, -EDQUOT or another -errno.
 */
int keeper_make_descriptor(struct keeper_entry *e, int *fd);

/*
 * Whether a worker may have that kept: a file, a device of NVIDIA's, or what a driver of ours gives as a descriptor. No
 * socket, which could have a descriptor of this keeper in its queue, and none of the keeper's own descriptors: they
 * would hold themselves.
 */
bool keeper_may_keep(int fd);

#endif
