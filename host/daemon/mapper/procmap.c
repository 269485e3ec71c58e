/* SPDX-License-Identifier: Apache-2.0 */
#include "mapper/procmap.h"

#include <errno.h>
#include <sys/ioctl.h>

/* linux/fs.h has these definitions, and may be older than the kernel. */
struct procmap_query {
	uint64_t size, query_flags, query_addr;
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
	uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};

#define QUERY _IOWR('f', 17, struct procmap_query)
#define QUERY_COVERING_OR_NEXT 0x10
#define QUERY_OF_FILE 0x20

static bool read_all(FILE *maps, uint64_t address, uint64_t length)
{
	unsigned long long start, end, inode;
	char line[4096 + 128];
	bool any = false;

	rewind(maps);
	while (fgets(line, sizeof(line), maps)) {
		any = true;
		if (sscanf(line, "%llx-%llx %*s %*x %*x:%*x %llu", &start, &end, &inode) != 3)
			return false;
		if (start >= address + length)
			return true;
		if (end > address && inode)
			return false;
	}
	/* A process that has ended has no line. */
	return any && !ferror(maps);
}

bool daemon_procmap_has_no_file(FILE *maps, uint64_t address, uint64_t length)
{
	struct procmap_query query = {
		.size = sizeof(query), .query_flags = QUERY_COVERING_OR_NEXT | QUERY_OF_FILE, .query_addr = address};

	if (!ioctl(fileno(maps), QUERY, &query))
		return query.vma_start >= address + length;
	return errno == ENOENT || (errno == ENOTTY && read_all(maps, address, length));
}
