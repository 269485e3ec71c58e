/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's RAM, as the VMM lends it: regions of guest-physical memory, each a range of a file.
 *
 * Every address is untrusted. The daemon's own view is for virtqueues and their messages only; workers get the files
 * themselves. Several regions of one file (RAM below and above 4 GiB) share one entry in `files`.
 */
#ifndef VCUDA_MEMORY_H
#define VCUDA_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DAEMON_MEMORY_REGIONS 30 /* each may be a file of its own, and a worker takes that many */
#define DAEMON_MEMORY_SEEN 64

struct daemon_memory_file {
	int fd;        /* -1: free */
	int read_only; /* the same file, opened for reading; -1: it cannot be */
	unsigned int regions;
	uint64_t device, inode; /* the file's identity, as long as any process has it open */
};

struct daemon_memory_region {
	uint64_t gpa, size;
	uint64_t user;        /* the VMM's own address of it, in which it names the rings */
	uint64_t file_offset; /* of gpa */
	unsigned int file;
	uint8_t *view; /* of gpa */
	void *map;
	size_t map_size;
};

struct daemon_memory {
	struct daemon_memory_region regions[DAEMON_MEMORY_REGIONS];
	unsigned int count;
	struct daemon_memory_file files[DAEMON_MEMORY_REGIONS];
	unsigned int page_shift;           /* the largest page of any file */
	uint64_t seen[DAEMON_MEMORY_SEEN]; /* blocks of the view touched lately, by number modulo DAEMON_MEMORY_SEEN */
	uint64_t viewed;                   /* bytes that may have become resident in our views since the last trim */
};

void daemon_memory_init(struct daemon_memory *memory);
void daemon_memory_clear(struct daemon_memory *memory);

/* Takes fd in any case. 0 or -errno: -EINVAL (outside the file, overlap, overflow), -ENOSPC (too many). */
int daemon_memory_add(struct daemon_memory *memory, uint64_t gpa, uint64_t size, uint64_t user, uint64_t file_offset,
		      int fd);

/* -ENOENT if there is no such region. */
int daemon_memory_remove(struct daemon_memory *memory, uint64_t gpa, uint64_t size, uint64_t user);

/* Returns the size of all regions together, in bytes. */
uint64_t daemon_memory_bytes(const struct daemon_memory *memory);

/* The region that holds gpa, NULL if none does. */
const struct daemon_memory_region *daemon_memory_find(const struct daemon_memory *memory, uint64_t gpa);

/* Our address of `bytes` bytes at the VMM's address `user`; NULL unless one region holds them all. */
void *daemon_memory_from_user(const struct daemon_memory *memory, uint64_t user, uint64_t bytes);

/* Copies guest memory; false, with nothing promised about the destination, if part of it is not RAM. */
bool daemon_memory_read(struct daemon_memory *memory, void *to, uint64_t gpa, size_t bytes);
bool daemon_memory_write(struct daemon_memory *memory, uint64_t gpa, const void *from, size_t bytes);

/* Keeps our resident size small: gives back the views' pages (not their contents) once enough of them were touched. */
void daemon_memory_trim(struct daemon_memory *memory);

#endif
