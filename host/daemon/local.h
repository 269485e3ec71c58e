/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local programs: each connection is handed to a worker of its own, and nothing of what passes over it is seen here.
 *
 * A user who connects too often waits (limits/connection-rate.h). With --allow-any-user a user has at most as many
 * clients as there are free places: half of them where the user is alone, and another user always finds one.
 */
#ifndef VCUDA_LOCAL_H
#define VCUDA_LOCAL_H

#include "common/list.h"
#include "limits/connection-rate.h"
#include "listener.h"
#include "options/options.h"
#include "worker/warm-pool.h"

struct daemon_local {
	const struct daemon_options *options;
	struct daemon_warm_pool *warm_pool;
	struct daemon_listener listener;
	struct daemon_connection_rate rate;
	struct daemon_connection_rate own_rate; /* of processes with workers that hold themselves (local-process.c) */
	struct vcuda_list clients;
	struct vcuda_list process_clients; /* of local-process.c */
	struct vcuda_list waiting; /* connections over their user's rate, oldest first */
	struct daemon_timer waiting_timer;
	unsigned int count, waiting_count;
	bool closed;
};

/* 0 or -errno, having said why. */
int daemon_local_open(struct daemon_local *local, struct daemon_loop *loop, const struct daemon_options *options,
		      struct daemon_warm_pool *pool);

/* Calls with each worker that serves a client. */
void daemon_local_each(struct daemon_local *local, void (*call)(struct daemon_worker *worker, void *argument),
		       void *argument);

/* Kills the workers of a process; pid 0: of all. Returns how many. */
unsigned int daemon_local_kill(struct daemon_local *local, uint32_t pid);

/* Takes no more clients and kills the workers; count falls to 0 as they are reaped. */
void daemon_local_close(struct daemon_local *local);

#endif
