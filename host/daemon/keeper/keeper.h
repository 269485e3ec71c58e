/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keepers (common/share-keeper.h): for each guest, the VM or a local user, one process that outlives its workers.
 * It is started when a worker of the guest first exports something, and ends when it has nothing to keep and no worker.
 *
 * A keeper may take long: it holds descriptors of workers. vcudad never waits for one.
 */
#ifndef VCUDA_DAEMON_KEEPER_H
#define VCUDA_DAEMON_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/list.h"
#include "common/share-keeper.h"
#include "loop/loop.h"
#include "options/options.h"

/* The guest of workers that serve the VM; those of the local socket have their user's number. */
#define DAEMON_KEEPER_VM UINT64_MAX

/* Once, before there are workers. `options` stays valid. */
void daemon_keepers_open(struct daemon_loop *loop, const struct daemon_options *options);

/* vcudad ends: kills all keepers. */
void daemon_keepers_close(void);

/* The limit of the options has changed. */
void daemon_keepers_refresh(void);

/* Whether there is one: something may be kept that no client has. */
bool daemon_keepers_run(void);

/* Exported memory of one guest on one GPU that only descriptors hold. */
struct daemon_keeper_exports {
	uint64_t guest;
	unsigned int gpu;
	uint64_t count, bytes; /* allocations and pools, as the keeper says; and what counts of their memory */
};

/* Calls with each that is not empty. There may be several of a guest and GPU, while a keeper ends. */
void daemon_keepers_each_export(void (*call)(const struct daemon_keeper_exports *exports, void *argument),
				void *argument);

/*
 * Has the exports freed that only descriptors hold, of one guest or of all guests (NULL). Their descriptors hold
 * nothing from then on. The keepers free them later; their memory counts until then. Returns the number of these
 * allocations and pools.
 */
uint64_t daemon_keepers_free(const uint64_t *guest);

/* The guest is gone: kills its keeper. Its workers, which are ending, have no keeper any more. */
void daemon_keeper_forget(uint64_t guest);

/* A message that may wait until the keeper's socket has room. */
struct daemon_keeper_message {
	struct vcuda_list entry;
	struct vcuda_keeper_message m;
};

/* A file of the VM's holds something from now on, or does so no longer. */
struct daemon_keeper_request {
	struct vcuda_list entry;
	struct daemon_keeper_message message; /* of keeper.c */
	/* Called once: 0 or -errno. The request is the caller's again. */
	void (*done)(struct daemon_keeper_request *request, int status);
};

/*
 * type: VCUDA_KEEPER_HOLD or VCUDA_KEEPER_DROP. 0: `done` is called later, once. -ENOENT: nothing is kept of the VM,
 * and `done` is not called.
 */
int daemon_keeper_ask(struct daemon_keeper_request *request, uint32_t type, const uint8_t key[VCUDA_KEEPER_KEY_BYTES]);

#endif
