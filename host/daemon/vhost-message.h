/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers of vhost-user messages. */
#ifndef VCUDA_VHOST_MESSAGE_H
#define VCUDA_VHOST_MESSAGE_H

#include "vhost.h"

/* Protocol features: only what is needed. Others would change what messages mean (bit 21: addresses become
 * guest-physical). */
#define DAEMON_VHOST_MQ (1ull << 0)
#define DAEMON_VHOST_REPLY_ACK (1ull << 3)
#define DAEMON_VHOST_CONFIG (1ull << 9)
#define DAEMON_VHOST_CONFIGURE_MEM_SLOTS (1ull << 15)
#define DAEMON_VHOST_STATUS (1ull << 16)

/* Handles vhost->message; a reply's payload and size are left in it. 0 or -errno. */
int daemon_vhost_handle(struct daemon_vhost *vhost);

/* True if a request of this number has a reply of its own. */
bool daemon_vhost_replies(uint32_t request);

/* True if vhost->message ends the use of a queue, so that workers must be gone before it is handled. */
bool daemon_vhost_stops(const struct daemon_vhost *vhost);

#endif
