/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images that workers have received and others of the same guest may have again: sealed files in memory, each under the
 * name that vcudad itself has computed of it. A guest is the VM, or a user of the host; one sees nothing of another's.
 */
#ifndef VCUDA_IMAGE_STORE_H
#define VCUDA_IMAGE_STORE_H

#include <stdint.h>

#include "protocol/image-cache.h"

/* All in all; what was not used for longest goes for what is new. 0: none are kept. */
void daemon_image_store_set_limit(uint64_t bytes);
uint64_t daemon_image_store_limit(void);

/* Whether there may be one of that length. */
enum vcuda_image_look daemon_image_store_look(uint64_t guest, uint64_t bytes);

/* The file, which stays the cache's; -1: there is none. */
int daemon_image_store_find(uint64_t guest, uint64_t bytes, const struct vcuda_image_name *name);

/* Takes a file over that has been checked. 0, -EEXIST, or another -errno; but for 0 it is closed. */
int daemon_image_store_enter(uint64_t guest, uint64_t bytes, const struct vcuda_image_name *name, int fd);

/* All of a guest that is gone. */
void daemon_image_store_drop(uint64_t guest);

#endif
