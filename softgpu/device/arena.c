/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First fit over a sorted list of free spans, below a mark. The mark only moves when the space behind it is all free.
 * The pages below `writable` are readable and writable whether allocated or not: the table in memory.c decides which
 * memory a kernel or a copy may touch.
 */
#include "device/arena.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend-cpu.h"
#include "device/device.h"
#include "device/ipc.h"
#include "common/log.h"

#define GRAIN 512u
#define PAGE 4096u
#define HUGE (2u << 20)
#define WRITABLE_STEP (64u << 20)

struct span {
	uint64_t start, end;
};

static uint64_t base, limit; /* the reservation */
static uint64_t top;         /* all beyond is free */
static uint64_t writable;    /* the end of writable memory, from the first huge page on; grows, read without the lock */
static struct span *spans; /* free, sorted, not adjacent, below top */
static size_t span_count, span_capacity;

static uint64_t round_up(uint64_t n, uint64_t step)
{
	return (n + step - 1) / step * step;
}

static bool reserve_at(uint64_t start, uint64_t length)
{
	/*
	 * A hint is taken where the place is free, and a sanitizer can refuse it; MAP_FIXED_NOREPLACE would not let it.
	 */
	void *p = mmap((void *)(uintptr_t)start, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return false;
	if (start && (uint64_t)(uintptr_t)p != start) {
		munmap(p, length);
		return false;
	}
	base = (uint64_t)(uintptr_t)p;
	limit = base + length;
	writable = round_up(base, HUGE);
	/* A GPU keeps memory of its own below a program's first allocation; see VCUDA_CPU_BOUNDS. */
	top = writable + HUGE / 2;
	return true;
}

static void reserve(void)
{
	/* The guest reserves the same addresses. The later places are for processes in which the first one is taken. */
	static const uint64_t places[] = {0x100000000000, 0x300000000000, 0x180000000000, 0x4000000000, 0};
	uint64_t memory = softgpu_device()->memory * softgpu_device()->count;
	uint64_t roomy = memory * 4, enough = memory + memory / 4 + (1u << 30);

	roomy = round_up(roomy, 1u << 30);
	enough = round_up(enough, 1u << 30);
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		if (reserve_at(places[i], roomy) || reserve_at(places[i], enough))
			return;
	}
	vcuda_log(
		"cannot reserve %llu GiB of address space for device memory: %s; raise the limit (ulimit -v) or lower "
		"VCUDA_CPU_MEMORY",
		(unsigned long long)(enough >> 30), strerror(errno));
}

void softgpu_arena_range(uint64_t *start, uint64_t *length)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, reserve);
	*start = base;
	*length = limit - base;
}

__attribute__((visibility("default"))) void vcuda_cpu_address_range(uint64_t *start, uint64_t *length)
{
	softgpu_arena_range(start, length);
}

bool softgpu_arena_is_readable(uint64_t start, uint64_t bytes)
{
	uint64_t end;

	return start >= round_up(base, HUGE) && !__builtin_add_overflow(start, bytes, &end) &&
	       end <= __atomic_load_n(&writable, __ATOMIC_RELAXED);
}

/* Large memory starts on huge pages, so that the first touch of it is cheap. */
static uint64_t alignment(uint64_t bytes, bool dense)
{
	return bytes >= HUGE && !dense ? HUGE : bytes >= 16 * PAGE ? PAGE : GRAIN;
}

/*
 * The offset of an allocation in its huge page. Arrays that all begin on huge pages put the data that a kernel uses at
 * one time into the same cache sets. Measured: on a Xeon with a second-level cache of 2 MiB, a triad of 16 Mi elements
 * takes 14 ms instead of 23. Blocks side by side use 16 KiB of each array (ptx-warp-loop.c): 6.0 ms on an EPYC with 4
 * threads, instead of 6.5 with an offset of one page.
 */
static uint64_t stagger(uint64_t bytes, bool dense)
{
	static unsigned int count;

	return bytes >= HUGE && !dense ? count++ % 8 * 4 * PAGE : 0;
}

static uint64_t place(uint64_t from, uint64_t align, uint64_t offset)
{
	return round_up(from, align) + offset;
}

uint64_t softgpu_arena_slot(uint64_t bytes)
{
	return round_up(bytes + GRAIN, bytes >= 16 * PAGE ? PAGE : GRAIN);
}

static bool grow_spans(void)
{
	size_t capacity = span_capacity ? span_capacity * 2 : 64;
	struct span *bigger;

	if (span_count + 1 < span_capacity)
		return true;
	bigger = realloc(spans, capacity * sizeof(*spans));
	if (!bigger)
		return false;
	spans = bigger;
	span_capacity = capacity;
	return true;
}

static void insert_span(size_t i, uint64_t start, uint64_t end)
{
	memmove(&spans[i + 1], &spans[i], (span_count - i) * sizeof(*spans));
	spans[i] = (struct span){start, end};
	span_count++;
}

static void remove_span(size_t i)
{
	span_count--;
	memmove(&spans[i], &spans[i + 1], (span_count - i) * sizeof(*spans));
}

/* Takes [start, end) out of span i. There is room for one more span. */
static void take(size_t i, uint64_t start, uint64_t end)
{
	struct span old = spans[i];

	if (old.start < start && end < old.end) {
		spans[i].end = start;
		insert_span(i + 1, end, old.end);
	} else if (old.start < start) {
		spans[i].end = start;
	} else if (end < old.end) {
		spans[i].start = end;
	} else {
		remove_span(i);
	}
}

static bool make_writable(uint64_t end)
{
	uint64_t want = round_up(end, WRITABLE_STEP);

	if (end <= writable)
		return true;
	if (want > limit)
		want = limit / PAGE * PAGE;
	if (mprotect((void *)(uintptr_t)writable, want - writable, PROT_READ | PROT_WRITE))
		return false;
	/* Advice only: without huge pages all works, slower. */
	madvise((void *)(uintptr_t)writable, want - writable, MADV_HUGEPAGE);
	__atomic_store_n(&writable, want, __ATOMIC_RELAXED);
	return true;
}

uint64_t softgpu_arena_alloc(uint64_t bytes, bool dense)
{
	uint64_t slot = softgpu_arena_slot(bytes), align = alignment(bytes, dense), offset = stagger(bytes, dense);
	uint64_t start, unused, length;

	softgpu_arena_range(&unused, &length);
	if (length == 0 || !grow_spans())
		return 0;
	for (size_t i = 0; i < span_count; i++) {
		start = place(spans[i].start, align, offset);
		if (start <= spans[i].end && spans[i].end - start >= slot) {
			take(i, start, start + slot);
			return start;
		}
	}
	start = place(top, align, offset);
	if (start > limit || limit - start < slot || !make_writable(start + slot))
		return 0;
	if (start > top)
		insert_span(span_count, top, start);
	top = start + slot;
	return start;
}

static void discard(uint64_t start, uint64_t end)
{
	if (start >= end)
		return;
	/* Spans of more than 16 pages hold no page that a small allocation shares. */
	if (end - start <= 16 * PAGE)
		softgpu_ipc_unshare(start, end);
	madvise((void *)(uintptr_t)start, end - start, MADV_DONTNEED);
}

void softgpu_arena_discard(uint64_t address, uint64_t bytes)
{
	discard(round_up(address, PAGE), (address + softgpu_arena_slot(bytes)) / PAGE * PAGE);
}

/* Whether no allocation has a part of the page. Beyond the top there are no allocations. */
static bool is_free(uint64_t page, const struct span *free_span)
{
	return page >= free_span->start &&
	       page + PAGE <= (free_span->end == top ? round_up(top, PAGE) : free_span->end);
}

/*
 * The first and the last page of a small allocation may be shared with neighbours; a page is discarded once all of it
 * is free.
 */
static void discard_edges(uint64_t start, uint64_t end, const struct span *free_span)
{
	uint64_t first = start / PAGE * PAGE, last = end / PAGE * PAGE;

	if ((first < start || end < first + PAGE) && is_free(first, free_span))
		discard(first, first + PAGE);
	if (last < end && last != first && is_free(last, free_span))
		discard(last, last + PAGE);
}

void softgpu_arena_free(uint64_t address, uint64_t bytes)
{
	uint64_t start = address, end = address + softgpu_arena_slot(bytes);
	size_t i = 0, high = span_count;

	while (i < high) { /* the first span behind it */
		size_t middle = (i + high) / 2;

		if (spans[middle].start < start)
			i = middle + 1;
		else
			high = middle;
	}
	if (i < span_count && spans[i].start == end) {
		end = spans[i].end;
		remove_span(i);
	}
	if (i > 0 && spans[i - 1].end == start) {
		spans[i - 1].end = end;
		i--;
	} else {
		/* Without memory for the list, only the addresses are lost. */
		if (!grow_spans())
			return;
		insert_span(i, start, end);
	}
	discard_edges(address, address + softgpu_arena_slot(bytes), &spans[i]);
	if (spans[i].end == top) {
		top = spans[i].start;
		remove_span(i);
	}
}
