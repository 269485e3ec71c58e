/* SPDX-License-Identifier: Apache-2.0 */
/* The table of entry points, generated from names.txt; sorted by name, newest first. */
#ifndef VCUDA_PROCADDRESS_H
#define VCUDA_PROCADDRESS_H

#include <stdbool.h>

struct libcuda_entry {
	const char *name; /* without _vN, _ptds, _ptsz */
	int version;      /* CUDA version that brought this version of the function */
	bool per_thread;  /* uses the per-thread default stream */
	void (*function)(void);
};

extern const struct libcuda_entry libcuda_entries[];
extern const unsigned int libcuda_entry_count;

#endif
