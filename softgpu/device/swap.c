/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory in a file, while a worker is paused and has released its memory. Memory that other processes may have
 * open stays where it is. Pages of zeroes are in no file: they come back as the zeroes of new memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend-cpu.h"
#include "device/arena.h"
#include "device/device.h"
#include "device/ipc.h"
#include "device/memory.h"
#include "device/schedule.h"

#define PAGE 4096u

/* Pages that lie side by side, and their place in the file. */
struct piece {
	uint64_t address, bytes, offset;
};

/* With the scheduler's lock. */
static struct {
	struct piece *pieces;
	size_t count, capacity;
	uint64_t bytes; /* of the file */
	int fd;         /* -1: the memory is in its place */
} swap = {.fd = -1};

/* ---- the pages ---- */

struct pages {
	uint64_t start, end;
	bool mapped; /* mapped from a file in memory (vmm.c) */
};

static bool can_leave(const struct softgpu_range *r, const struct pages *p)
{
	uint64_t arena, length;

	softgpu_arena_range(&arena, &length);
	if (p->start < arena || p->end > arena + length || r->kind == SOFTGPU_HOST || r->kind == SOFTGPU_IMPORTED)
		return false;
	return p->mapped ? !softgpu_mapped_is_shared(r->start) : !softgpu_ipc_is_shared(p->start, p->end);
}

/* Sets `p` to the next pages behind those in `p` that can leave; {0} begins. False: there are no more. */
static bool next_pages(struct pages *p)
{
	const struct softgpu_range *r = softgpu_range_behind(p->end);
	uint64_t before = p->end;

	for (; r; r = softgpu_range_behind(r->start + r->size)) {
		p->start = r->start / PAGE * PAGE;
		p->start = p->start < before ? before : p->start;
		p->end = (r->start + r->size + PAGE - 1) / PAGE * PAGE;
		p->mapped = r->kind == SOFTGPU_MAPPED;
		if (p->start < p->end && can_leave(r, p))
			return true;
	}
	return false;
}

/* ---- the file ---- */

static bool is_zero(uint64_t page)
{
	const char *bytes = (const char *)(uintptr_t)page;

	return !*bytes && !memcmp(bytes, bytes + 1, PAGE - 1);
}

static bool note(uint64_t page)
{
	struct piece *last = swap.count ? &swap.pieces[swap.count - 1] : NULL, *more;
	size_t capacity = swap.capacity ? 2 * swap.capacity : 256;

	if (last && last->address + last->bytes == page) {
		last->bytes += PAGE;
		swap.bytes += PAGE;
		return true;
	}
	if (swap.count == swap.capacity) {
		more = realloc(swap.pieces, capacity * sizeof(*more));
		if (!more)
			return false;
		swap.pieces = more;
		swap.capacity = capacity;
	}
	swap.pieces[swap.count++] = (struct piece){page, PAGE, swap.bytes};
	swap.bytes += PAGE;
	return true;
}

static int transfer(const struct piece *piece, int fd, bool out)
{
	char *data = (char *)(uintptr_t)piece->address;

	for (uint64_t done = 0; done < piece->bytes;) {
		off_t offset = (off_t)(piece->offset + done);
		ssize_t n = out ? pwrite(fd, data + done, piece->bytes - done, offset)
				: pread(fd, data + done, piece->bytes - done, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		done += (uint64_t)n;
	}
	return 0;
}

static int transfer_all(int fd, bool out)
{
	int status = 0;

	for (size_t i = 0; i < swap.count && !status; i++)
		status = transfer(&swap.pieces[i], fd, out);
	return status;
}

static void forget(void)
{
	free(swap.pieces);
	swap.pieces = NULL;
	swap.count = swap.capacity = 0;
	swap.bytes = 0;
}

/* To read a page of a file that has no contents yet would give it memory. */
static bool note_pages(const struct pages *p)
{
	uint64_t page = p->start;

	for (; (page = p->mapped ? softgpu_mapped_data(page) : page) < p->end; page += PAGE)
		if (!is_zero(page) && !note(page))
			return false;
	return true;
}

static int save(int fd)
{
	struct pages p = {0};

	while (next_pages(&p))
		if (!note_pages(&p))
			return -ENOMEM;
	return transfer_all(fd, true);
}

static void discard(void)
{
	struct pages p = {0};

	/* A page that the kernel keeps has its contents still, which come back from the file as well. */
	while (next_pages(&p))
		madvise((void *)(uintptr_t)p.start, p.end - p.start, p.mapped ? MADV_REMOVE : MADV_DONTNEED);
}

__attribute__((visibility("default"))) int vcuda_cpu_release(int fd)
{
	int status = -EALREADY;

	softgpu_lock();
	if (swap.fd < 0)
		status = save(fd);
	if (!status) {
		discard();
		swap.fd = fd;
	} else if (swap.fd < 0) {
		forget();
	}
	softgpu_unlock();
	return status;
}

__attribute__((visibility("default"))) int vcuda_cpu_restore(void)
{
	int status = 0;

	softgpu_lock();
	if (swap.fd >= 0)
		status = transfer_all(swap.fd, false);
	if (!status && swap.fd >= 0) {
		close(swap.fd);
		swap.fd = -1;
		forget();
	}
	softgpu_unlock();
	return status;
}
