/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open-addressing hash set. A removed slot keeps its place as a tombstone until the next growth, which also cleans
 * up.
 */
#include "device/registry.h"

#include <stdint.h>
#include <stdlib.h>

struct slot {
	const void *object;     /* NULL: never used */
	enum softgpu_kind kind; /* 0: removed */
};

static struct slot *slots;
static size_t capacity; /* a power of two, or 0 */
static size_t used;     /* slots that are not NULL, tombstones included */
static size_t live;

static size_t hash(const void *object)
{
	return (size_t)(((uintptr_t)object >> 4) * 0x9e3779b97f4a7c15ull >> 20);
}

static struct slot *find(const void *object)
{
	if (capacity == 0)
		return NULL;
	for (size_t i = hash(object);; i++) {
		struct slot *slot = &slots[i & (capacity - 1)];

		if (!slot->object)
			return NULL;
		if (slot->object == object && slot->kind)
			return slot;
	}
}

static void place(const void *object, enum softgpu_kind kind)
{
	size_t i = hash(object);

	while (slots[i & (capacity - 1)].object)
		i++;
	slots[i & (capacity - 1)] = (struct slot){object, kind};
	used++;
}

static bool grow(void)
{
	size_t old_capacity = capacity, want = 64;
	struct slot *old = slots, *bigger;

	while (want < live * 4)
		want *= 2;
	bigger = calloc(want, sizeof(*bigger));
	if (!bigger)
		return false;
	slots = bigger;
	capacity = want;
	used = 0;
	for (size_t i = 0; i < old_capacity; i++) {
		if (old[i].object && old[i].kind)
			place(old[i].object, old[i].kind);
	}
	free(old);
	return true;
}

bool softgpu_registry_add(const void *object, enum softgpu_kind kind)
{
	if ((used + 1) * 4 > capacity * 3 && !grow())
		return false;
	place(object, kind);
	live++;
	return true;
}

void softgpu_registry_remove(const void *object)
{
	struct slot *slot = find(object);

	if (!slot)
		return;
	slot->kind = 0;
	live--;
}

bool softgpu_registry_has(const void *object, enum softgpu_kind kind)
{
	struct slot *slot = object ? find(object) : NULL;

	return slot && slot->kind == kind;
}
