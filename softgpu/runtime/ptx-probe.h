/* SPDX-License-Identifier: Apache-2.0 */
/* What tests look at and wait for; nothing else calls these. */
#ifndef VCUDA_BACKEND_CPU_PTX_PROBE_H
#define VCUDA_BACKEND_CPU_PTX_PROBE_H

#include <stdint.h>

/* A kernel that would have more instructions with all that it calls has subroutines. Tests let smaller ones have them. */
extern uint32_t ptx_most_inlined;

/* Since the process began. */
struct ptx_statistics {
	uint64_t compiled, quick, loaded; /* versions: compiled in all, quick ones among them, from the cache */
	uint64_t whole, bodies;           /* modules all of whose bodies were read to begin with; bodies read later */
};

/* Adds one to one of them. */
void ptx_statistics_count(uint64_t *number);
extern struct ptx_statistics ptx_statistics;

void ptx_statistics_get(struct ptx_statistics *statistics);
/* Returns once nothing waits for better code or is compiled in the background. */
void ptx_tier_wait(void);

#endif
