/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files behind the process's shared memory, as /proc/self/maps shows them. Nothing here allocates memory or writes
 * to a stream: other threads may be stopped inside the C library. A structure belongs to one thread.
 */
#ifndef VCUDA_MAP_SCAN_H
#define VCUDA_MAP_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/own-descriptor.h"

struct client_file_id {
	dev_t device;
	ino_t inode; /* 0: no file */
};

struct client_map_scan {
	struct vcuda_own_descriptor file;
	int err;        /* -errno: the text could not be read to its end, and what was not found may be there */
	size_t at, end; /* in `text` */
	bool has_entry;
	struct client_map_entry {
		uint64_t from, to, offset;
		bool is_shared; /* readable, writable and shared */
		struct client_file_id file;
	} entry; /* the last one that was read */
	char text[4096];
};

/* 0 or -errno. The scan takes one descriptor until its end. */
int client_map_scan_begin(struct client_map_scan *scan);
void client_map_scan_end(struct client_map_scan *scan);

/*
 * The file of the shared memory at the address; inode 0: there is no shared memory that the process may read and write.
 * The addresses of one scan increase. The answer is as old as the last 4096 bytes of text that were read.
 */
struct client_file_id client_map_scan_file(struct client_map_scan *scan, const void *address);

/* Whether all of the range is readable and writable memory of `file` from `offset` on. The same holds for addresses. */
bool client_map_scan_covers(struct client_map_scan *scan, const void *address, size_t bytes,
			    const struct client_file_id *file, uint64_t offset);

/* The identity of an open file. */
struct client_file_id client_file_id(int fd);

#endif
