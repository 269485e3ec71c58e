/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Where memory of guest processes lies. The worker itself runs elsewhere (main.c: personality and link address). With
 * the thread sanitizer all programs are in the same few places, of which the worker keeps those between 0x7e80 and
 * 0x7e90 for itself, and what it has by now.
 */
static const struct {
	uint64_t start, end;
} guest_ranges[] = {
	{VCUDA_ARENA_START, VCUDA_ARENA_END + VCUDA_OWN_PLACES *VCUDA_OWN_BYTES}, /* the arenas, and other workers */
	{0x000000400000, 0x000080000000}, /* heaps of programs that lie where they were linked */
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

struct window {
	uint64_t address, length;
	uint64_t mapped;   /* bytes mapped so far, from the start */
	unsigned int held; /* registrations with the back end */
	int file;          /* its only extent's, kept open for a back end that hands it on; -1: none is */
	bool writable, complete;
	struct window *next;
};

struct vcuda_windows {
	pthread_mutex_t lock;
	struct {
		uint64_t start, end;
	} reserved[MAX_RESERVED];
	unsigned int reserved_count;
	bool nested;
	struct window *first;
};

static void reserve(struct vcuda_windows *w, uint64_t start, uint64_t end)
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
static void reserve_gaps(struct vcuda_windows *w, uint64_t start, uint64_t end)
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

struct vcuda_windows *vcuda_windows_create(void)
{
	struct vcuda_windows *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	pthread_mutex_init(&w->lock, NULL);
	for (size_t i = 0; i < sizeof(guest_ranges) / sizeof(guest_ranges[0]); i++)
		reserve_gaps(w, guest_ranges[i].start, guest_ranges[i].end);
	return w;
}

void vcuda_windows_destroy(struct vcuda_windows *w)
{
	if (!w)
		return;
	while (w->first)
		if (vcuda_window_unmap(w, w->first->address, w->first->length))
			break;
	for (unsigned int i = 0; i < w->reserved_count; i++)
		munmap((void *)w->reserved[i].start, w->reserved[i].end - w->reserved[i].start);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* Takes [from, to), with whatever is mapped there, out of the reserved range around it. False: it is in none. */
static bool take_out(struct vcuda_windows *w, uint64_t from, uint64_t to)
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

void vcuda_windows_nest(struct vcuda_windows *w)
{
	const uint64_t from = VCUDA_ARENA_START + VCUDA_ARENA_LENGTH;

	pthread_mutex_lock(&w->lock);
	if (!w->nested && take_out(w, from, VCUDA_ARENA_END))
		munmap((void *)from, VCUDA_ARENA_LENGTH);
	w->nested = true;
	pthread_mutex_unlock(&w->lock);
}

void *vcuda_windows_own_place(struct vcuda_windows *w)
{
	uint64_t from = VCUDA_ARENA_END + (uint64_t)((unsigned int)getpid() % VCUDA_OWN_PLACES) * VCUDA_OWN_BYTES;
	bool there;

	pthread_mutex_lock(&w->lock);
	there = take_out(w, from, from + VCUDA_OWN_BYTES);
	pthread_mutex_unlock(&w->lock);
	return there ? (void *)from : NULL;
}

static bool in_reserved(const struct vcuda_windows *w, uint64_t address, uint64_t length)
{
	for (unsigned int i = 0; i < w->reserved_count; i++)
		if (address >= w->reserved[i].start && address < w->reserved[i].end &&
		    length <= w->reserved[i].end - address)
			return true;
	return false;
}

static struct window *overlapping(const struct vcuda_windows *w, uint64_t address, uint64_t length)
{
	for (struct window *v = w->first; v; v = v->next)
		if (address < v->address + v->length && v->address < address + length)
			return v;
	return NULL;
}

/* Puts the reservation back; what lay there is unmapped by that. */
static int unmap_range(uint64_t address, uint64_t length)
{
	void *p;

	if (!length)
		return 0;
	p = mmap((void *)address, length, RESERVE_PROT, RESERVE_FLAGS | MAP_FIXED, -1, 0);
	return p == MAP_FAILED ? -errno : 0;
}

static void drop(struct vcuda_windows *w, struct window *window)
{
	for (struct window **at = &w->first; *at; at = &(*at)->next) {
		if (*at != window)
			continue;
		*at = window->next;
		if (window->file >= 0)
			close(window->file);
		free(window);
		return;
	}
}

/* Undoes a window. If even that fails (no memory for the kernel) the pages must not be given back: the session has to
 * end. */
static int remove_window(struct vcuda_windows *w, struct window *window)
{
	int err = unmap_range(window->address, window->mapped);

	if (err)
		return err;
	drop(w, window);
	return 0;
}

static int new_window(struct vcuda_windows *w, uint64_t address, uint64_t length, bool writable, struct window **window)
{
	if (!length || (address | length) & 4095)
		return -EINVAL;
	if (!in_reserved(w, address, length))
		return -EADDRNOTAVAIL;
	if (overlapping(w, address, length))
		return -EEXIST;
	*window = calloc(1, sizeof(**window));
	if (!*window)
		return -ENOMEM;
	**window = (struct window){
		.address = address, .length = length, .writable = writable, .file = -1, .next = w->first};
	w->first = *window;
	return 0;
}

static int map_extents(struct window *window, const struct vcuda_window_extent *extents, unsigned int count)
{
	int prot = window->writable ? PROT_READ | PROT_WRITE : PROT_READ;

	for (unsigned int i = 0; i < count; i++) {
		const struct vcuda_window_extent *e = &extents[i];

		if (!e->length || (e->length | e->offset) & 4095 || e->length > window->length - window->mapped)
			return -EINVAL;
		if (mmap((void *)(window->address + window->mapped), e->length, prot, MAP_SHARED | MAP_FIXED, e->fd,
			 (off_t)e->offset) == MAP_FAILED)
			return -errno;
		window->mapped += e->length;
	}
	return 0;
}

static int map_part(struct vcuda_windows *w, uint64_t address, uint64_t length, uint64_t offset, bool writable,
		    bool last, const struct vcuda_window_extent *extents, unsigned int count)
{
	struct window *window = NULL;
	int err;

	if (offset == 0) {
		err = new_window(w, address, length, writable, &window);
		if (err)
			return err;
	} else {
		window = overlapping(w, address, 1);
		if (!window || window->address != address || window->length != length || window->complete ||
		    window->mapped != offset)
			return -EINVAL;
	}
	err = map_extents(window, extents, count);
	if (!err && last && window->mapped != window->length)
		err = -EINVAL;
	if (err) {
		remove_window(w, window);
		return err;
	}
	window->complete = last;
	if (w->nested && last && !offset && count == 1)
		window->file = fcntl(extents->fd, F_DUPFD_CLOEXEC, 0);
	return 0;
}

int vcuda_window_map(struct vcuda_windows *w, uint64_t address, uint64_t length, uint64_t offset, bool writable,
		     bool last, const struct vcuda_window_extent *extents, unsigned int count)
{
	int err;

	pthread_mutex_lock(&w->lock);
	err = map_part(w, address, length, offset, writable, last, extents, count);
	pthread_mutex_unlock(&w->lock);
	return err;
}

int vcuda_window_unmap(struct vcuda_windows *w, uint64_t address, uint64_t length)
{
	struct window *window;
	int err = -ENOENT;

	pthread_mutex_lock(&w->lock);
	window = overlapping(w, address, 1);
	if (window && window->address == address && window->length == length)
		err = window->held ? -EBUSY : remove_window(w, window);
	pthread_mutex_unlock(&w->lock);
	return err;
}

/* The complete window over [p, p + bytes), or NULL. The caller holds the lock. */
static struct window *covering(const struct vcuda_windows *w, const void *p, uint64_t bytes, bool writable)
{
	uint64_t address = (uint64_t)(uintptr_t)p;
	struct window *window = overlapping(w, address, 1);

	if (!window || !window->complete || (writable && !window->writable))
		return NULL;
	return bytes <= window->length - (address - window->address) ? window : NULL;
}

bool vcuda_window_covers(struct vcuda_windows *w, const void *p, uint64_t bytes, bool writable)
{
	bool covers;

	pthread_mutex_lock(&w->lock);
	covers = covering(w, p, bytes, writable);
	pthread_mutex_unlock(&w->lock);
	return covers;
}

bool vcuda_window_hold(struct vcuda_windows *w, const void *p, uint64_t bytes, bool writable)
{
	struct window *window;

	pthread_mutex_lock(&w->lock);
	window = covering(w, p, bytes, writable);
	if (window)
		window->held++;
	pthread_mutex_unlock(&w->lock);
	return window;
}

void vcuda_window_release(struct vcuda_windows *w, const void *p)
{
	struct window *window;

	pthread_mutex_lock(&w->lock);
	window = overlapping(w, (uint64_t)(uintptr_t)p, 1);
	if (window && window->held)
		window->held--;
	pthread_mutex_unlock(&w->lock);
}
