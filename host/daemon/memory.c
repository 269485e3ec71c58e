/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "memory.h"

#define DAEMON_PAGE_SHIFT 12
/* The kernel maps the neighbours of a touched page too. */
#define DAEMON_BLOCK_SHIFT 16
#define DAEMON_VIEWED_MAX (4u << 20)

void daemon_memory_init(struct daemon_memory *memory)
{
	unsigned int i;

	*memory = (struct daemon_memory){.page_shift = DAEMON_PAGE_SHIFT};
	for (i = 0; i < DAEMON_MEMORY_REGIONS; i++)
		memory->files[i].fd = -1;
}

static void file_put(struct daemon_memory *memory, unsigned int index)
{
	struct daemon_memory_file *file = &memory->files[index];

	if (--file->regions)
		return;
	close(file->fd);
	if (file->read_only >= 0)
		close(file->read_only);
	file->fd = file->read_only = -1;
}

/* Fails where the file is another user's. */
static int open_read_only(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Takes fd. There are as many places as regions, so a place is free. */
static unsigned int file_get(struct daemon_memory *memory, int fd, const struct stat *stat)
{
	unsigned int i, place = 0;

	for (i = 0; i < DAEMON_MEMORY_REGIONS; i++) {
		struct daemon_memory_file *file = &memory->files[i];

		if (file->fd < 0) {
			place = i;
		} else if (file->device == stat->st_dev && file->inode == stat->st_ino) {
			close(fd);
			file->regions++;
			return i;
		}
	}
	memory->files[place] = (struct daemon_memory_file){
		.fd = fd, .read_only = open_read_only(fd), .regions = 1, .device = stat->st_dev, .inode = stat->st_ino};
	return place;
}

static void region_unmap(struct daemon_memory *memory, struct daemon_memory_region *region)
{
	munmap(region->map, region->map_size);
	file_put(memory, region->file);
}

void daemon_memory_clear(struct daemon_memory *memory)
{
	while (memory->count)
		region_unmap(memory, &memory->regions[--memory->count]);
	memory->page_shift = DAEMON_PAGE_SHIFT;
	memory->viewed = 0;
}

static bool overlap(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
	return a < b + b_size && b < a + a_size;
}

static int check_region(const struct daemon_memory *memory, uint64_t gpa, uint64_t size, uint64_t user,
			uint64_t file_offset, uint64_t file_size)
{
	uint64_t end;
	unsigned int i;

	if (memory->count == DAEMON_MEMORY_REGIONS)
		return -ENOSPC;
	if (!size || __builtin_add_overflow(gpa, size, &end) || __builtin_add_overflow(user, size, &end) ||
	    __builtin_add_overflow(file_offset, size, &end) || end > file_size)
		return -EINVAL;
	for (i = 0; i < memory->count; i++) {
		const struct daemon_memory_region *other = &memory->regions[i];

		if (overlap(gpa, size, other->gpa, other->size) || overlap(user, size, other->user, other->size))
			return -EINVAL;
	}
	return 0;
}

int daemon_memory_add(struct daemon_memory *memory, uint64_t gpa, uint64_t size, uint64_t user, uint64_t file_offset,
		      int fd)
{
	struct daemon_memory_region *region;
	struct statfs fs;
	struct stat stat;
	uint64_t page, slack;
	size_t map_size;
	void *map;
	int status;

	status = fstat(fd, &stat) || fstatfs(fd, &fs) ? -errno : 0;
	if (!status)
		status = check_region(memory, gpa, size, user, file_offset, (uint64_t)stat.st_size);
	if (status)
		goto close;
	page = fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)fs.f_bsize : 1u << DAEMON_PAGE_SHIFT;
	if (page < 1u << DAEMON_PAGE_SHIFT || page & (page - 1)) {
		status = -EINVAL;
		goto close;
	}
	slack = file_offset & (page - 1);
	map_size = (slack + size + page - 1) & ~(page - 1);
	map = mmap(NULL, map_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
		   (off_t)(file_offset - slack));
	if (map == MAP_FAILED) {
		status = -errno;
		goto close;
	}
	/* Small steps, and no guest memory in a core dump. */
	madvise(map, map_size, MADV_NOHUGEPAGE);
	madvise(map, map_size, MADV_DONTDUMP);
	if ((unsigned int)__builtin_ctzll(page) > memory->page_shift)
		memory->page_shift = (unsigned int)__builtin_ctzll(page);
	region = &memory->regions[memory->count++];
	*region = (struct daemon_memory_region){.gpa = gpa,
						.size = size,
						.user = user,
						.file_offset = file_offset,
						.file = file_get(memory, fd, &stat),
						.view = (uint8_t *)map + slack,
						.map = map,
						.map_size = map_size};
	return 0;
close:
	close(fd);
	return status;
}

int daemon_memory_remove(struct daemon_memory *memory, uint64_t gpa, uint64_t size, uint64_t user)
{
	unsigned int i;

	for (i = 0; i < memory->count; i++) {
		struct daemon_memory_region *region = &memory->regions[i];

		if (region->gpa != gpa || region->size != size || region->user != user)
			continue;
		region_unmap(memory, region);
		*region = memory->regions[--memory->count];
		return 0;
	}
	return -ENOENT;
}

uint64_t daemon_memory_bytes(const struct daemon_memory *memory)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < memory->count; i++)
		bytes += memory->regions[i].size;
	return bytes;
}

const struct daemon_memory_region *daemon_memory_find(const struct daemon_memory *memory, uint64_t gpa)
{
	unsigned int i;

	for (i = 0; i < memory->count; i++)
		if (gpa - memory->regions[i].gpa < memory->regions[i].size)
			return &memory->regions[i];
	return NULL;
}

void *daemon_memory_from_user(const struct daemon_memory *memory, uint64_t user, uint64_t bytes)
{
	unsigned int i;

	for (i = 0; i < memory->count; i++) {
		const struct daemon_memory_region *region = &memory->regions[i];
		uint64_t offset = user - region->user;

		if (offset < region->size && bytes <= region->size - offset)
			return region->view + offset;
	}
	return NULL;
}

/* Our address of gpa, and in *bytes how much of it there is in this region. */
static void *view(struct daemon_memory *memory, uint64_t gpa, size_t *bytes)
{
	const struct daemon_memory_region *region = daemon_memory_find(memory, gpa);
	uint64_t offset, block = (gpa >> DAEMON_BLOCK_SHIFT) + 1;

	if (!region)
		return NULL;
	offset = gpa - region->gpa;
	if (*bytes > region->size - offset)
		*bytes = region->size - offset;
	if (memory->seen[block % DAEMON_MEMORY_SEEN] != block) {
		memory->seen[block % DAEMON_MEMORY_SEEN] = block;
		memory->viewed += 1u << DAEMON_BLOCK_SHIFT;
	}
	return region->view + offset;
}

bool daemon_memory_read(struct daemon_memory *memory, void *to, uint64_t gpa, size_t bytes)
{
	while (bytes) {
		size_t part = bytes;
		const void *from = view(memory, gpa, &part);

		if (!from)
			return false;
		memcpy(to, from, part);
		to = (char *)to + part;
		gpa += part;
		bytes -= part;
	}
	return true;
}

bool daemon_memory_write(struct daemon_memory *memory, uint64_t gpa, const void *from, size_t bytes)
{
	while (bytes) {
		size_t part = bytes;
		void *to = view(memory, gpa, &part);

		if (!to)
			return false;
		memcpy(to, from, part);
		from = (const char *)from + part;
		gpa += part;
		bytes -= part;
	}
	return true;
}

void daemon_memory_trim(struct daemon_memory *memory)
{
	unsigned int i;

	if (memory->viewed < DAEMON_VIEWED_MAX)
		return;
	memory->viewed = 0;
	memset(memory->seen, 0, sizeof(memory->seen));
	for (i = 0; i < memory->count; i++)
		madvise(memory->regions[i].map, memory->regions[i].map_size, MADV_DONTNEED);
}
