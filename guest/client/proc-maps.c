/* SPDX-License-Identifier: Apache-2.0 */
#include "proc-maps.h"

#include <sys/sysmacros.h>

FILE *client_proc_maps_open(void)
{
	return fopen("/proc/self/maps", "re");
}

static void skip_rest_of_line(FILE *f)
{
	int c;

	do {
		c = getc(f);
	} while (c != EOF && c != '\n');
}

bool client_proc_maps_next(FILE *mappings, struct client_proc_map *m)
{
	unsigned int major, minor;

	m->name[0] = 0;
	if (fscanf(mappings, "%llx-%llx %4s %llx %x:%x %llu%*[ ]", &m->from, &m->to, m->prot, &m->offset, &major,
		   &minor, &m->inode) != 7)
		return false;
	if (fscanf(mappings, "%255[^\n]", m->name) < 0)
		return false;
	skip_rest_of_line(mappings);
	m->device = makedev(major, minor);
	return true;
}
