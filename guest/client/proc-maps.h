/* SPDX-License-Identifier: Apache-2.0 */
/* What the process has mapped where, as its /proc/self/maps says. */
#ifndef VCUDA_PROC_MAPS_H
#define VCUDA_PROC_MAPS_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct vcuda_mapping {
	unsigned long long from, to;
	char prot[5]; /* "rwxp": the last one is 's' of shared memory */
	unsigned long long offset;
	dev_t device;
	unsigned long long inode; /* 0: of no file */
	char name[256];           /* as far as it fits: the file's, or what is in brackets; empty: it has none */
};

/* The list, for vcuda_mapping_next() and fclose(). NULL: errno. */
FILE *vcuda_mappings(void);

/* The next one, in increasing order. False: there is none. */
bool vcuda_mapping_next(FILE *mappings, struct vcuda_mapping *m);

#endif
