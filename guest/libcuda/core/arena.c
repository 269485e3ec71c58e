/* SPDX-License-Identifier: Apache-2.0 */
#include "core/arena.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/log.h"

/* Large allocations start here, so that huge pages can back them. */
#define HUGE_PAGE (2u << 20)

/* Free address space, sorted, no two neighbours touch. */
struct extent {
	uint64_t start, length;
	struct extent *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct extent *free_extents;
static bool kept[VCUDA_ADDRESS_RANGES]; /* the host's address ranges that are reserved here */

static bool reserve(uint64_t start, uint64_t length)
{
	void *p;

	if (!length)
		return false;
	p = mmap((void *)start, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
		 -1, 0);
	if (p == MAP_FAILED)
		return false;
	if ((uint64_t)p == start)
		return true;
	/* A kernel that does not know FIXED_NOREPLACE takes the address as a hint. */
	munmap(p, length);
	return false;
}

/* There, or in as much address space behind that, where hosts since minor 1 take mappings as well. */
static bool reserve_arena(const vcuda_host_info *host)
{
	for (unsigned int i = 0; i < (host->minor ? 2 : 1); i++) {
		uint64_t start = host->arena_start + i * host->arena_length;

		if (reserve(start, host->arena_length)) {
			libcuda_arena_give((void *)start, host->arena_length);
			return true;
		}
	}
	return false;
}

void libcuda_arena_reserve(const vcuda_host_info *host)
{
	static bool done;

	/* A cuInit that failed later on may be tried again. */
	if (done)
		return;
	done = true;
	for (uint32_t i = 0; i < host->range_count; i++) {
		const struct vcuda_address_range *r = &host->ranges[i];

		kept[i] = reserve(r->start, r->length);
		if (!kept[i])
			vcuda_log("address range 0x%llx-0x%llx, where device memory lies, is not free in this process",
				  (unsigned long long)r->start, (unsigned long long)(r->start + r->length));
	}
	if (!reserve_arena(host))
		vcuda_log("address range 0x%llx-0x%llx is not free in this process (or `ulimit -v` is set): no pinned "
			  "memory",
			  (unsigned long long)host->arena_start,
			  (unsigned long long)(host->arena_start + host->arena_length));
}

bool libcuda_arena_is_reserved(uint64_t start, uint64_t end)
{
	for (uint32_t i = 0; i < libcuda_host.range_count; i++) {
		const struct vcuda_address_range *r = &libcuda_host.ranges[i];

		if (kept[i] && start >= r->start && start < end && end - r->start <= r->length)
			return true;
	}
	return false;
}

int libcuda_arena_take(size_t bytes, void **address)
{
	uint64_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : 4096;
	struct extent *tail = calloc(1, sizeof(*tail));
	int err = -ENOMEM;

	pthread_mutex_lock(&lock);
	for (struct extent **at = &free_extents, *e; tail && (e = *at); at = &e->next) {
		uint64_t start = (e->start + align - 1) & ~(align - 1), skipped = start - e->start;

		if (skipped > e->length || e->length - skipped < bytes)
			continue;
		*address = (void *)start;
		*tail = (struct extent){start + bytes, e->length - skipped - bytes, e->next};
		e->length = skipped;
		e->next = tail;
		if (!tail->length) {
			e->next = tail->next;
			free(tail);
		}
		if (!e->length) {
			*at = e->next;
			free(e);
		}
		tail = NULL;
		err = 0;
		break;
	}
	pthread_mutex_unlock(&lock);
	free(tail);
	return err;
}

void libcuda_arena_give(void *address, size_t bytes)
{
	uint64_t start = (uintptr_t)address;
	struct extent *before = NULL, *after, *e = calloc(1, sizeof(*e));

	/* Without memory for the list the address space is lost, nothing else. */
	if (!e)
		return;
	pthread_mutex_lock(&lock);
	for (after = free_extents; after && after->start < start; after = after->next)
		before = after;
	*e = (struct extent){start, bytes, after};
	if (before)
		before->next = e;
	else
		free_extents = e;
	if (after && start + bytes == after->start) {
		e->length += after->length;
		e->next = after->next;
		free(after);
	}
	if (before && before->start + before->length == start) {
		before->length += e->length;
		before->next = e->next;
		free(e);
	}
	pthread_mutex_unlock(&lock);
}
