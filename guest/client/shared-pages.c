/* SPDX-License-Identifier: Apache-2.0 */
#include "shared-pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define RW (PROT_READ | PROT_WRITE)

static uint64_t snapshot[CLIENT_SHARED_PART / sizeof(uint64_t)];

/* The place of a second mapping of the new pages. */
static uint8_t place[CLIENT_SHARED_PART] __attribute__((aligned(CLIENT_SHARED_PART)));

/*
 * A second mapping of the old pages; between two uses, as much address space, since the process may have no more of
 * that when it needs it again.
 */
static struct {
	void *at; /* NULL: none */
	size_t bytes;
} old;

/* Other threads wrote to the old pages after the copy was made. */
static void carry_over(_Atomic uint64_t *at, const volatile uint64_t *from, size_t bytes)
{
	for (size_t i = 0; i < bytes / sizeof(*from); i++) {
		uint64_t expected = snapshot[i], now = from[i];

		if (now != expected)
			atomic_compare_exchange_strong(&at[i], &expected, now);
	}
}

/* Pages that cannot be had give an error here, and not a signal when they are written to. */
static int take_pages(int file, uint64_t offset, size_t bytes)
{
	int err;

	do {
		err = fallocate(file, 0, (off_t)offset, (off_t)bytes) ? -errno : 0;
	} while (err == -EINTR);
	return err;
}

static int map(void *at, size_t bytes, int file, uint64_t offset)
{
	return mmap(at, bytes, RW, MAP_SHARED | MAP_FIXED, file, (off_t)offset) == MAP_FAILED ? -errno : 0;
}

static void drop_old(void)
{
	if (old.at)
		munmap(old.at, old.bytes);
	old.at = NULL;
}

static int map_old(void *address, size_t bytes)
{
	void *at;

	drop_old();
	at = mremap(address, 0, bytes, MREMAP_MAYMOVE);
	if (at == MAP_FAILED)
		return -errno;
	old.at = at;
	old.bytes = bytes;
	return 0;
}

int client_shared_pages_replace(void *address, size_t bytes, int file, uint64_t offset, bool forks)
{
	int err = take_pages(file, offset, bytes);

	if (!err)
		err = map(place, bytes, file, offset);
	if (!err)
		err = map_old(address, bytes);
	if (err)
		return err;
	memcpy(snapshot, old.at, bytes);
	memcpy(place, snapshot, bytes);
	/* In one step: no thread ever sees the memory unmapped. */
	err = map(address, bytes, file, offset);
	if (err)
		return err;
	if (!forks)
		madvise(address, bytes, MADV_DONTFORK);
	carry_over(address, old.at, bytes);
	return 0;
}

void client_shared_pages_end(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	void *at;

	mmap(place, sizeof(place), RW, flags | MAP_FIXED, -1, 0);
	drop_old();
	at = mmap(NULL, CLIENT_SHARED_PART, PROT_NONE, flags | MAP_NORESERVE, -1, 0);
	old.at = at == MAP_FAILED ? NULL : at;
	old.bytes = CLIENT_SHARED_PART;
}
