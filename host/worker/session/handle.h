/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handle table: the ids that the guest sees for objects of the back end. An id holds an index, the kind and a
 * generation, so a stale or invented id never resolves. Thread-safe.
 */
#ifndef VCUDA_HANDLE_H
#define VCUDA_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

struct worker_handles;

struct worker_handles *worker_handles_create(void);
void worker_handles_destroy(struct worker_handles *h);

/*
 * A new id for `object`; 0 if memory or the limit of live handles (2^21) ran out. shared: its present id if it has one.
 * The id dies with `parent` and with `context` (ids, 0: none).
 */
uint64_t worker_handle_add(struct worker_handles *h, unsigned int kind, bool shared, void *object, uint64_t parent, uint64_t context);

/* The object behind `id` if it lives and its kind's bit is in `kinds`, else NULL. */
void *worker_handle_get(struct worker_handles *h, uint64_t id, uint32_t kinds);

/* Whether every one of `count` ids names something, whatever its kind. */
bool worker_handles_live(struct worker_handles *h, const uint64_t *ids, uint32_t count);

/* How many ids of that kind there are. */
uint32_t worker_handle_live(struct worker_handles *h, unsigned int kind);

/* Whether some id of that kind still names the object. */
bool worker_handle_names(struct worker_handles *h, unsigned int kind, const void *object);

/*
 * Before an object is destroyed: as worker_handle_get(), and from then on `id` and all that dies with it resolve no
 * more, so that no two threads destroy it and an object that the back end makes at the freed address gets an id of its
 * own. Ends with worker_handle_remove(), or, where the object lives on, with unclaim.
 */
void *worker_handle_claim(struct worker_handles *h, uint64_t id, uint32_t kinds);
void worker_handle_unclaim(struct worker_handles *h, uint64_t id);

/* Forgets `id` and all that dies with it; children only: all but itself. Unknown ids are ignored. */
void worker_handle_remove(struct worker_handles *h, uint64_t id);
void worker_handle_remove_children(struct worker_handles *h, uint64_t id);

#endif
