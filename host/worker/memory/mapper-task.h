/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that the worker and its mapper share. */
#ifndef VCUDA_MAPPER_TASK_H
#define VCUDA_MAPPER_TASK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "memory/mapping.h"

struct worker_mapper_request {
	pid_t worker;
	int maps;                         /* the worker's /proc/self/maps */
	_Atomic uint32_t asked, answered; /* requests so far; both are futexes */
	uint64_t address;
	const struct worker_mapping_extent *extents; /* adjacent in memory, the first one at `address` */
	unsigned int count;
	bool writable;
	int status; /* 0 or -errno */
};

/* The mapper, as a function for clone(); the argument is a struct worker_mapper_request. */
int worker_mapper_task(void *argument);

#endif
