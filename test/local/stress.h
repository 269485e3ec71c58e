/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of the program `stress`. Each thread uses its own struct; streams go from one thread to another. */
#ifndef TEST_LOCAL_STRESS_H
#define TEST_LOCAL_STRESS_H

#include <stdint.h>

#include "protocol/cuda-abi.h"

struct stress_thread {
	unsigned int number;
	unsigned int random;
	CUmodule module; /* a module of the thread's own; loaded anew from time to time */
	CUfunction step;
	uint32_t *host, *pinned, *expected;
};

/* step(u64 data, u32 count, u32 addend): x = x * 3 + addend; of a module that stays. */
extern CUfunction stress_step;

/* These end the program, the first one unless `result` is success. */
void stress_need(const struct stress_thread *t, CUresult result, const char *what);
void stress_wrong(const struct stress_thread *t, const char *what, uint32_t index, uint32_t is, uint32_t should);

#define NEED(call) stress_need(t, call, #call)

uint32_t stress_pick(struct stress_thread *t, uint32_t below);

/* For all that the context has to do, between captures. */
void stress_wait_for_all(struct stress_thread *t);

/* Takes a stream that another thread has left, or makes one; adds work to it; leaves it to others or waits for it. */
void stress_hand_on(struct stress_thread *t);

/* Waits for the streams that are left. */
void stress_end_jobs(struct stress_thread *t);

#endif
