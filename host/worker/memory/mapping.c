/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "memory/mapper.h"

/*
 * The address ranges of guest processes. The worker itself runs elsewhere (protocol/ipc/layout.h). With the thread
 * sanitizer all programs are in the same few ranges; the worker keeps those between 0x7e80 and 0x7e90 for itself, and
 * those that it uses already.
 */
static const struct {
	uint64_t start, end;
} guest_ranges[] = {
	{WORKER_ARENA_START, WORKER_ARENA_END + WORKER_OWN_AREAS *WORKER_OWN_BYTES}, /* the arenas, and other workers */
	{0x000000400000, 0x000080000000}, /* heaps of programs at the address that they are linked to */
#ifdef __SANITIZE_THREAD__
	{0x554000000000, 0x568000000000},
	{0x7e9000000000, 0x7fffff000000},
#else
	{0x140000000000, 0x155555556000}, /* mmap(), where stacks have no limit: below a sixth of the address space */
	{0x540000000000, 0x580000000000}, /* other programs, and their heaps */
	{0x7e0000000000, 0x7fffff000000}, /* mmap(), and stacks */
#endif
};

#define MAX_RESERVED 64
#define RESERVE_PROT PROT_NONE
#define RESERVE_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

struct mapping {
	uint64_t address, length;
	uint64_t mapped;   /* bytes mapped so far, from the start */
	unsigned int held; /* registrations with the back end */
	int file;          /* the file of the only extent, kept open for a back end that hands it on; -1: none */
	bool writable, complete;
	bool is_lent; /* in a place of the back end's */
};

/* A place in the back end's own address space, for one mapping of exactly that. */
struct lent {
	uint64_t address, length;
	struct lent *next;
};

/* A registration with the back end: mappings under it stay. */
struct hold {
	uint64_t address, bytes;
	enum vcuda_hold_owner owner;
};

struct worker_mappings {
	pthread_mutex_t lock;
	struct {
		uint64_t start, end;
	} reserved[MAX_RESERVED];
	unsigned int reserved_count;
	bool nested;
	struct lent *lent;
	int last_file;             /* the highest descriptor that a mapping's file may have; -1: files are closed */
	unsigned int without_file; /* complete mappings */
	void *mappings;            /* trees of tsearch() */
	void *holds;
};

/* Mappings in the tree do not overlap. One that overlaps is found as the same. */
static int compare_mappings(const void *a, const void *b)
{
	const struct mapping *x = a, *y = b;

	if (x->address + x->length <= y->address)
		return -1;
	return x->address >= y->address + y->length;
}

static int compare_holds(const void *a, const void *b)
{
	const struct hold *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static void reserve(struct worker_mappings *w, uint64_t start, uint64_t end)
{
	void *p;

	if (start >= end || w->reserved_count == MAX_RESERVED)
		return;
	p = mmap((void *)start, end - start, RESERVE_PROT, RESERVE_FLAGS | MAP_FIXED_NOREPLACE, -1, 0);
	if (p == MAP_FAILED)
		return;
	w->reserved[w->reserved_count].start = start;
	w->reserved[w->reserved_count++].end = end;
}

/* Reserves what is free of [start, end): around whatever the worker already has there. */
static void reserve_gaps(struct worker_mappings *w, uint64_t start, uint64_t end)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long long from, to;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%llx-%llx", &from, &to) != 2 || to <= start)
			continue;
		if (from >= end)
			break;
		if (from > start)
			reserve(w, start, from);
		start = to;
	}
	if (maps)
		fclose(maps);
	reserve(w, start, end);
}

/* The link to the lent place; the link at the end: it is none. */
static struct lent **find_lent(struct worker_mappings *w, uint64_t address, uint64_t length)
{
	struct lent **at;

	for (at = &w->lent; *at && ((*at)->address != address || (*at)->length != length); at = &(*at)->next)
		continue;
	return at;
}

static void take_back(struct lent **at)
{
	struct lent *lent = *at;

	if (!lent)
		return;
	*at = lent->next;
	free(lent);
}

struct worker_mappings *worker_mappings_create(void)
{
	struct worker_mappings *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	pthread_mutex_init(&w->lock, NULL);
	w->last_file = -1;
	for (size_t i = 0; i < sizeof(guest_ranges) / sizeof(guest_ranges[0]); i++)
		reserve_gaps(w, guest_ranges[i].start, guest_ranges[i].end);
	return w;
}

void worker_mappings_leave(const struct worker_mappings *w)
{
	for (unsigned int i = 0; i < w->reserved_count; i++)
		munmap((void *)w->reserved[i].start, w->reserved[i].end - w->reserved[i].start);
}

void worker_mappings_destroy(struct worker_mappings *w)
{
	if (!w)
		return;
	while (w->mappings) {
		const struct mapping *any = *(struct mapping **)w->mappings;

		if (worker_mapping_remove(w, any->address, any->length))
			break;
	}
	worker_mappings_leave(w);
	while (w->lent)
		take_back(&w->lent);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* Takes [from, to), with whatever is mapped there, out of the reserved range around it. False: it is in none. */
static bool take_out(struct worker_mappings *w, uint64_t from, uint64_t to)
{
	for (unsigned int i = 0; i < w->reserved_count; i++) {
		uint64_t end = w->reserved[i].end;

		if (w->reserved[i].start > from || end < to || w->reserved_count == MAX_RESERVED)
			continue;
		w->reserved[i].end = from;
		w->reserved[w->reserved_count].start = to;
		w->reserved[w->reserved_count++].end = end;
		return true;
	}
	return false;
}

void worker_mappings_nest(struct worker_mappings *w)
{
	const uint64_t from = WORKER_ARENA_START + WORKER_ARENA_LENGTH;

	pthread_mutex_lock(&w->lock);
	if (!w->nested && take_out(w, from, WORKER_ARENA_END))
		munmap((void *)from, WORKER_ARENA_LENGTH);
	w->nested = true;
	pthread_mutex_unlock(&w->lock);
}

/* The other half of the descriptors is for all else. */
void worker_mappings_keep_files(struct worker_mappings *w)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	w->last_file = limit.rlim_cur / 2 < INT_MAX ? (int)(limit.rlim_cur / 2) : INT_MAX;
}

void *worker_mappings_own_area(struct worker_mappings *w)
{
	uint64_t from = WORKER_ARENA_END + (uint64_t)((unsigned int)getpid() % WORKER_OWN_AREAS) * WORKER_OWN_BYTES;
	bool there;

	pthread_mutex_lock(&w->lock);
	there = take_out(w, from, from + WORKER_OWN_BYTES);
	pthread_mutex_unlock(&w->lock);
	return there ? (void *)from : NULL;
}

static bool in_reserved(const struct worker_mappings *w, uint64_t address, uint64_t length)
{
	for (unsigned int i = 0; i < w->reserved_count; i++)
		if (address >= w->reserved[i].start && address < w->reserved[i].end &&
		    length <= w->reserved[i].end - address)
			return true;
	return false;
}

/* One of them; NULL: none. */
static struct mapping *overlapping(const struct worker_mappings *w, uint64_t address, uint64_t length)
{
	struct mapping key = {.address = address, .length = length}, **found;

	found = tfind(&key, &w->mappings, compare_mappings);
	return found ? *found : NULL;
}

/*
 * Puts the reservation back; what lay there is unmapped by that. A back end's address space is readable and writable
 * where nothing is (softgpu/device/arena.h).
 */
static int unmap_range(uint64_t address, uint64_t length, bool is_lent)
{
	int prot = is_lent ? PROT_READ | PROT_WRITE : RESERVE_PROT;
	void *p;

	if (!length)
		return 0;
	p = mmap((void *)address, length, prot, RESERVE_FLAGS | MAP_FIXED, -1, 0);
	return p == MAP_FAILED ? -errno : 0;
}

static void drop(struct worker_mappings *w, struct mapping *mapping)
{
	tdelete(mapping, &w->mappings, compare_mappings);
	w->without_file -= mapping->complete && mapping->file < 0;
	if (mapping->file >= 0)
		close(mapping->file);
	free(mapping);
}

/* Undoes a mapping. If even that fails (no memory for the kernel) the pages must not be given back: the session has to
 * end. */
static int remove_mapping(struct worker_mappings *w, struct mapping *mapping)
{
	int err = unmap_range(mapping->address, mapping->mapped, mapping->is_lent);

	if (err)
		return err;
	if (mapping->is_lent)
		take_back(find_lent(w, mapping->address, mapping->length));
	drop(w, mapping);
	return 0;
}

static int new_mapping(struct worker_mappings *w, uint64_t address, uint64_t length, bool writable,
		       struct mapping **mapping)
{
	bool is_lent;

	if (!length || (address | length) & 4095)
		return -EINVAL;
	is_lent = *find_lent(w, address, length);
	if (!is_lent && !in_reserved(w, address, length))
		return -EADDRNOTAVAIL;
	if (overlapping(w, address, length))
		return -EEXIST;
	*mapping = calloc(1, sizeof(**mapping));
	if (!*mapping)
		return -ENOMEM;
	**mapping = (struct mapping){
		.address = address, .length = length, .writable = writable, .file = -1, .is_lent = is_lent};
	if (tsearch(*mapping, &w->mappings, compare_mappings))
		return 0;
	free(*mapping);
	return -ENOMEM;
}

static int map_extents(struct mapping *mapping, const struct worker_mapping_extent *extents, unsigned int count)
{
	uint64_t address = mapping->address + mapping->mapped, bytes = 0;

	for (unsigned int i = 0; i < count; i++) {
		const struct worker_mapping_extent *e = &extents[i];

		if (!e->length || (e->length | e->offset) & 4095 ||
		    e->length > mapping->length - mapping->mapped - bytes)
			return -EINVAL;
		bytes += e->length;
	}
	/* If some fail, all are unmapped. */
	mapping->mapped += bytes;
	return worker_mapper_map(address, extents, count, mapping->writable);
}

static void keep_file(const struct worker_mappings *w, struct mapping *mapping, int file)
{
	if (worker_mapper_is_there() || (!w->nested && w->last_file < 0))
		return;
	mapping->file = fcntl(file, F_DUPFD_CLOEXEC, 0);
	if (w->nested || mapping->file <= w->last_file)
		return;
	close(mapping->file);
	mapping->file = -1;
}

static int map_part(struct worker_mappings *w, uint64_t address, uint64_t length, uint64_t offset, bool writable,
		    bool last, const struct worker_mapping_extent *extents, unsigned int count)
{
	struct mapping *mapping = NULL;
	int err;

	if (offset == 0) {
		err = new_mapping(w, address, length, writable, &mapping);
		if (err)
			return err;
	} else {
		mapping = overlapping(w, address, 1);
		if (!mapping || mapping->address != address || mapping->length != length || mapping->complete ||
		    mapping->mapped != offset)
			return -EINVAL;
	}
	err = map_extents(mapping, extents, count);
	if (!err && last && mapping->mapped != mapping->length)
		err = -EINVAL;
	if (err) {
		remove_mapping(w, mapping);
		return err;
	}
	mapping->complete = last;
	if (last && !offset && count == 1)
		keep_file(w, mapping, extents->file);
	w->without_file += last && mapping->file < 0;
	return 0;
}

int worker_mapping_add(struct worker_mappings *w, uint64_t address, uint64_t length, uint64_t offset, bool writable,
		       bool last, const struct worker_mapping_extent *extents, unsigned int count)
{
	int err;

	pthread_mutex_lock(&w->lock);
	err = map_part(w, address, length, offset, writable, last, extents, count);
	pthread_mutex_unlock(&w->lock);
	return err;
}

int worker_mapping_remove(struct worker_mappings *w, uint64_t address, uint64_t length)
{
	struct mapping *mapping;
	int err = -ENOENT;

	pthread_mutex_lock(&w->lock);
	mapping = overlapping(w, address, 1);
	if (mapping && mapping->address == address && mapping->length == length)
		err = mapping->held ? -EBUSY : remove_mapping(w, mapping);
	pthread_mutex_unlock(&w->lock);
	return err;
}

int worker_mapping_lend(struct worker_mappings *w, uint64_t address, uint64_t length)
{
	struct lent *lent = malloc(sizeof(*lent));

	if (!lent)
		return -ENOMEM;
	pthread_mutex_lock(&w->lock);
	*lent = (struct lent){address, length, w->lent};
	w->lent = lent;
	pthread_mutex_unlock(&w->lock);
	return 0;
}

/* The mapping that uses a loan stays until it is removed, but it maps nothing and cannot be used any more. */
static int end_loan(struct worker_mappings *w, struct lent **at)
{
	struct mapping *mapping = overlapping(w, (*at)->address, (*at)->length);
	int err = 0;

	if (mapping && mapping->is_lent)
		err = unmap_range(mapping->address, mapping->mapped, true);
	if (err)
		return err;
	if (mapping && mapping->is_lent) {
		w->without_file -= mapping->complete && mapping->file < 0;
		mapping->mapped = 0;
		mapping->complete = mapping->is_lent = false;
	}
	take_back(at);
	return 0;
}

int worker_mapping_take_back(struct worker_mappings *w, uint64_t address, uint64_t length)
{
	int err = 0;

	pthread_mutex_lock(&w->lock);
	for (struct lent **at = &w->lent, *lent; !err && (lent = *at);) {
		if (lent->address - address < length)
			err = end_loan(w, at);
		else
			at = &lent->next;
	}
	pthread_mutex_unlock(&w->lock);
	return err;
}

bool worker_mappings_have_files(struct worker_mappings *w)
{
	bool have;

	pthread_mutex_lock(&w->lock);
	have = !w->without_file;
	pthread_mutex_unlock(&w->lock);
	return have;
}

int worker_mapping_file(struct worker_mappings *w, uint64_t address, uint64_t length)
{
	struct mapping *mapping;
	int file = -ENOENT;

	pthread_mutex_lock(&w->lock);
	mapping = overlapping(w, address, 1);
	if (mapping && mapping->address == address && mapping->length == length && mapping->complete)
		file = mapping->file < 0 ? -EMFILE : mapping->file;
	pthread_mutex_unlock(&w->lock);
	return file;
}

/* The mapping around the address, if it is complete, and writable if that is asked; else NULL. With the lock held. */
static struct mapping *usable(const struct worker_mappings *w, uint64_t address, bool writable)
{
	struct mapping *mapping = overlapping(w, address, 1);

	return mapping && mapping->complete && (mapping->writable || !writable) ? mapping : NULL;
}

/* Whether usable mappings side by side have all of [p, p + bytes). With the lock held. */
static bool covered(const struct worker_mappings *w, uint64_t address, uint64_t bytes, bool writable)
{
	for (;;) {
		const struct mapping *mapping = usable(w, address, writable);
		uint64_t there;

		if (!mapping)
			return false;
		there = mapping->length - (address - mapping->address);
		if (bytes <= there)
			return true;
		bytes -= there;
		address += there;
	}
}

bool worker_mapping_covers(struct worker_mappings *w, const void *p, uint64_t bytes, bool writable)
{
	bool covers;

	pthread_mutex_lock(&w->lock);
	covers = covered(w, (uint64_t)(uintptr_t)p, bytes, writable);
	pthread_mutex_unlock(&w->lock);
	return covers;
}

/* With the lock held; mappings cover the hold. */
static void count_holds(const struct worker_mappings *w, const struct hold *hold, bool more)
{
	uint64_t at = hold->address, end = at + hold->bytes;

	while (at < end) {
		struct mapping *mapping = overlapping(w, at, 1);

		if (!mapping)
			return;
		mapping->held += more ? 1 : -1u;
		at = mapping->address + mapping->length;
	}
}

static bool add_hold(struct worker_mappings *w, struct hold *hold, bool writable)
{
	if (!covered(w, hold->address, hold->bytes, writable) || tfind(hold, &w->holds, compare_holds) ||
	    !tsearch(hold, &w->holds, compare_holds))
		return false;
	count_holds(w, hold, true);
	return true;
}

bool vcuda_mapping_hold(struct worker_mappings *w, const void *p, uint64_t bytes, bool writable,
			enum vcuda_hold_owner owner)
{
	struct hold *hold = malloc(sizeof(*hold));
	bool held;

	if (!hold)
		return false;
	*hold = (struct hold){(uint64_t)(uintptr_t)p, bytes, owner};
	pthread_mutex_lock(&w->lock);
	held = add_hold(w, hold, writable);
	pthread_mutex_unlock(&w->lock);
	if (!held)
		free(hold);
	return held;
}

/* The one that began at p; NULL: none. With the lock held. */
static struct hold *find_hold(const struct worker_mappings *w, const void *p)
{
	struct hold key = {.address = (uint64_t)(uintptr_t)p}, **found;

	found = tfind(&key, &w->holds, compare_holds);
	return found ? *found : NULL;
}

enum vcuda_hold_owner vcuda_mapping_holder(struct worker_mappings *w, const void *p)
{
	enum vcuda_hold_owner owner;
	const struct hold *hold;

	pthread_mutex_lock(&w->lock);
	hold = find_hold(w, p);
	owner = hold ? hold->owner : VCUDA_HOLD_NONE;
	pthread_mutex_unlock(&w->lock);
	return owner;
}

void vcuda_mapping_release(struct worker_mappings *w, const void *p, enum vcuda_hold_owner owner)
{
	struct hold *hold;

	pthread_mutex_lock(&w->lock);
	hold = find_hold(w, p);
	if (hold && hold->owner == owner) {
		count_holds(w, hold, false);
		tdelete(hold, &w->holds, compare_holds);
		free(hold);
	}
	pthread_mutex_unlock(&w->lock);
}
