/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/range.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "memory/allocation.h"
#include "memory/host-pool.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct libcuda_range **table; /* by start */
static size_t used, room;
static uint64_t ids;
static struct libcuda_claim *claims;

/* The first place whose range starts past `address`. */
static size_t place_after(uint64_t address)
{
	size_t low = 0, high = used;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (table[middle]->start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct libcuda_range *find_locked(uint64_t address)
{
	size_t i = place_after(address);

	return i && address - table[i - 1]->start < table[i - 1]->bytes ? table[i - 1] : NULL;
}

static void take_out(size_t i)
{
	free(table[i]);
	used--;
	memmove(&table[i], &table[i + 1], (used - i) * sizeof(table[0]));
}

static bool add_locked(const struct libcuda_range *range)
{
	size_t i = place_after(range->start);
	struct libcuda_range *copy;

	if (i && table[i - 1]->start == range->start)
		take_out(--i);
	if (used == room) {
		size_t more = room ? 2 * room : 64;
		struct libcuda_range **larger = realloc(table, more * sizeof(table[0]));

		if (!larger)
			return false;
		table = larger;
		room = more;
	}
	copy = malloc(sizeof(*copy));
	if (!copy)
		return false;
	*copy = *range;
	copy->id = ++ids;
	memmove(&table[i + 1], &table[i], (used - i) * sizeof(table[0]));
	table[i] = copy;
	used++;
	return true;
}

bool libcuda_range_add(const struct libcuda_range *range)
{
	bool done;

	pthread_rwlock_wrlock(&lock);
	done = add_locked(range);
	pthread_rwlock_unlock(&lock);
	return done;
}

bool libcuda_range_find(uint64_t address, struct libcuda_range *range)
{
	struct libcuda_range *found;

	pthread_rwlock_rdlock(&lock);
	found = find_locked(address);
	if (found)
		*range = *found;
	pthread_rwlock_unlock(&lock);
	return found;
}

static bool overlaps(uint64_t start, uint64_t bytes, uint64_t other, uint64_t other_bytes)
{
	return start < other + other_bytes && other < start + bytes;
}

static bool is_claimed(const struct libcuda_claim *claim)
{
	for (const struct libcuda_claim *c = claims; c; c = c->next)
		if (overlaps(claim->start, claim->bytes, c->start, c->bytes))
			return true;
	return false;
}

static bool is_in_table(const struct libcuda_claim *claim, bool pages)
{
	for (size_t i = place_after(claim->start + claim->bytes); i; i--) {
		const struct libcuda_range *r = table[i - 1];

		if (r->start + r->bytes + 4096 <= claim->start)
			return false;
		if (!(r->kind & LIBCUDA_RANGE_ON_HOST))
			continue;
		if (pages ? overlaps(claim->start, claim->bytes, r->mapping, r->mapping_bytes)
			  : overlaps(claim->start, claim->bytes, r->start, r->bytes))
			return true;
	}
	return false;
}

bool libcuda_range_claim(struct libcuda_claim *claim, bool pages)
{
	bool free;

	pthread_rwlock_wrlock(&lock);
	free = !is_claimed(claim) && !is_in_table(claim, pages);
	if (free) {
		claim->next = claims;
		claims = claim;
	}
	pthread_rwlock_unlock(&lock);
	return free;
}

void libcuda_range_unclaim(struct libcuda_claim *claim)
{
	pthread_rwlock_wrlock(&lock);
	for (struct libcuda_claim **at = &claims; *at; at = &(*at)->next)
		if (*at == claim) {
			*at = claim->next;
			break;
		}
	pthread_rwlock_unlock(&lock);
}

bool libcuda_range_remove(uint64_t start, unsigned int kinds, struct libcuda_range *range)
{
	bool found;
	size_t i;

	pthread_rwlock_wrlock(&lock);
	i = place_after(start);
	found = i && table[i - 1]->start == start && table[i - 1]->kind & kinds;
	if (found) {
		*range = *table[i - 1];
		take_out(i - 1);
	}
	pthread_rwlock_unlock(&lock);
	return found;
}

bool libcuda_range_remove_next(struct libcuda_context *context, uint64_t owner, struct libcuda_range *range)
{
	bool found = false;

	pthread_rwlock_wrlock(&lock);
	for (size_t i = used; i && !found; i--) {
		const struct libcuda_range *r = table[i - 1];

		found = context ? r->context == context : r->owner == owner;
		if (found) {
			*range = *r;
			take_out(i - 1);
		}
	}
	pthread_rwlock_unlock(&lock);
	return found;
}

bool libcuda_range_set_sync_memops(uint64_t address, bool on)
{
	struct libcuda_range *r;

	pthread_rwlock_wrlock(&lock);
	r = find_locked(address);
	if (r)
		r->sync_memops = on;
	pthread_rwlock_unlock(&lock);
	return r;
}

bool libcuda_range_set_advice(uint64_t address, const struct libcuda_advice *advice)
{
	struct libcuda_range *r;

	pthread_rwlock_wrlock(&lock);
	r = find_locked(address);
	if (r)
		r->advice = *advice;
	pthread_rwlock_unlock(&lock);
	return r;
}

CUresult libcuda_operand_find(uint64_t address, size_t bytes, enum libcuda_side side, struct libcuda_operand *operand)
{
	struct libcuda_range r;
	bool inside;

	*operand = (struct libcuda_operand){.kind = LIBCUDA_MEMORY_PAGEABLE};
	if (!address || address + bytes < address)
		return CUDA_ERROR_INVALID_VALUE;
	if (!libcuda_range_find(address, &r)) {
		if (libcuda_arena_is_device(address))
			*operand = (struct libcuda_operand){.kind = LIBCUDA_MEMORY_DEVICE, .unsure = true};
		else if (side == LIBCUDA_SIDE_DEVICE)
			return CUDA_ERROR_INVALID_VALUE;
		return CUDA_SUCCESS;
	}
	inside = bytes <= r.bytes - (address - r.start);
	/* The program's own copy, which is made equal before and after. */
	if (r.kind == LIBCUDA_RANGE_MIRROR && side == LIBCUDA_SIDE_HOST)
		return CUDA_SUCCESS;
	if (r.kind == LIBCUDA_RANGE_RESERVED && libcuda_host_mappings_are_open(address, bytes)) {
		operand->kind = LIBCUDA_MEMORY_MAPPED;
		return CUDA_SUCCESS;
	}
	if (r.kind & (LIBCUDA_RANGE_ON_DEVICE | LIBCUDA_RANGE_MIRROR)) {
		operand->kind = LIBCUDA_MEMORY_DEVICE;
		operand->unsure = r.kind == LIBCUDA_RANGE_RESERVED;
		operand->seen = operand->unsure && libcuda_host_mappings_are_seen(address, bytes);
		return inside ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	}
	if (r.kind == LIBCUDA_RANGE_POOLED && side == LIBCUDA_SIDE_DEVICE && !libcuda_host_pool_is_open(&r))
		return CUDA_ERROR_INVALID_VALUE;
	if (inside)
		operand->kind = LIBCUDA_MEMORY_MAPPED;
	return inside || side != LIBCUDA_SIDE_DEVICE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult libcuda_operands_find(struct libcuda_place dst, struct libcuda_place src, size_t bytes,
			       struct libcuda_operand *to, struct libcuda_operand *from)
{
	CUresult result = libcuda_operand_find(dst.address, bytes, dst.side, to);

	return result == CUDA_SUCCESS ? libcuda_operand_find(src.address, bytes, src.side, from) : result;
}
