/* SPDX-License-Identifier: Apache-2.0 */
#include "charge.h"

#include <pthread.h>
#include <stdlib.h>

#define BUCKETS 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct backend_charge *buckets[BUCKETS];
static const struct vcuda_meter *meter;
static void (*reclaim)(void);

void backend_charge_init(const struct vcuda_meter *to, void (*reclaim_unused)(void))
{
	meter = to;
	reclaim = reclaim_unused;
}

bool backend_charge_take(unsigned int gpu, uint64_t bytes)
{
	if (!bytes || meter->take(gpu, bytes))
		return true;
	reclaim();
	return meter->take(gpu, bytes);
}

void backend_charge_give(unsigned int gpu, uint64_t bytes)
{
	if (bytes)
		meter->give(gpu, bytes);
}

struct backend_charge *backend_charge_new(enum backend_charge_kind kind, unsigned int gpu, uint64_t bytes)
{
	struct backend_charge *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	*c = (struct backend_charge){.kind = kind, .gpu = gpu, .bytes = bytes, .refs = 1};
	if (backend_charge_take(gpu, bytes))
		return c;
	free(c);
	return NULL;
}

bool backend_charge_resize(struct backend_charge *c, uint64_t bytes)
{
	if (bytes > c->bytes && !backend_charge_take(c->gpu, bytes - c->bytes))
		return false;
	if (bytes < c->bytes)
		backend_charge_give(c->gpu, c->bytes - bytes);
	c->bytes = bytes;
	return true;
}

void backend_charge_free(struct backend_charge *c)
{
	backend_charge_give(c->gpu, c->bytes);
	free(c);
}

/* ---- the table ---- */

static struct backend_charge **bucket_of(uint64_t object)
{
	return &buckets[(object * 0x9e3779b97f4a7c15ull >> 32) * BUCKETS >> 32];
}

void backend_charge_add(struct backend_charge *c, uint64_t object)
{
	struct backend_charge **bucket = bucket_of(object);

	c->object = object;
	pthread_mutex_lock(&lock);
	c->next = *bucket;
	*bucket = c;
	pthread_mutex_unlock(&lock);
}

/* With the lock held. The last of a list is the oldest. NULL: there is none. */
static struct backend_charge **place_of(enum backend_charge_kind kind, uint64_t object)
{
	struct backend_charge **at, **found = NULL;

	for (at = bucket_of(object); *at; at = &(*at)->next)
		if ((*at)->kind == kind && (*at)->object == object)
			found = at;
	return found;
}

static struct backend_charge *take_out(struct backend_charge **at)
{
	struct backend_charge *c = at ? *at : NULL;

	if (c)
		*at = c->next;
	return c;
}

struct backend_charge *backend_charge_remove(enum backend_charge_kind kind, uint64_t object)
{
	struct backend_charge *c;

	pthread_mutex_lock(&lock);
	c = take_out(place_of(kind, object));
	pthread_mutex_unlock(&lock);
	return c;
}

struct backend_charge *backend_charge_find(enum backend_charge_kind kind, uint64_t object)
{
	struct backend_charge **at;

	pthread_mutex_lock(&lock);
	at = place_of(kind, object);
	pthread_mutex_unlock(&lock);
	return at ? *at : NULL;
}

/* With the lock held. */
static struct backend_charge *take_out_where(bool (*is_wanted)(const struct backend_charge *c, const void *what),
					     const void *what)
{
	for (unsigned int i = 0; i < BUCKETS; i++)
		for (struct backend_charge **at = &buckets[i]; *at; at = &(*at)->next)
			if (is_wanted(*at, what))
				return take_out(at);
	return NULL;
}

static struct backend_charge *remove_where(bool (*is_wanted)(const struct backend_charge *c, const void *what),
					   const void *what)
{
	struct backend_charge *c;

	pthread_mutex_lock(&lock);
	c = take_out_where(is_wanted, what);
	pthread_mutex_unlock(&lock);
	return c;
}

struct range {
	enum backend_charge_kind kind;
	uint64_t start, bytes;
};

static bool is_in_range(const struct backend_charge *c, const void *what)
{
	const struct range *r = what;

	return c->kind == r->kind && c->object - r->start < r->bytes;
}

struct backend_charge *backend_charge_remove_in(enum backend_charge_kind kind, uint64_t start, uint64_t bytes)
{
	return remove_where(is_in_range, &(struct range){kind, start, bytes});
}

static bool is_of_context(const struct backend_charge *c, const void *what)
{
	return c->context == what;
}

void backend_charge_end_context(CUcontext context)
{
	struct backend_charge *c;

	while (context && (c = remove_where(is_of_context, context)))
		backend_charge_free(c);
}
