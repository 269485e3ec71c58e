/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: file descriptors and timers of the daemon's only thread. Nothing that a handler does may block.
 *
 * Sources and timers are embedded in their owners and belong to them. A handler may remove any source, its own
 * included.
 */
#ifndef VCUDA_LOOP_H
#define VCUDA_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "common/list.h"

struct vcuda_source {
	int fd; /* the owner's; -1: not in the loop */
	void (*ready)(struct vcuda_source *source, uint32_t events);
};

struct vcuda_timer {
	struct vcuda_list entry;
	uint64_t at; /* ms, 0: not set */
	void (*expired)(struct vcuda_timer *timer);
};

#define VCUDA_LOOP_BATCH 32

struct vcuda_loop {
	int epoll;
	bool stop;
	struct vcuda_list timers;
	struct epoll_event batch[VCUDA_LOOP_BATCH];
	int batch_count;
	bool again;                            /* somebody has work left: poll, do not sleep */
	void (*idle)(struct vcuda_loop *loop); /* called after each batch, may be NULL */
	void *owner;
};

/* 0 or -errno. */
int vcuda_loop_init(struct vcuda_loop *loop);
void vcuda_loop_close(struct vcuda_loop *loop);

/* Runs until loop->stop. */
void vcuda_loop_run(struct vcuda_loop *loop);

/* Watches source->fd for `events` (EPOLLIN, EPOLLOUT; level triggered). 0 or -errno. */
int vcuda_source_add(struct vcuda_loop *loop, struct vcuda_source *source, int fd, uint32_t events);
void vcuda_source_change(struct vcuda_loop *loop, struct vcuda_source *source, uint32_t events);

/* Does not close the descriptor. Harmless on a source that is not in the loop. */
void vcuda_source_remove(struct vcuda_loop *loop, struct vcuda_source *source);

uint64_t vcuda_now(void); /* ms, monotonic */

/* A timer starts as {.expired = ...} after vcuda_timer_init(); setting it again moves it. */
void vcuda_timer_init(struct vcuda_timer *timer, void (*expired)(struct vcuda_timer *timer));
void vcuda_timer_set(struct vcuda_loop *loop, struct vcuda_timer *timer, uint64_t delay_ms);
void vcuda_timer_clear(struct vcuda_timer *timer);

#endif
