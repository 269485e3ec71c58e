/* SPDX-License-Identifier: Apache-2.0 */
/* How often each user may connect: a token bucket a user. This module has no clock. */
#ifndef VCUDA_CONNECTION_RATE_H
#define VCUDA_CONNECTION_RATE_H

#include <stdint.h>
#include <sys/types.h>

#include "common/list.h"

/* More than any program or test suite that is known makes, and a load that a host bears. */
#define DAEMON_CONNECTION_BURST 200
#define DAEMON_CONNECTIONS_PER_S 50

struct daemon_connection_rate {
	struct vcuda_list users;
};

void daemon_connection_rate_init(struct daemon_connection_rate *rate);
void daemon_connection_rate_free(struct daemon_connection_rate *rate);

/*
 * Takes a token of the user's. Returns 0, or after how many ms there is one; then none is taken. `now` is a monotonic
 * time in ms. Without memory for the user there is no limit.
 */
uint64_t daemon_connection_rate_take(struct daemon_connection_rate *rate, uid_t user, uint64_t now);

#endif
