/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This worker's connection to its guest's keeper (common/share-keeper.h), which vcudad makes when it is first used.
 * The functions are thread-safe: a lock serialises requests.
 */
#ifndef VCUDA_WORKER_KEEPER_H
#define VCUDA_WORKER_KEEPER_H

#include <stdint.h>

#include "common/share-keeper.h"

/* A vcuda_share_exchange. `device` of an offer is the back end's number. */
int worker_keeper_exchange(struct vcuda_keeper_message *m, int fd, int *answer);

/*
 * A new descriptor for the guest process that holds the entry of this key, of 16 bytes. It is the caller's. -ENOENT:
 * the keeper has no such entry; -EDQUOT: there are too many; -ENOTCONN: there is no keeper; another -errno.
 */
int worker_keeper_descriptor(const uint64_t key[2]);

#endif
