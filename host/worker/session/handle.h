/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handle table: the ids that the guest sees for objects of the back end. An id holds an index, the kind and a
 * generation, so a stale or invented id never resolves. A command counts as a use of each object that it has resolved,
 * and an object that is used is not destroyed. Thread-safe.
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
uint64_t worker_handle_add(struct worker_handles *h, unsigned int kind, bool shared, void *object, uint64_t parent,
			   uint64_t context);

/* The kind of an id that has resolved. */
unsigned int worker_handle_kind(uint64_t id);

/*
 * The object behind `id` if it lives and its kind's bit is in `kinds`, else NULL. The object is in use until
 * worker_handle_put(). Takes no lock.
 */
void *worker_handle_get(struct worker_handles *h, uint64_t id, uint32_t kinds);

/* Ends a use. True: worker_handles_ready() may have something. Takes no lock unless the object is being destroyed. */
bool worker_handle_put(struct worker_handles *h, uint64_t id);

/* The context that a living object dies with (id); 0: none. Writes nothing, and takes no lock. */
uint64_t worker_handle_context(struct worker_handles *h, uint64_t id);

/* As worker_handle_get() and _put() for all of `count` ids, whatever their kinds. False: one names nothing, none is
 * used. */
bool worker_handles_get(struct worker_handles *h, const uint64_t *ids, uint32_t count);
bool worker_handles_put(struct worker_handles *h, const uint64_t *ids, uint32_t count);

/* The id of that kind that comes after `after` in the table, 0: the first one. 0: there is none. */
uint64_t worker_handle_next(struct worker_handles *h, unsigned int kind, uint64_t after);

/* The number of ids of that kind. */
uint32_t worker_handle_live(struct worker_handles *h, unsigned int kind);

/*
 * Before an object is destroyed: as worker_handle_get(), and from then on `id` and all that dies with it resolve no
 * more, so that no two threads destroy it and an object that the back end makes at the freed address gets an id of its
 * own. Ends with worker_handle_remove(), or, where the object lives on, with unclaim. Both return what
 * worker_handle_put() returns.
 */
void *worker_handle_claim(struct worker_handles *h, uint64_t id, uint32_t kinds);
bool worker_handle_unclaim(struct worker_handles *h, uint64_t id);

/* Forgets `id`, which is claimed, and all that dies with it; children only: all but itself, which need not be claimed.
 */
bool worker_handle_remove(struct worker_handles *h, uint64_t id);
void worker_handle_remove_children(struct worker_handles *h, uint64_t id);

/* Whether anything but its claim uses `id`, which is claimed, or an object that dies with it. */
bool worker_handle_is_used(struct worker_handles *h, uint64_t id);

/* Waits until nothing does. False: `seconds` have passed. */
bool worker_handle_wait(struct worker_handles *h, uint64_t id, unsigned int seconds);

/* A destruction that its last user starts. The caller owns the memory. */
struct worker_deferred {
	uint64_t id; /* claimed */
	struct worker_deferred *next;
};

/* False: nothing but its claim uses d->id; `d` is not kept. True: worker_handles_ready() returns it later. */
bool worker_handle_defer(struct worker_handles *h, struct worker_deferred *d);

/*
 * One that nothing uses any more, or NULL. The caller destroys the object unless it is gone with its parent, and ends
 * the claim with worker_handle_remove().
 */
struct worker_deferred *worker_handles_ready(struct worker_handles *h);
bool worker_handle_is_gone(struct worker_handles *h, uint64_t id);

#endif
