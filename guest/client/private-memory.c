/* SPDX-License-Identifier: Apache-2.0 */
#include "private-memory.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "proc-maps.h"

int client_private_memory_check(const void *address, size_t bytes, bool writable)
{
	uint64_t at = (uintptr_t)address, end = at + bytes;
	FILE *maps = client_proc_maps_open();
	int result = maps ? 0 : -EOPNOTSUPP;
	struct client_proc_map m;

	while (maps && at < end && client_proc_maps_next(maps, &m)) {
		if (m.to <= at)
			continue;
		if (m.from > at || m.prot[0] != 'r' || (writable && m.prot[1] != 'w'))
			break;
		/* A stack that runs while its pages are exchanged loses what it writes; this one is where `m` is. */
		if (m.prot[3] != 'p' || m.inode || !strcmp(m.name, "[stack]") || (uintptr_t)&m - m.from < m.to - m.from)
			result = -EOPNOTSUPP;
		at = m.to;
	}
	if (maps)
		fclose(maps);
	return maps && at < end ? -EFAULT : result;
}

/* Moves the pages at `from` over the range in one step: no other thread ever sees it unmapped. */
static int move_over(void *from, void *address, size_t bytes)
{
	int err;

	if (mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, address) != MAP_FAILED)
		return 0;
	err = -errno;
	munmap(from, bytes);
	return err;
}

int client_private_memory_share(void *address, size_t bytes, int memfd)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);

	if (p == MAP_FAILED)
		return -errno;
	memcpy(p, address, bytes);
	return move_over(p, address, bytes);
}

int client_private_memory_restore(void *address, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	memcpy(p, address, bytes);
	return move_over(p, address, bytes);
}
