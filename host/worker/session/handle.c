/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An id: generation << 32 | kind << 24 | (index + 1) * ALIGNMENT. Never small, so it is never one of CUDA's special
 * stream values. Aligned as NVIDIA's are, which are pointers: PyTorch takes an odd stream for one of its own numbers.
 *
 * An entry's state holds the upper 40 bits of its id, two flags and the number of uses in one word: a use is taken and
 * given back with one compare-and-swap. A use of an object that is being destroyed is given back under the lock, so
 * that its end is noticed once. An entry is free when it is not live and has no uses.
 */
#include "session/handle.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INDEX_BITS 24
#define ALIGNMENT 4u
#define MAX_HANDLES (1u << 21)
#define CHUNK_ENTRIES 1024u
#define KINDS 32 /* the number of bits in the set of kinds that a call accepts */

#define LIVE (1ull << 23)
#define DYING (1ull << 22) /* being destroyed: resolves no more, and its object's address may name a new object */
#define USES (DYING - 1)

/* Lanes use the objects of different contexts at the same time: each entry has a cache line of its own. */
struct entry {
	_Alignas(64) _Atomic uint64_t state; /* the upper bits of the id, LIVE, DYING, the number of uses */
	void *object;
	_Atomic uint64_t context;
	uint64_t parent;
	bool is_parent;     /* something dies with it: the table is to be searched */
	bool is_claimed;    /* on its own, not with its parent: the claim is one of the uses */
	uint32_t next_free; /* index + 1 of the next free entry, 0: none */
};

struct worker_handles {
	pthread_mutex_t lock; /* protects all but what worker_handle_get(), _put() and _context() read */
	pthread_cond_t unused;
	struct entry *_Atomic chunks[MAX_HANDLES / CHUNK_ENTRIES]; /* each stays where it is */
	uint32_t used;
	uint32_t first_free;  /* index + 1 */
	uint32_t live[KINDS]; /* by kind */
	struct worker_deferred *deferred, **deferred_end;
};

struct worker_handles *worker_handles_create(void)
{
	struct worker_handles *h = calloc(1, sizeof(*h));
	pthread_condattr_t attributes;

	if (!h)
		return NULL;
	pthread_mutex_init(&h->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&h->unused, &attributes);
	pthread_condattr_destroy(&attributes);
	h->deferred_end = &h->deferred;
	return h;
}

void worker_handles_destroy(struct worker_handles *h)
{
	if (!h)
		return;
	pthread_cond_destroy(&h->unused);
	pthread_mutex_destroy(&h->lock);
	for (uint32_t i = 0; i < MAX_HANDLES / CHUNK_ENTRIES; i++)
		free(h->chunks[i]);
	free(h);
}

/* ---- entries ---- */

static struct entry *entry_at(struct worker_handles *h, uint32_t index)
{
	struct entry *chunk = index < MAX_HANDLES
				      ? atomic_load_explicit(&h->chunks[index / CHUNK_ENTRIES], memory_order_acquire)
				      : NULL;

	return chunk ? &chunk[index % CHUNK_ENTRIES] : NULL;
}

static uint32_t index_of(uint64_t id)
{
	uint32_t place = (uint32_t)(id & ((1u << INDEX_BITS) - 1));

	return place % ALIGNMENT ? UINT32_MAX : place / ALIGNMENT - 1;
}

static bool is_of(uint64_t state, uint64_t id)
{
	return state >> INDEX_BITS == id >> INDEX_BITS;
}

unsigned int worker_handle_kind(uint64_t id)
{
	return id >> INDEX_BITS & 0xff;
}

/* The entry of `id` as long as that is live or used, else NULL. The caller holds the lock or a use. */
static struct entry *find(struct worker_handles *h, uint64_t id)
{
	struct entry *e = entry_at(h, index_of(id));
	uint64_t state = e ? atomic_load(&e->state) : 0;

	return is_of(state, id) && state & (LIVE | USES) ? e : NULL;
}

static struct entry *find_live(struct worker_handles *h, uint64_t id)
{
	struct entry *e = find(h, id);

	return e && atomic_load(&e->state) & LIVE ? e : NULL;
}

static bool is_accepted(uint64_t state, uint64_t id, uint32_t kinds)
{
	return is_of(state, id) && (state & (LIVE | DYING)) == LIVE && kinds & 1u << worker_handle_kind(id);
}

/* ---- ids that come and go; with the lock ---- */

static uint64_t entry_id(const struct entry *e, uint32_t index)
{
	return (atomic_load(&e->state) & ~((1ull << INDEX_BITS) - 1)) | (uint64_t)(index + 1) * ALIGNMENT;
}

static void make_free(struct worker_handles *h, struct entry *e, uint32_t index)
{
	e->next_free = h->first_free;
	h->first_free = index + 1;
}

static struct entry *make_chunk(void)
{
	struct entry *chunk = aligned_alloc(_Alignof(struct entry), CHUNK_ENTRIES * sizeof(*chunk));

	if (chunk)
		memset(chunk, 0, CHUNK_ENTRIES * sizeof(*chunk));
	return chunk;
}

static struct entry *take_free(struct worker_handles *h, uint32_t *index)
{
	struct entry *_Atomic *chunk;

	if (h->first_free) {
		*index = h->first_free - 1;
		h->first_free = entry_at(h, *index)->next_free;
		return entry_at(h, *index);
	}
	if (h->used == MAX_HANDLES)
		return NULL;
	chunk = &h->chunks[h->used / CHUNK_ENTRIES];
	if (!*chunk)
		*chunk = make_chunk();
	if (!*chunk)
		return NULL;
	*index = h->used++;
	return entry_at(h, *index);
}

static void set_parent(struct worker_handles *h, uint64_t id)
{
	struct entry *e = find_live(h, id);

	if (e)
		e->is_parent = true;
}

/* DYING if a parent is being destroyed, with which the object dies; else 0. */
static uint64_t dies_with_parent(struct worker_handles *h, const struct entry *e)
{
	const struct entry *parent = find_live(h, e->parent), *context = find_live(h, e->context);

	return ((parent ? atomic_load(&parent->state) : 0) | (context ? atomic_load(&context->state) : 0)) & DYING;
}

static uint64_t add_locked(struct worker_handles *h, unsigned int kind, void *object, uint64_t parent, uint64_t context)
{
	uint64_t generation;
	uint32_t index;
	struct entry *e = take_free(h, &index);

	if (!e)
		return 0;
	generation = (uint32_t)((atomic_load(&e->state) >> 32) + 1);
	e->is_parent = e->is_claimed = false;
	e->object = object;
	e->parent = parent;
	e->context = context;
	h->live[kind % KINDS]++;
	set_parent(h, parent);
	set_parent(h, context);
	atomic_store(&e->state, generation << 32 | (uint64_t)kind << INDEX_BITS | LIVE | dies_with_parent(h, e));
	return entry_id(e, index);
}

static bool names(const struct entry *e, unsigned int kind, const void *object)
{
	uint64_t state = atomic_load(&e->state);

	return (state & (LIVE | DYING)) == LIVE && worker_handle_kind(state) == kind && e->object == object;
}

uint64_t worker_handle_add(struct worker_handles *h, unsigned int kind, bool shared, void *object, uint64_t parent,
			   uint64_t context)
{
	uint64_t id = 0;

	pthread_mutex_lock(&h->lock);
	for (uint32_t i = 0; shared && i < h->used && !id; i++)
		if (names(entry_at(h, i), kind, object))
			id = entry_id(entry_at(h, i), i);
	if (!id)
		id = add_locked(h, kind, object, parent, context);
	pthread_mutex_unlock(&h->lock);
	return id;
}

uint64_t worker_handle_next(struct worker_handles *h, unsigned int kind, uint64_t after)
{
	uint64_t id = 0;

	pthread_mutex_lock(&h->lock);
	for (uint32_t i = after ? index_of(after) + 1 : 0; i < h->used && !id; i++)
		if (names(entry_at(h, i), kind, entry_at(h, i)->object))
			id = entry_id(entry_at(h, i), i);
	pthread_mutex_unlock(&h->lock);
	return id;
}

uint32_t worker_handle_live(struct worker_handles *h, unsigned int kind)
{
	uint32_t live;

	pthread_mutex_lock(&h->lock);
	live = h->live[kind % KINDS];
	pthread_mutex_unlock(&h->lock);
	return live;
}

static void drop_use(struct worker_handles *h, struct entry *e, uint32_t index)
{
	uint64_t state = atomic_fetch_sub(&e->state, 1) - 1;

	if (!(state & (LIVE | USES)))
		make_free(h, e, index);
}

static void remove_entry(struct worker_handles *h, struct entry *e, uint32_t index)
{
	uint64_t state = atomic_fetch_and(&e->state, ~LIVE);

	if (!(state & LIVE))
		return;
	h->live[worker_handle_kind(state) % KINDS]--;
	if (!(state & USES))
		make_free(h, e, index);
}

static void remove_children(struct worker_handles *h, uint64_t id)
{
	for (uint32_t i = 0; i < h->used; i++) {
		struct entry *e = entry_at(h, i);
		uint64_t child = entry_id(e, i);

		if (!(atomic_load(&e->state) & LIVE) || (e->parent != id && e->context != id))
			continue;
		remove_entry(h, e, i);
		if (e->is_parent)
			remove_children(h, child);
	}
}

void worker_handle_remove_children(struct worker_handles *h, uint64_t id)
{
	pthread_mutex_lock(&h->lock);
	if (find_live(h, id))
		remove_children(h, id);
	pthread_mutex_unlock(&h->lock);
}

/* ---- uses ---- */

void *worker_handle_get(struct worker_handles *h, uint64_t id, uint32_t kinds)
{
	struct entry *e = entry_at(h, index_of(id));
	uint64_t state = e ? atomic_load_explicit(&e->state, memory_order_relaxed) : 0;

	do {
		if (!is_accepted(state, id, kinds))
			return NULL;
	} while (!atomic_compare_exchange_weak_explicit(&e->state, &state, state + 1, memory_order_acquire,
							memory_order_relaxed));
	return e->object;
}

/* Whether `id` or an object that dies with it has a use, its claim left out. */
static bool is_used(struct worker_handles *h, uint64_t id)
{
	const struct entry *e = find(h, id);

	if (!e)
		return false;
	if ((atomic_load(&e->state) & USES) > 1)
		return true;
	for (uint32_t i = 0; e->is_parent && i < h->used; i++) {
		const struct entry *child = entry_at(h, i);
		uint64_t state = atomic_load(&child->state);

		if (!(state & LIVE) || (child->parent != id && child->context != id))
			continue;
		if (state & USES || is_used(h, entry_id(child, i)))
			return true;
	}
	return false;
}

static bool any_ready(struct worker_handles *h)
{
	for (const struct worker_deferred *d = h->deferred; d; d = d->next)
		if (!is_used(h, d->id))
			return true;
	return false;
}

/* A use of an object that is being destroyed, or the claim, has ended. */
static bool end_use(struct worker_handles *h, struct entry *e, uint64_t id)
{
	drop_use(h, e, index_of(id));
	pthread_cond_broadcast(&h->unused);
	return any_ready(h);
}

static bool put_dying(struct worker_handles *h, struct entry *e, uint64_t id)
{
	bool ready;

	pthread_mutex_lock(&h->lock);
	ready = end_use(h, e, id);
	pthread_mutex_unlock(&h->lock);
	return ready;
}

bool worker_handle_put(struct worker_handles *h, uint64_t id)
{
	struct entry *e = entry_at(h, index_of(id));
	uint64_t state = atomic_load_explicit(&e->state, memory_order_relaxed);

	do {
		if ((state & (LIVE | DYING)) != LIVE)
			return put_dying(h, e, id);
	} while (!atomic_compare_exchange_weak_explicit(&e->state, &state, state - 1, memory_order_release,
							memory_order_relaxed));
	return false;
}

bool worker_handles_put(struct worker_handles *h, const uint64_t *ids, uint32_t count)
{
	bool ready = false;

	for (uint32_t i = 0; i < count; i++)
		ready |= worker_handle_put(h, ids[i]);
	return ready;
}

uint64_t worker_handle_context(struct worker_handles *h, uint64_t id)
{
	struct entry *e = entry_at(h, index_of(id));
	uint64_t context;

	if (!e || !is_accepted(atomic_load(&e->state), id, UINT32_MAX))
		return 0;
	context = atomic_load(&e->context);
	/* An entry whose object has ended may get another context before it gets another id. */
	return is_accepted(atomic_load(&e->state), id, UINT32_MAX) ? context : 0;
}

bool worker_handles_get(struct worker_handles *h, const uint64_t *ids, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (!worker_handle_get(h, ids[i], ~0u)) {
			worker_handles_put(h, ids, i);
			return false;
		}
	}
	return true;
}

/* ---- claims ---- */

/* Marks, or unmarks, `e` and all that dies with it. A child with a claim of its own stays marked. */
static void set_dying(struct worker_handles *h, struct entry *e, uint64_t id, bool dying)
{
	if (dying)
		atomic_fetch_or(&e->state, DYING);
	else
		atomic_fetch_and(&e->state, ~DYING);
	for (uint32_t i = 0; e->is_parent && i < h->used; i++) {
		struct entry *child = entry_at(h, i);
		uint64_t state = atomic_load(&child->state);

		if (state & LIVE && !child->is_claimed && !(state & DYING) == dying &&
		    (child->parent == id || child->context == id))
			set_dying(h, child, entry_id(child, i), dying);
	}
}

void *worker_handle_claim(struct worker_handles *h, uint64_t id, uint32_t kinds)
{
	void *object = NULL;
	struct entry *e;

	pthread_mutex_lock(&h->lock);
	e = find_live(h, id);
	if (e && is_accepted(atomic_load(&e->state), id, kinds)) {
		object = e->object;
		e->is_claimed = true;
		atomic_fetch_add(&e->state, 1);
		set_dying(h, e, id, true);
	}
	pthread_mutex_unlock(&h->lock);
	return object;
}

bool worker_handle_unclaim(struct worker_handles *h, uint64_t id)
{
	struct entry *e;
	bool ready;

	pthread_mutex_lock(&h->lock);
	e = find(h, id);
	e->is_claimed = false;
	if (!dies_with_parent(h, e))
		set_dying(h, e, id, false);
	ready = end_use(h, e, id);
	pthread_mutex_unlock(&h->lock);
	return ready;
}

bool worker_handle_remove(struct worker_handles *h, uint64_t id)
{
	struct entry *e;
	bool ready;

	pthread_mutex_lock(&h->lock);
	e = find(h, id);
	remove_entry(h, e, index_of(id));
	if (e->is_parent)
		remove_children(h, id);
	ready = end_use(h, e, id);
	pthread_mutex_unlock(&h->lock);
	return ready;
}

bool worker_handle_is_used(struct worker_handles *h, uint64_t id)
{
	bool used;

	pthread_mutex_lock(&h->lock);
	used = is_used(h, id);
	pthread_mutex_unlock(&h->lock);
	return used;
}

bool worker_handle_wait(struct worker_handles *h, uint64_t id, unsigned int seconds)
{
	struct timespec end;
	bool used, late = false;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += seconds;
	pthread_mutex_lock(&h->lock);
	while ((used = is_used(h, id)) && !late)
		late = pthread_cond_timedwait(&h->unused, &h->lock, &end);
	pthread_mutex_unlock(&h->lock);
	return !used;
}

/* ---- destructions that wait for their last user ---- */

bool worker_handle_defer(struct worker_handles *h, struct worker_deferred *d)
{
	bool used;

	pthread_mutex_lock(&h->lock);
	used = is_used(h, d->id);
	if (used) {
		d->next = NULL;
		*h->deferred_end = d;
		h->deferred_end = &d->next;
	}
	pthread_mutex_unlock(&h->lock);
	return used;
}

struct worker_deferred *worker_handles_ready(struct worker_handles *h)
{
	struct worker_deferred **at, *d;

	pthread_mutex_lock(&h->lock);
	for (at = &h->deferred; (d = *at); at = &d->next)
		if (!is_used(h, d->id))
			break;
	if (d) {
		*at = d->next;
		if (!d->next)
			h->deferred_end = at;
	}
	pthread_mutex_unlock(&h->lock);
	return d;
}

bool worker_handle_is_gone(struct worker_handles *h, uint64_t id)
{
	bool gone;

	pthread_mutex_lock(&h->lock);
	gone = !find_live(h, id);
	pthread_mutex_unlock(&h->lock);
	return gone;
}
