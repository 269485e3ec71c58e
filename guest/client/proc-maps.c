/* SPDX-License-Identifier: Apache-2.0 */
#include "proc-maps.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

bool client_proc_maps_open(struct client_proc_maps *maps, const void *address)
{
	*maps = (struct client_proc_maps){fopen("/proc/self/maps", "re"), (uintptr_t)address, true};
	return maps->file;
}

void client_proc_maps_close(struct client_proc_maps *maps)
{
	fclose(maps->file);
}

/* ---- questions, as linux/fs.h has them since 6.11 ---- */

struct query {
	uint64_t size, flags, address;
	uint64_t from, to, vma_flags, page_size, offset, inode;
	uint32_t major, minor;
	uint32_t name_bytes, build_id_bytes;
	uint64_t name, build_id;
};

#define QUERY _IOWR('f', 17, struct query)
#define QUERY_OR_NEXT 0x10

#define VMA_READABLE 1u
#define VMA_WRITABLE 2u
#define VMA_EXECUTABLE 4u
#define VMA_SHARED 8u

#define LONGEST_NAME 8192

/* 0, -ENOENT: there is none; others: the kernel does not answer. */
static int ask(const struct client_proc_maps *maps, struct client_proc_map *m)
{
	char name[LONGEST_NAME] = "";
	struct query q = {.size = sizeof(q),
			  .flags = QUERY_OR_NEXT,
			  .address = maps->at,
			  .name_bytes = sizeof(name),
			  .name = (uintptr_t)name};

	if (ioctl(fileno(maps->file), QUERY, &q))
		return -errno;
	*m = (struct client_proc_map){
		.from = q.from,
		.to = q.to,
		.prot = {q.vma_flags & VMA_READABLE ? 'r' : '-', q.vma_flags & VMA_WRITABLE ? 'w' : '-',
			 q.vma_flags & VMA_EXECUTABLE ? 'x' : '-', q.vma_flags & VMA_SHARED ? 's' : 'p'},
		.offset = q.offset,
		.device = makedev(q.major, q.minor),
		.inode = q.inode,
	};
	if (q.name_bytes)
		memcpy(m->name, name, strnlen(name, sizeof(m->name) - 1));
	return 0;
}

/* ---- text ---- */

static void skip_rest_of_line(FILE *f)
{
	int c;

	do {
		c = getc(f);
	} while (c != EOF && c != '\n');
}

static bool read_line(FILE *file, struct client_proc_map *m)
{
	unsigned int major, minor;

	m->name[0] = 0;
	if (fscanf(file, "%llx-%llx %4s %llx %x:%x %llu%*[ ]", &m->from, &m->to, m->prot, &m->offset, &major, &minor,
		   &m->inode) != 7)
		return false;
	if (fscanf(file, "%255[^\n]", m->name) < 0)
		return false;
	skip_rest_of_line(file);
	m->device = makedev(major, minor);
	return true;
}

bool client_proc_maps_next(struct client_proc_maps *maps, struct client_proc_map *m)
{
	int err = maps->asks ? ask(maps, m) : -ENOTTY;
	bool found = !err;

	if (err == -ENOENT)
		return false;
	if (err) {
		maps->asks = false;
		do
			found = read_line(maps->file, m);
		while (found && m->to <= maps->at);
	}
	if (found)
		maps->at = m->to;
	return found;
}
