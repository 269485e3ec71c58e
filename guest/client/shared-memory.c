/* SPDX-License-Identifier: Apache-2.0 */
#include "shared-memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc-maps.h"

/* The mapping that contains all of the range. False: there is none. */
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

static bool is_of(const struct client_proc_map *m, const struct stat *file)
{
	return file->st_dev == m->device && file->st_ino == m->inode;
}

/* Opens the file of that name if it is the mapping's. */
static bool open_same(const char *path, const struct client_proc_map *m, bool writable,
		      struct client_short_descriptor *d)
{
	struct stat file;

	if (stat(path, &file) || !is_of(m, &file) ||
	    client_short_descriptor_open(d, path, (writable ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_NOCTTY))
		return false;
	/* The name may have become another file's before it was opened. */
	if (!fstat(d->fd, &file) && is_of(m, &file))
		return true;
	client_short_descriptor_close(d);
	return false;
}

/* Opens the file through a descriptor of it that the application still has. */
static bool open_descriptor(const struct client_proc_map *m, bool writable, struct client_short_descriptor *d)
{
	DIR *all = opendir("/proc/self/fd");
	struct dirent *e;
	char path[300];
	bool opened = false;

	while (all && !opened && (e = readdir(all))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		opened = open_same(path, m, writable, d);
	}
	if (all)
		closedir(all);
	return opened;
}

int client_shared_memory_open(const void *address, size_t bytes, bool writable, struct client_short_descriptor *file,
			      uint64_t *offset)
{
	struct client_proc_map m;
	char path[80];

	if (!find(address, bytes, &m) || m.prot[3] != 's' || !m.inode)
		return -EOPNOTSUPP;
	if (m.prot[0] != 'r' || (writable && m.prot[1] != 'w'))
		return -EFAULT;
	*offset = m.offset + ((uintptr_t)address - m.from);
	/* The kernel shows map_files to processes with privileges only. */
	snprintf(path, sizeof(path), "/proc/self/map_files/%llx-%llx", m.from, m.to);
	if (open_same(path, &m, writable, file) || open_descriptor(&m, writable, file) ||
	    (m.name[0] == '/' && open_same(m.name, &m, writable, file)))
		return 0;
	return -EOPNOTSUPP;
}
