/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warm workers: started, with the back end loaded and a context made, before there is a guest process for them.
 *
 * They know no guest and have no memory of one. Each is given to one guest process, as a worker that was started for it
 * would be, and another is started in its place.
 */
#ifndef VCUDA_WARM_POOL_H
#define VCUDA_WARM_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/list.h"
#include "loop/loop.h"
#include "options/options.h"
#include "worker/worker.h"

struct daemon_warm_pool {
	struct daemon_loop *loop;
	const struct daemon_options *options;
	struct vcuda_list spares;
	unsigned int count;  /* number of processes, with those that are being killed */
	unsigned int wanted; /* target for `count`; 0 after close */
	uint64_t pause;      /* ms before the next try, since the last ones failed; 0: they did not */
	bool told;           /* the log has a line about this failure */
	struct daemon_timer timer;
};

/* Starts options->warm of them, in the loop. */
void daemon_warm_pool_open(struct daemon_warm_pool *pool, struct daemon_loop *loop,
			   const struct daemon_options *options);

/* One for a guest process: the caller's from now on, as from daemon_worker_start(). NULL: there is none. */
struct daemon_worker *daemon_warm_pool_take(struct daemon_warm_pool *pool, const struct daemon_worker_ops *ops,
					    void *owner);

/* Kills the warm workers and starts no more; count falls to 0 as they are reaped. */
void daemon_warm_pool_close(struct daemon_warm_pool *pool);

#endif
