/* SPDX-License-Identifier: Apache-2.0 */
/* An id: generation << 32 | kind << 24 | index + 1. Never small, so it is never one of CUDA's special stream values. */
#include "session/handle.h"

#include <pthread.h>
#include <stdlib.h>

#define INDEX_BITS 24
#define MAX_HANDLES (1u << 21)
#define KINDS 32 /* as many as there are bits for what a call accepts */

struct entry {
	void *object;		/* NULL: free */
	uint64_t parent, context;
	uint32_t generation;
	uint32_t kind;
	bool is_parent;		/* something dies with it: the table is to be searched */
	bool dying;		/* being destroyed: resolves no more, and its object's address may name a new object */
	uint32_t next_free;	/* index + 1 of the next free entry, 0: none */
};

struct worker_handles {
	pthread_rwlock_t lock;
	struct entry *entries;
	uint32_t used, size;
	uint32_t first_free;	/* index + 1 */
	uint32_t live[KINDS];	/* by kind */
};

struct worker_handles *worker_handles_create(void)
{
	struct worker_handles *h = calloc(1, sizeof(*h));

	if (h)
		pthread_rwlock_init(&h->lock, NULL);
	return h;
}

void worker_handles_destroy(struct worker_handles *h)
{
	if (!h)
		return;
	pthread_rwlock_destroy(&h->lock);
	free(h->entries);
	free(h);
}

static uint64_t entry_id(const struct worker_handles *h, uint32_t index)
{
	const struct entry *e = &h->entries[index];

	return (uint64_t)e->generation << 32 | e->kind << INDEX_BITS | (index + 1);
}

/* The live entry of `id`, or NULL. The caller holds the lock. */
static struct entry *find(const struct worker_handles *h, uint64_t id)
{
	uint32_t index = (uint32_t)(id & ((1u << INDEX_BITS) - 1)) - 1;

	if (index >= h->used || !h->entries[index].object || entry_id(h, index) != id)
		return NULL;
	return &h->entries[index];
}

static bool grow(struct worker_handles *h)
{
	uint32_t size = h->size ? h->size * 2 : 64;
	struct entry *entries;

	if (size > MAX_HANDLES)
		return false;
	entries = realloc(h->entries, size * sizeof(*entries));
	if (!entries)
		return false;
	h->entries = entries;
	h->size = size;
	return true;
}

static void set_parent(struct worker_handles *h, uint64_t id)
{
	struct entry *e = find(h, id);

	if (e)
		e->is_parent = true;
}

static uint64_t add_locked(struct worker_handles *h, unsigned int kind, void *object, uint64_t parent, uint64_t context)
{
	uint32_t index;
	struct entry *e;

	if (h->first_free) {
		index = h->first_free - 1;
		h->first_free = h->entries[index].next_free;
	} else {
		if (h->used == h->size && !grow(h))
			return 0;
		index = h->used++;
		h->entries[index].generation = 0;
	}
	e = &h->entries[index];
	e->generation++;
	e->kind = kind;
	e->is_parent = e->dying = false;
	e->object = object;
	e->parent = parent;
	e->context = context;
	h->live[kind % KINDS]++;
	set_parent(h, parent);
	set_parent(h, context);
	return entry_id(h, index);
}

uint64_t worker_handle_add(struct worker_handles *h, unsigned int kind, bool shared, void *object, uint64_t parent, uint64_t context)
{
	uint64_t id = 0;

	pthread_rwlock_wrlock(&h->lock);
	for (uint32_t i = 0; shared && i < h->used && !id; i++)
		if (h->entries[i].object == object && h->entries[i].kind == kind && !h->entries[i].dying)
			id = entry_id(h, i);
	if (!id)
		id = add_locked(h, kind, object, parent, context);
	pthread_rwlock_unlock(&h->lock);
	return id;
}

void *worker_handle_get(struct worker_handles *h, uint64_t id, uint32_t kinds)
{
	void *object = NULL;
	struct entry *e;

	pthread_rwlock_rdlock(&h->lock);
	e = find(h, id);
	if (e && !e->dying && kinds & 1u << e->kind)
		object = e->object;
	pthread_rwlock_unlock(&h->lock);
	return object;
}

bool worker_handles_live(struct worker_handles *h, const uint64_t *ids, uint32_t count)
{
	bool live = true;

	pthread_rwlock_rdlock(&h->lock);
	for (uint32_t i = 0; i < count && live; i++) {
		const struct entry *e = find(h, ids[i]);

		live = e && !e->dying;
	}
	pthread_rwlock_unlock(&h->lock);
	return live;
}

uint32_t worker_handle_live(struct worker_handles *h, unsigned int kind)
{
	uint32_t live;

	pthread_rwlock_rdlock(&h->lock);
	live = h->live[kind % KINDS];
	pthread_rwlock_unlock(&h->lock);
	return live;
}

bool worker_handle_names(struct worker_handles *h, unsigned int kind, const void *object)
{
	bool found = false;

	pthread_rwlock_rdlock(&h->lock);
	for (uint32_t i = 0; i < h->used && !found; i++)
		found = h->entries[i].object == object && h->entries[i].kind == kind && !h->entries[i].dying;
	pthread_rwlock_unlock(&h->lock);
	return found;
}

/* Marks, or unmarks, `id` and all that dies with it. */
static void set_dying(struct worker_handles *h, uint64_t id, bool dying)
{
	struct entry *e = find(h, id);

	if (!e)
		return;
	e->dying = dying;
	if (!e->is_parent)
		return;
	for (uint32_t i = 0; i < h->used; i++) {
		e = &h->entries[i];
		if (e->object && e->dying != dying && (e->parent == id || e->context == id))
			set_dying(h, entry_id(h, i), dying);
	}
}

void *worker_handle_claim(struct worker_handles *h, uint64_t id, uint32_t kinds)
{
	void *object = NULL;
	struct entry *e;

	pthread_rwlock_wrlock(&h->lock);
	e = find(h, id);
	if (e && !e->dying && kinds & 1u << e->kind) {
		object = e->object;
		set_dying(h, id, true);
	}
	pthread_rwlock_unlock(&h->lock);
	return object;
}

void worker_handle_unclaim(struct worker_handles *h, uint64_t id)
{
	pthread_rwlock_wrlock(&h->lock);
	set_dying(h, id, false);
	pthread_rwlock_unlock(&h->lock);
}

static void remove_entry(struct worker_handles *h, struct entry *e)
{
	e->object = NULL;
	h->live[e->kind % KINDS]--;
	e->next_free = h->first_free;
	h->first_free = (uint32_t)(e - h->entries) + 1;
}

static void remove_children(struct worker_handles *h, uint64_t id)
{
	for (uint32_t i = 0; i < h->used; i++) {
		struct entry *e = &h->entries[i];
		uint64_t child = entry_id(h, i);

		if (!e->object || (e->parent != id && e->context != id))
			continue;
		remove_entry(h, e);
		if (e->is_parent)
			remove_children(h, child);
	}
}

void worker_handle_remove_children(struct worker_handles *h, uint64_t id)
{
	pthread_rwlock_wrlock(&h->lock);
	if (find(h, id))
		remove_children(h, id);
	pthread_rwlock_unlock(&h->lock);
}

void worker_handle_remove(struct worker_handles *h, uint64_t id)
{
	struct entry *e;

	pthread_rwlock_wrlock(&h->lock);
	e = find(h, id);
	if (e) {
		remove_entry(h, e);
		if (e->is_parent)
			remove_children(h, id);
	}
	pthread_rwlock_unlock(&h->lock);
}
