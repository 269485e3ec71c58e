/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: file descriptors and timers of the daemon's only thread. Nothing that a handler does may block.
 *
 * Sources and timers are embedded in their owners and belong to them. A handler may remove any source, its own
 * included.
 *
 * A timer may be the deadline of what a source brings. So a timer expires only when each source that was ready at the
 * timer's time has been served, however late that is: the daemon may have been stopped.
 */
#ifndef VCUDA_LOOP_H
#define VCUDA_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "common/list.h"

struct daemon_source {
	int fd; /* the owner's; -1: not in the loop */
	void (*ready)(struct daemon_source *source, uint32_t events);
};

struct daemon_timer {
	struct vcuda_list entry;
	uint64_t at; /* ms, 0: not set */
	void (*expired)(struct daemon_timer *timer);
};

#define DAEMON_LOOP_BATCH 32

struct daemon_loop {
	int epoll;
	bool stop;
	struct vcuda_list timers;
	unsigned int sources;
	struct epoll_event batch[DAEMON_LOOP_BATCH];
	int batch_count;
	uint64_t polled;     /* ms: sources that were ready before are served first, then timers of before */
	unsigned int served; /* events since then; 0: all those sources have been served */
	bool again;          /* a source has work left: poll, do not sleep */
	void (*idle)(struct daemon_loop *loop); /* called after each batch, may be NULL */
	void *owner;
};

/* 0 or -errno. */
int daemon_loop_init(struct daemon_loop *loop);
void daemon_loop_close(struct daemon_loop *loop);

/* Runs until loop->stop. */
void daemon_loop_run(struct daemon_loop *loop);

/* Watches source->fd for `events` (EPOLLIN, EPOLLOUT; level triggered). 0 or -errno. */
int daemon_source_add(struct daemon_loop *loop, struct daemon_source *source, int fd, uint32_t events);
void daemon_source_change(struct daemon_loop *loop, struct daemon_source *source, uint32_t events);

/* Does not close the descriptor. Harmless on a source that is not in the loop. */
void daemon_source_remove(struct daemon_loop *loop, struct daemon_source *source);

uint64_t daemon_now(void); /* ms, monotonic */

/* A timer starts as {.expired = ...} after daemon_timer_init(); setting it again moves it. */
void daemon_timer_init(struct daemon_timer *timer, void (*expired)(struct daemon_timer *timer));
void daemon_timer_set(struct daemon_loop *loop, struct daemon_timer *timer, uint64_t delay_ms);
void daemon_timer_clear(struct daemon_timer *timer);

#endif
