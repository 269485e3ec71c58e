/* SPDX-License-Identifier: Apache-2.0 */
#include "images/image-store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/ipc/image-channel.h"
#include "images/image-check.h"
#include "common/list.h"
#include "common/log.h"

/* Each has a descriptor. */
#define MOST_ENTRIES 512

struct entry {
	struct vcuda_list entry;
	uint64_t guest, bytes;
	struct vcuda_image_name name;
	int fd;
};

static struct {
	struct vcuda_list entries; /* the one that was not used for longest first */
	uint64_t limit, used;
	unsigned int count;
} store = {.entries = {&store.entries, &store.entries}};

void daemon_image_store_set_limit(uint64_t bytes)
{
	store.limit = bytes;
}

uint64_t daemon_image_store_limit(void)
{
	return store.limit;
}

static bool may_keep(uint64_t bytes)
{
	return bytes >= VCUDA_IMAGE_LEAST_BYTES && bytes <= store.limit && vcuda_image_file_bytes(bytes) <= store.limit;
}

static void drop(struct entry *e)
{
	vcuda_list_remove(&e->entry);
	store.used -= vcuda_image_file_bytes(e->bytes);
	store.count--;
	/* To free what only the cache still has takes a tenth of a millisecond a MiB: not here. */
	daemon_image_check_close(e->fd);
	free(e);
}

static struct entry *find(uint64_t guest, uint64_t bytes, const struct vcuda_image_name *name)
{
	struct entry *e, *after;

	vcuda_list_for_each_safe (e, after, &store.entries, struct entry, entry)
		if (e->guest == guest && e->bytes == bytes && (!name || !memcmp(&e->name, name, sizeof(*name))))
			return e;
	return NULL;
}

enum vcuda_image_look daemon_image_store_look(uint64_t guest, uint64_t bytes)
{
	if (!may_keep(bytes))
		return VCUDA_IMAGE_NEVER;
	return find(guest, bytes, NULL) ? VCUDA_IMAGE_SOME : VCUDA_IMAGE_NONE;
}

int daemon_image_store_find(uint64_t guest, uint64_t bytes, const struct vcuda_image_name *name)
{
	struct entry *e = find(guest, bytes, name);

	if (!e)
		return -1;
	vcuda_list_remove(&e->entry);
	vcuda_list_add(&e->entry, &store.entries);
	return e->fd;
}

static void make_room(uint64_t bytes)
{
	while (store.count == MOST_ENTRIES || bytes > store.limit - store.used) {
		struct entry *oldest = vcuda_list_first(&store.entries, struct entry, entry);

		vcuda_log_debug("image cache: one of %llu bytes goes", (unsigned long long)oldest->bytes);
		drop(oldest);
	}
}

int daemon_image_store_enter(uint64_t guest, uint64_t bytes, const struct vcuda_image_name *name, int fd)
{
	int status = !may_keep(bytes) ? -EFBIG : find(guest, bytes, name) ? -EEXIST : 0;
	struct entry *e = status ? NULL : malloc(sizeof(*e));

	if (!e) {
		daemon_image_check_close(fd);
		return status ? status : -ENOMEM;
	}
	make_room(vcuda_image_file_bytes(bytes));
	*e = (struct entry){.guest = guest, .bytes = bytes, .name = *name, .fd = fd};
	vcuda_list_add(&e->entry, &store.entries);
	store.used += vcuda_image_file_bytes(bytes);
	store.count++;
	vcuda_log_debug("image cache: keeps one of %llu bytes; %u now, of %llu MiB together", (unsigned long long)bytes,
			store.count, (unsigned long long)store.used >> 20);
	return 0;
}

void daemon_image_store_drop(uint64_t guest)
{
	struct entry *e, *after;

	vcuda_list_for_each_safe (e, after, &store.entries, struct entry, entry)
		if (e->guest == guest)
			drop(e);
}
