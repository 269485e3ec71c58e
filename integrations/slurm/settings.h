/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of the plug-in, NAME=VALUE, in plugstack.conf. */
#ifndef VCUDA_SLURM_SETTINGS_H
#define VCUDA_SLURM_SETTINGS_H

#include <stdint.h>
#include <sys/types.h>

/* As many shares as vcudad's --share takes. */
#define SETTINGS_MOST_SLICES 1000

struct settings {
	unsigned int slices;   /* of each device */
	uint64_t slice_memory; /* bytes of device memory */
	const char *user;      /* vcudad's */
	const char *config;    /* vcudad's further options; the file may be missing */
	const char *vcudad;
	const char *libraries; /* the folder with libcuda.so.1 */
};

/*
 * Fills in `settings`, whose strings belong to `argv` or are constant. Returns 0, or -1 with a line in Slurm's log.
 */
int settings_read(struct settings *settings, int argc, char **argv);

#endif
