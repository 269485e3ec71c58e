/* SPDX-License-Identifier: Apache-2.0 */
#include "shared-memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc-maps.h"

/* The one that all of the range is in. False: none. */
static bool find(const void *address, size_t bytes, struct client_proc_map *m)
{
	uint64_t from = (uintptr_t)address;
	struct client_proc_maps maps;
	bool found;

	if (!client_proc_maps_open(&maps, address))
		return false;
	found = client_proc_maps_next(&maps, m) && m->from <= from;
	client_proc_maps_close(&maps);
	return found && bytes <= m->to - from;
}

/* Opens it if it is the mapping's file. -1: it is not. */
static int open_same(const char *path, const struct client_proc_map *m, bool writable)
{
	struct stat file;
	int fd;

	if (stat(path, &file) || file.st_dev != m->device || file.st_ino != m->inode)
		return -1;
	/* By now the name may be another file's. */
	fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && (fstat(fd, &file) || file.st_dev != m->device || file.st_ino != m->inode)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* By a descriptor that the application has of it still. */
static int open_descriptor(const struct client_proc_map *m, bool writable)
{
	DIR *all = opendir("/proc/self/fd");
	struct dirent *e;
	char path[300];
	int fd = -1;

	while (all && fd < 0 && (e = readdir(all))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		fd = open_same(path, m, writable);
	}
	if (all)
		closedir(all);
	return fd;
}

int client_shared_memory_open(const void *address, size_t bytes, bool writable, uint64_t *offset)
{
	struct client_proc_map m;
	char path[80];
	int fd;

	if (!find(address, bytes, &m) || m.prot[3] != 's' || !m.inode)
		return -EOPNOTSUPP;
	if (m.prot[0] != 'r' || (writable && m.prot[1] != 'w'))
		return -EFAULT;
	*offset = m.offset + ((uintptr_t)address - m.from);
	/* The kernel shows these to processes with privileges only. */
	snprintf(path, sizeof(path), "/proc/self/map_files/%llx-%llx", m.from, m.to);
	fd = open_same(path, &m, writable);
	if (fd < 0)
		fd = open_descriptor(&m, writable);
	if (fd < 0 && m.name[0] == '/')
		fd = open_same(m.name, &m, writable);
	return fd < 0 ? -EOPNOTSUPP : fd;
}
