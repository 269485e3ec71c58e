/* SPDX-License-Identifier: Apache-2.0 */
#include "entries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "protocol/ipc/ledger.h"
#include "table.h"

#define MOST_BYTES (UINT64_C(1) << 44) /* times the most that there can be of --max-exports fits */

struct keeper_entry {
	struct vcuda_list in_bucket, of_pool, memory; /* `memory`: of a pool, the entries of its memory */
	struct vcuda_list of_owner;                   /* or of `orphans` */
	const struct keeper_owner *owner;             /* NULL: gone, or has withdrawn it */
	struct keeper_entry *pool;                    /* NULL: none, or gone */
	bool is_orphan;                               /* the entry's memory counts for the keeper */
	bool has_ended;                               /* only its descriptors are left */
	unsigned int descriptors, files;
	struct vcuda_keeper_message offer;
	struct keeper_use use;
	int fd;
};

static struct keeper_table all; /* by key */
static struct vcuda_list orphans = VCUDA_LIST_INIT(orphans);
static unsigned int entries, descriptors, limit;

static struct vcuda_list *bucket_of(const uint8_t *key)
{
	uint32_t number;

	memcpy(&number, key, sizeof(number));
	return keeper_table_bucket(&all, number);
}

void keeper_set_limit(uint32_t most)
{
	limit = most;
}

bool keeper_has_entries(void)
{
	return entries;
}

struct keeper_entry *keeper_find(const uint8_t *key)
{
	struct vcuda_list *bucket = bucket_of(key);

	vcuda_list_for_each (node, bucket) {
		struct keeper_entry *e = container_of(node, struct keeper_entry, in_bucket);

		if (!memcmp(e->offer.key, key, sizeof(e->offer.key)))
			return e;
	}
	return NULL;
}

/* ---- life ---- */

static bool is_held(const struct keeper_entry *e)
{
	return e->descriptors || e->files || (e->pool && is_held(e->pool));
}

static void settle(struct keeper_entry *e);

/* Descriptors of local guest processes may have the entry until they are closed. */
static void destroy(struct keeper_entry *e)
{
	keeper_memory_close(&e->use);
	vcuda_list_remove(&e->in_bucket);
	vcuda_list_remove(&e->of_owner);
	vcuda_list_remove(&e->of_pool);
	while (!vcuda_list_empty(&e->memory)) {
		struct keeper_entry *memory = vcuda_list_first(&e->memory, struct keeper_entry, of_pool);

		vcuda_list_remove(&memory->of_pool);
		memory->pool = NULL;
		settle(memory);
	}
	entries--;
	descriptors -= e->files;
	if (e->fd >= 0)
		close(e->fd);
	e->has_ended = true;
	if (!e->descriptors)
		free(e);
}

/* After a change of what holds the entry. Ends it where nothing does. As long as it has a worker, the worker counts it.
 */
static void settle(struct keeper_entry *e)
{
	if (e->owner)
		return;
	if (!is_held(e)) {
		destroy(e);
	} else if (!e->is_orphan) {
		e->is_orphan = true;
		vcuda_list_add(&e->of_owner, &orphans);
		keeper_memory_count(&e->use, e->offer.bytes);
	}
}

/* The entry's descriptors hold the memory of the pool that it is. */
static void settle_all(struct keeper_entry *e)
{
	struct keeper_entry *memory, *after;

	vcuda_list_for_each_safe (memory, after, &e->memory, struct keeper_entry, of_pool)
		settle(memory);
	settle(e);
}

static uint64_t sane(uint64_t bytes)
{
	return bytes > MOST_BYTES ? MOST_BYTES : bytes;
}

static bool is_of_pool(const struct keeper_entry *e)
{
	return e->offer.kind == VCUDA_SHARE_POOL_MEMORY || e->offer.kind == VCUDA_SHARE_DRIVER_POINTER;
}

static struct keeper_entry *find_own(const struct keeper_owner *owner, const uint8_t *key)
{
	struct keeper_entry *e = keeper_find(key);

	return e && e->owner == owner ? e : NULL;
}

static void add_to_pool(struct keeper_entry *e, const uint8_t *pool)
{
	e->pool = is_of_pool(e) ? find_own(e->owner, pool) : NULL;
	/* A pool is in none: is_held() ends. */
	if (e->pool && is_of_pool(e->pool))
		e->pool = NULL;
	if (e->pool)
		vcuda_list_add(&e->of_pool, &e->pool->memory);
}

static struct keeper_entry *new_entry(const struct vcuda_keeper_message *m, int fd)
{
	struct keeper_entry *e = calloc(1, sizeof(*e));

	if (!e || getrandom(e->offer.key, sizeof(e->offer.key), 0) != sizeof(e->offer.key) ||
	    !keeper_memory_open(&e->use, fd, m->device)) {
		free(e);
		return NULL;
	}
	memcpy(e->offer.note, m->note, sizeof(m->note));
	e->offer.kind = m->kind;
	e->offer.account = m->account;
	e->offer.part = m->part;
	e->offer.bytes = sane(m->bytes);
	memcpy(e->offer.tail, m->tail, sizeof(m->tail));
	e->fd = fd;
	vcuda_list_init(&e->in_bucket);
	vcuda_list_init(&e->of_owner);
	vcuda_list_init(&e->of_pool);
	vcuda_list_init(&e->memory);
	return e;
}

int keeper_offer(struct keeper_owner *owner, struct vcuda_keeper_message *m, int fd)
{
	struct keeper_entry *e;

	if (entries >= limit)
		return -EDQUOT;
	if (m->device >= VCUDA_LEDGER_GPUS || m->has_fd != (fd >= 0))
		return -EINVAL;
	e = new_entry(m, fd);
	if (!e)
		return -ENOMEM;
	vcuda_list_add(&e->in_bucket, bucket_of(e->offer.key));
	vcuda_list_add(&e->of_owner, &owner->entries);
	e->owner = owner;
	entries++;
	add_to_pool(e, m->key);
	memcpy(m->key, e->offer.key, sizeof(m->key));
	return 0;
}

static int withdraw(struct keeper_owner *owner, struct keeper_entry *e)
{
	/* The worker may still have the memory mapped. */
	if (!keeper_memory_share(&e->use, &owner->shared))
		return -ENOMEM;
	vcuda_list_remove(&e->of_owner);
	e->owner = NULL;
	/* The pool has the memory back. */
	if (is_of_pool(e))
		destroy(e);
	else
		settle(e);
	return 0;
}

int keeper_withdraw(struct keeper_owner *owner, const uint8_t *key)
{
	struct keeper_entry *e = find_own(owner, key);

	return e ? withdraw(owner, e) : -ENOENT;
}

int keeper_cancel(struct keeper_owner *owner, uint64_t number)
{
	vcuda_list_for_each (node, &owner->entries) {
		struct keeper_entry *e = container_of(node, struct keeper_entry, of_owner);

		if (e->offer.account == number)
			return withdraw(owner, e);
	}
	return -ENOENT;
}

int keeper_resize(const struct keeper_owner *owner, const uint8_t *key, uint64_t bytes)
{
	struct keeper_entry *e = find_own(owner, key);

	if (!e)
		return -ENOENT;
	e->offer.bytes = sane(bytes);
	return 0;
}

int keeper_describe(const struct keeper_entry *e, struct keeper_owner *owner, struct vcuda_keeper_message *m, int *fd)
{
	if (!keeper_memory_share(&e->use, &owner->shared))
		return -ENOMEM;
	m->kind = e->offer.kind;
	m->part = e->offer.part;
	m->has_fd = e->fd >= 0;
	memcpy(m->note, e->offer.note, sizeof(m->note));
	*fd = e->fd;
	return 0;
}

void keeper_name(const struct keeper_entry *e, struct vcuda_share_handle *handle)
{
	vcuda_share_kept_handle(e->offer.key, e->offer.tail, handle);
}

static int hold(struct keeper_entry *e, unsigned int *holders)
{
	if (is_of_pool(e))
		return -EINVAL;
	if (descriptors >= limit)
		return -EDQUOT;
	descriptors++;
	++*holders;
	return 0;
}

static void release(struct keeper_entry *e, unsigned int *holders)
{
	descriptors--;
	--*holders;
	if (!is_held(e))
		settle_all(e);
}

int keeper_hold(struct keeper_entry *e)
{
	return hold(e, &e->descriptors);
}

void keeper_release(struct keeper_entry *e)
{
	if (!e->has_ended) {
		release(e, &e->descriptors);
		return;
	}
	descriptors--;
	if (!--e->descriptors)
		free(e);
}

int keeper_hold_file(struct keeper_entry *e)
{
	return hold(e, &e->files);
}

int keeper_release_file(struct keeper_entry *e)
{
	if (!e->files)
		return -ENOENT;
	release(e, &e->files);
	return 0;
}

void keeper_orphan(struct keeper_owner *owner)
{
	while (!vcuda_list_empty(&owner->entries)) {
		struct keeper_entry *e = vcuda_list_first(&owner->entries, struct keeper_entry, of_owner);

		vcuda_list_remove(&e->of_owner);
		e->owner = NULL;
		settle(e);
	}
	keeper_memory_end_sharing(&owner->shared);
}

void keeper_end_orphans(void)
{
	while (!vcuda_list_empty(&orphans))
		destroy(vcuda_list_first(&orphans, struct keeper_entry, of_owner));
}
