/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How busy the software GPUs of this worker's guest are: a thread looks at the worker table every 2 ms, as long as
 * figures are asked for. Each figure is of the last whole window of 1/6 s. Thread-safe.
 */
#ifndef VCUDA_WORK_SAMPLER_H
#define VCUDA_WORK_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

/* Percent of the window in which kernels ran, and in which kernels, copies or memsets did. */
struct worker_work {
	uint32_t kernels, all;
};

struct worker_work_process {
	uint32_t pid; /* the guest's process */
	struct worker_work work;
};

struct worker_work_window {
	uint64_t end_us;         /* since 1970 */
	struct worker_work work; /* of all processes of the guest together */
	unsigned int count;      /* of processes that had any work on the device, at most `room` */
};

/*
 * Figures of a device. Waits for a window where none has been asked for in the last seconds. `processes`: room for
 * `room`. False: no thread could be started.
 */
bool worker_work_look(unsigned int device, struct worker_work_window *to, struct worker_work_process *processes,
		      unsigned int room);

#endif
