/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a kernel may run, or a launch of a graph with conditional nodes, without the time of other VMs' turns. One
 * that takes longer makes its context fail with CUDA_ERROR_LAUNCH_TIMEOUT, which stops it. With the lock held, but for
 * softgpu_timer_touch() and softgpu_timer_pause().
 */
#ifndef VCUDA_CPU_TIME_LIMIT_H
#define VCUDA_CPU_TIME_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/list.h"

struct CUctx_st;

struct softgpu_timer {
	struct vcuda_list node;
	struct CUctx_st *context;
	bool begun;      /* a block has; atomic */
	uint64_t ran_ns; /* since then */
	bool expired;
};

void softgpu_timer_start(struct softgpu_timer *timer, struct CUctx_st *context);
/* A block begins; the first one starts the clock. From any thread, without the lock. */
void softgpu_timer_touch(struct softgpu_timer *timer);
/* Stops the clock until softgpu_timer_touch(). From any thread, without the lock. */
void softgpu_timer_pause(struct softgpu_timer *timer);
void softgpu_timer_stop(struct softgpu_timer *timer);
/* Whether it is this kernel that took too long; true once. */
bool softgpu_timer_expired(struct softgpu_timer *timer);

/* Starts the thread, once, if there is a limit. False: it could not be started. */
bool softgpu_time_limit_start(void);

#endif
