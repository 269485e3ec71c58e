/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's mappings. Kernels since 6.11 are asked for each mapping. With others /proc/self/maps is read from its
 * begin, which takes longer with more mappings. A structure belongs to one thread.
 */
#ifndef VCUDA_PROC_MAPS_H
#define VCUDA_PROC_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct client_proc_map {
	unsigned long long from, to;
	char prot[5]; /* "rwxp": the last one is 's' of shared memory */
	unsigned long long offset;
	dev_t device;
	unsigned long long inode; /* 0: of no file */
	char name[256];           /* as far as it fits: the file's, or what is in brackets; empty: it has none */
};

struct client_proc_maps {
	FILE *file;
	uint64_t at; /* mappings that end there or before are left out */
	bool asks;   /* the kernel answers questions */
};

/* From the mapping around the address on, or the next one. False: errno. */
bool client_proc_maps_open(struct client_proc_maps *maps, const void *address);

/* The next one, in increasing order. False: there is none. */
bool client_proc_maps_next(struct client_proc_maps *maps, struct client_proc_map *m);

void client_proc_maps_close(struct client_proc_maps *maps);

#endif
