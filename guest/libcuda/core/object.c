/* SPDX-License-Identifier: Apache-2.0 */
#include "core/object.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define BUCKETS 1024

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct libcuda_object *buckets[BUCKETS];
static struct libcuda_object *unused;
static uint64_t event_numbers;
static _Atomic uint64_t stream_numbers = 6; /* the next one */

uint64_t libcuda_stream_numbers_take(uint64_t count)
{
	return atomic_fetch_add(&stream_numbers, count);
}

static uint64_t number_of_new(enum libcuda_object_kind kind)
{
	if (kind == LIBCUDA_OBJECT_STREAM)
		return libcuda_stream_numbers_take(1);
	return kind == LIBCUDA_OBJECT_EVENT ? ++event_numbers : 0;
}

static struct libcuda_object **bucket_of(uint64_t id)
{
	return &buckets[(id * 0x9e3779b97f4a7c15ull) >> 54];
}

static struct libcuda_object *find_locked(uint64_t id)
{
	struct libcuda_object *o;

	for (o = *bucket_of(id); o && o->id != id; o = o->next)
		continue;
	return o;
}

struct libcuda_object *libcuda_object_find(unsigned int kinds, const void *handle)
{
	struct libcuda_object *o;

	pthread_rwlock_rdlock(&lock);
	o = find_locked((uintptr_t)handle);
	if (o && !(o->kind & kinds))
		o = NULL;
	pthread_rwlock_unlock(&lock);
	return o;
}

struct libcuda_object *libcuda_object_add(enum libcuda_object_kind kind, const void *handle,
					  struct libcuda_context *context, const void *parent)
{
	uint64_t id = (uintptr_t)handle;
	struct libcuda_object *o;

	pthread_rwlock_wrlock(&lock);
	o = find_locked(id);
	if (!o) {
		o = unused;
		if (o)
			unused = o->next;
		else
			o = calloc(1, sizeof(*o));
		if (o) {
			*o = (struct libcuda_object){
				.id = id,
				.kind = kind,
				.context = context,
				.parent = (uintptr_t)parent,
				.number = number_of_new(kind),
				.next = *bucket_of(id),
			};
			*bucket_of(id) = o;
		}
	}
	pthread_rwlock_unlock(&lock);
	return o;
}

/* The record is in no bucket any more. */
static void recycle(struct libcuda_object *o)
{
	if (o->release)
		o->release(o->data);
	*o = (struct libcuda_object){.next = unused};
	unused = o;
}

/* Takes out what `goes` says. */
static void drop_locked(bool (*goes)(const struct libcuda_object *, uint64_t), uint64_t argument)
{
	for (int i = 0; i < BUCKETS; i++) {
		struct libcuda_object **at = &buckets[i], *o;

		while ((o = *at)) {
			if (!goes(o, argument)) {
				at = &o->next;
				continue;
			}
			*at = o->next;
			recycle(o);
		}
	}
}

static bool is_or_is_in(const struct libcuda_object *o, uint64_t id)
{
	return o->id == id || o->parent == id;
}

static bool is_of_context(const struct libcuda_object *o, uint64_t context)
{
	return o->context == (struct libcuda_context *)(uintptr_t)context;
}

bool libcuda_object_drop(const void *handle)
{
	uint64_t id = (uintptr_t)handle;
	struct libcuda_object **at;
	bool found;

	if (!id)
		return false;
	pthread_rwlock_wrlock(&lock);
	for (at = bucket_of(id); *at && (*at)->id != id; at = &(*at)->next)
		continue;
	found = *at;
	if (*at && (*at)->kind & (LIBCUDA_OBJECT_MODULE | LIBCUDA_OBJECT_LIBRARY | LIBCUDA_OBJECT_MIPMAPPED)) {
		drop_locked(is_or_is_in, id);
	} else if (*at) {
		struct libcuda_object *o = *at;

		*at = o->next;
		recycle(o);
	}
	pthread_rwlock_unlock(&lock);
	return found;
}

void libcuda_objects_drop_context(struct libcuda_context *context)
{
	pthread_rwlock_wrlock(&lock);
	drop_locked(is_of_context, (uintptr_t)context);
	pthread_rwlock_unlock(&lock);
}
