/* SPDX-License-Identifier: Apache-2.0 */
/* Local programs: each connection is handed to a worker of its own, and nothing of what passes over it is seen here. */
#ifndef VCUDA_LOCAL_H
#define VCUDA_LOCAL_H

#include "common/list.h"
#include "listener.h"
#include "options.h"
#include "warm-pool.h"

struct vcuda_local {
	const struct vcuda_options *options;
	struct vcuda_stock *stock;
	struct vcuda_listener listener;
	struct vcuda_list clients;
	unsigned int count;
	bool closed;
};

/* 0 or -errno, having said why. */
int vcuda_local_open(struct vcuda_local *local, struct vcuda_loop *loop, const struct vcuda_options *options,
		     struct vcuda_stock *stock);

/* Takes no more clients and kills the workers; count falls to 0 as they are reaped. */
void vcuda_local_close(struct vcuda_local *local);

#endif
