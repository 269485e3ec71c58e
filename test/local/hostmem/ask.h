/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions about cuMemCreate() in host memory that the documentation does not answer. Each group of questions has a
 * process of its own. Each question prints one line: its group, the call in words, and what the driver did. Codes are
 * CUresults, sizes are granules of 2 MiB.
 */
#ifndef TEST_LOCAL_HOSTMEM_ASK_H
#define TEST_LOCAL_HOSTMEM_ASK_H

#include "test/local/hostmem/hostmem.h"

#define DEVICE CU_MEM_LOCATION_TYPE_DEVICE
#define HOST CU_MEM_LOCATION_TYPE_HOST
#define NUMA CU_MEM_LOCATION_TYPE_HOST_NUMA
#define CURRENT CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
#define NOWHERE CU_MEM_LOCATION_TYPE_INVALID
#define READ CU_MEM_ACCESS_FLAGS_PROT_READ
#define NO_ACCESS CU_MEM_ACCESS_FLAGS_PROT_NONE

struct group {
	const char *name;
	void (*ask)(const int *with);
	int with[2];
};

/* The groups of each file; the last one has no name. */
extern const struct group map_groups[], access_groups[], place_groups[], pool_groups[], pointer_groups[],
	border_groups[];

/* Prints the begin of a line, the question, and answers to it. A question ends with end(). */
__attribute__((format(printf, 1, 2))) void question(const char *format, ...);
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
void end(void);

const char *place_name(CUmemLocationType type);

/* Memory of that place, id 0; ends the group if there is none. */
CUmemGenericAllocationHandle make(CUmemLocationType type, size_t granules);

/* New addresses. */
CUdeviceptr reserve(size_t granules);

/* `granules` of new memory of a place, mapped at p. No access. */
CUmemGenericAllocationHandle put(CUmemLocationType type, CUdeviceptr p, size_t granules);

/* New addresses with memory there. Access of devices, and of processors if it is the host's. */
CUdeviceptr usable(CUmemLocationType type, size_t granules);

/* "reads and writes", "reads" or "faults": what a processor may do at p. */
const char *processor_at(CUdeviceptr p);

/*
 * hostmem ask [compare FILE]: the exit status. FILE has the lines of NVIDIA's driver; one with ~ before it is known to
 * differ.
 */
int ask(const char *file);

#endif
