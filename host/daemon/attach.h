/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the VM's RAM that a context's worker and its mapper get. */
#ifndef VCUDA_ATTACH_H
#define VCUDA_ATTACH_H

#include "device.h"

/*
 * Translates the extents to those of this context's worker. Adjacent ones become one extent, and one mmap(). Returns
 * the number of extents, or -ENXIO: the memory was added after the worker's start.
 */
int daemon_extents_for_worker(const struct daemon_context *context, const struct daemon_parsed *p,
			      struct vcuda_channel_extent *extents);

/* Sends the context's worker its first message. 0 or -errno. */
int daemon_attach(struct daemon_context *context, const struct daemon_parsed *p);

/* The same for another worker of that context. */
int daemon_attach_again(struct daemon_context *context);

#endif
