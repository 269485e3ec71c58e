/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/direct.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "memory/ram.h"

/* A run of bytes that is contiguous both in the guest process and in our mapping of RAM. */
struct run {
	uint64_t offset, length; /* in the range */
	char *memory;
	unsigned int file; /* file of RAM: adjacent files are registered one by one */
};

struct worker_direct {
	uint64_t address, length;
	uint64_t mapped; /* bytes that are known so far, from the start */
	struct run *runs;
	unsigned int count, capacity;
	unsigned int held; /* copies */
	bool writable, complete;
	struct worker_direct *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct worker_direct *ranges;

/* ---- with the lock ---- */

static struct worker_direct *find(uint64_t address)
{
	struct worker_direct *range = ranges;

	while (range && address - range->address >= range->length)
		range = range->next;
	return range;
}

static void drop(struct worker_direct *range)
{
	for (struct worker_direct **at = &ranges; *at; at = &(*at)->next) {
		if (*at != range)
			continue;
		*at = range->next;
		free(range->runs);
		free(range);
		return;
	}
}

static int new_range(uint64_t address, uint64_t length, bool writable, struct worker_direct **range)
{
	if (!length || (address | length) & 4095 || address + length < address)
		return -EINVAL;
	for (struct worker_direct *r = ranges; r; r = r->next)
		if (address < r->address + r->length && r->address < address + length)
			return -EEXIST;
	*range = calloc(1, sizeof(**range));
	if (!*range)
		return -ENOMEM;
	**range = (struct worker_direct){.address = address, .length = length, .writable = writable, .next = ranges};
	ranges = *range;
	return 0;
}

static int append(struct worker_direct *range, unsigned int file, char *memory, uint64_t length)
{
	struct run *last = range->count ? &range->runs[range->count - 1] : NULL;

	if (last && last->file == file && last->memory + last->length == memory) {
		last->length += length;
		return 0;
	}
	if (range->count == range->capacity) {
		unsigned int capacity = range->capacity ? range->capacity * 2 : 16;
		struct run *runs = realloc(range->runs, capacity * sizeof(*runs));

		if (!runs)
			return -ENOMEM;
		range->runs = runs;
		range->capacity = capacity;
	}
	range->runs[range->count++] = (struct run){range->mapped, length, memory, file};
	return 0;
}

static int note_extents(struct worker_direct *range, const struct vcuda_channel_extent *extents, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		const struct vcuda_channel_extent *e = &extents[i];
		char *memory;
		int err;

		if (!e->length || (e->length | e->offset) & 4095 || e->length > range->length - range->mapped)
			return -EINVAL;
		err = worker_ram_find(e->region, e->offset, e->length, &memory);
		if (!err)
			err = append(range, e->region, memory, e->length);
		if (err)
			return err;
		range->mapped += e->length;
	}
	return 0;
}

static int map_part(uint64_t address, uint64_t length, uint64_t offset, bool writable, bool last,
		    const struct vcuda_channel_extent *extents, unsigned int count)
{
	struct worker_direct *range;
	int err;

	if (!offset) {
		err = new_range(address, length, writable, &range);
		if (err)
			return err;
	} else {
		range = find(address);
		if (!range || range->address != address || range->length != length || range->complete ||
		    range->mapped != offset || range->writable != writable)
			return -EINVAL;
	}
	err = note_extents(range, extents, count);
	if (!err && last != (range->mapped == range->length))
		err = -EINVAL;
	range->complete = last;
	if (err)
		drop(range);
	return err;
}

/* ---- */

int worker_direct_map(uint64_t address, uint64_t length, uint64_t offset, bool writable, bool last,
		      const struct vcuda_channel_extent *extents, unsigned int count)
{
	int err;

	if (!worker_ram_is_wanted())
		return -EOPNOTSUPP;
	pthread_mutex_lock(&lock);
	err = map_part(address, length, offset, writable, last, extents, count);
	pthread_mutex_unlock(&lock);
	return err;
}

int worker_direct_unmap(uint64_t address, uint64_t length)
{
	struct worker_direct *range;
	int err = -ENOENT;

	pthread_mutex_lock(&lock);
	range = find(address);
	if (range && range->address == address && range->length == length)
		err = range->held ? -EBUSY : 0;
	if (!err)
		drop(range);
	pthread_mutex_unlock(&lock);
	return err;
}

struct worker_direct *worker_direct_hold(uint64_t address, uint64_t bytes, bool writable)
{
	struct worker_direct *range;

	pthread_mutex_lock(&lock);
	range = find(address);
	if (range && (!bytes || !range->complete || (writable && !range->writable) ||
		      bytes > range->length - (address - range->address)))
		range = NULL;
	if (range)
		range->held++;
	pthread_mutex_unlock(&lock);
	return range;
}

void worker_direct_release(struct worker_direct *range)
{
	pthread_mutex_lock(&lock);
	range->held--;
	pthread_mutex_unlock(&lock);
}

/* The run with the byte at `offset`. The caller holds the range, so its runs do not change. */
static const struct run *run_of(const struct worker_direct *range, uint64_t offset)
{
	unsigned int low = 0, high = range->count;

	while (high - low > 1) {
		unsigned int middle = low + (high - low) / 2;

		if (range->runs[middle].offset <= offset)
			low = middle;
		else
			high = middle;
	}
	return &range->runs[low];
}

static void look_at(const struct worker_direct *range, struct worker_direct_part *part)
{
	const struct run *run = run_of(range, part->offset);
	uint64_t in_run = part->offset - run->offset, in_piece;

	part->memory = run->memory + in_run;
	in_piece = WORKER_RAM_PIECE - (uintptr_t)part->memory % WORKER_RAM_PIECE;
	part->bytes = part->left;
	if (part->bytes > run->length - in_run)
		part->bytes = run->length - in_run;
	if (part->bytes > in_piece)
		part->bytes = in_piece;
}

void worker_direct_first(const struct worker_direct *range, uint64_t address, uint64_t bytes,
			 struct worker_direct_part *part)
{
	part->offset = address - range->address;
	part->left = bytes;
	look_at(range, part);
}

bool worker_direct_next(const struct worker_direct *range, struct worker_direct_part *part)
{
	part->offset += part->bytes;
	part->left -= part->bytes;
	if (part->left)
		look_at(range, part);
	return part->left;
}
