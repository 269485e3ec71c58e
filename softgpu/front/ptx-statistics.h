/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of the compiler's work since the process began. For tests. */
#ifndef VCUDA_BACKEND_CPU_PTX_STATISTICS_H
#define VCUDA_BACKEND_CPU_PTX_STATISTICS_H

#include <stdint.h>

struct ptx_statistics {
	uint64_t compiled, quick, loaded; /* versions: compiled in all, quick ones among them, from the cache */
	uint64_t whole, bodies;           /* modules all of whose bodies were read to begin with; bodies read later */
};

extern struct ptx_statistics ptx_statistics;

/* Adds one to a member of ptx_statistics. From any thread. */
void ptx_statistics_count(uint64_t *number);

void ptx_statistics_get(struct ptx_statistics *statistics);

#endif
