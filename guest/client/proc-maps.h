/* SPDX-License-Identifier: Apache-2.0 */
/* What the process has mapped where, as its /proc/self/maps says. */
#ifndef VCUDA_PROC_MAPS_H
#define VCUDA_PROC_MAPS_H

#include <stdbool.h>
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

/* The list, for client_proc_maps_next() and fclose(). NULL: errno. */
FILE *client_proc_maps_open(void);

/* The next one, in increasing order. False: there is none. */
bool client_proc_maps_next(FILE *mappings, struct client_proc_map *m);

#endif
