/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <time.h>
#include <unistd.h>

#include "loop/loop.h"

int daemon_loop_init(struct daemon_loop *loop)
{
	*loop = (struct daemon_loop){.epoll = epoll_create1(EPOLL_CLOEXEC)};
	vcuda_list_init(&loop->timers);
	return loop->epoll < 0 ? -errno : 0;
}

void daemon_loop_close(struct daemon_loop *loop)
{
	close(loop->epoll);
	loop->epoll = -1;
}

uint64_t daemon_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int daemon_source_add(struct daemon_loop *loop, struct daemon_source *source, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = source};

	if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event))
		return -errno;
	source->fd = fd;
	loop->sources++;
	return 0;
}

void daemon_source_change(struct daemon_loop *loop, struct daemon_source *source, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = source};

	if (source->fd >= 0)
		epoll_ctl(loop->epoll, EPOLL_CTL_MOD, source->fd, &event);
}

void daemon_source_remove(struct daemon_loop *loop, struct daemon_source *source)
{
	int i;

	if (source->fd < 0)
		return;
	epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
	source->fd = -1;
	loop->sources--;
	/* The source's owner may be freed next: events that were already fetched must not reach it. */
	for (i = 0; i < loop->batch_count; i++)
		if (loop->batch[i].data.ptr == source)
			loop->batch[i].data.ptr = NULL;
}

void daemon_timer_init(struct daemon_timer *timer, void (*expired)(struct daemon_timer *timer))
{
	*timer = (struct daemon_timer){.expired = expired};
	vcuda_list_init(&timer->entry);
}

void daemon_timer_set(struct daemon_loop *loop, struct daemon_timer *timer, uint64_t delay_ms)
{
	daemon_timer_clear(timer);
	timer->at = daemon_now() + delay_ms;
	vcuda_list_add(&timer->entry, &loop->timers);
}

void daemon_timer_clear(struct daemon_timer *timer)
{
	timer->at = 0;
	vcuda_list_remove(&timer->entry);
}

static int next_timeout(const struct daemon_loop *loop)
{
	const struct vcuda_list *entry;
	uint64_t now, first = UINT64_MAX;

	if (loop->again || loop->served)
		return 0;
	for (entry = loop->timers.next; entry != &loop->timers; entry = entry->next) {
		uint64_t at = container_of(entry, struct daemon_timer, entry)->at;

		first = at < first ? at : first;
	}
	if (first == UINT64_MAX)
		return -1;
	now = daemon_now();
	if (first < now)
		return 0;
	return first - now >= INT_MAX ? INT_MAX : (int)(first - now) + 1;
}

/* A handler may set or clear any timer: begin anew after each. */
static void run_timers(struct daemon_loop *loop)
{
	struct vcuda_list *entry;

	for (entry = loop->timers.next; entry != &loop->timers;) {
		struct daemon_timer *timer = container_of(entry, struct daemon_timer, entry);

		entry = entry->next;
		if (timer->at >= loop->polled)
			continue;
		daemon_timer_clear(timer);
		timer->expired(timer);
		entry = loop->timers.next;
	}
}

/* The kernel takes ready sources in turns. After a full batch there may be more, but not beyond one turn of each. */
static void poll_sources(struct daemon_loop *loop)
{
	int timeout = next_timeout(loop), count;

	if (!loop->served)
		loop->polled = daemon_now();
	/* A signal ends the wait, and a stop of the process may, before the sources are looked at. */
	do {
		count = epoll_wait(loop->epoll, loop->batch, DAEMON_LOOP_BATCH, timeout);
		timeout = 0;
	} while (count < 0 && errno == EINTR);
	loop->batch_count = count < 0 ? 0 : count;
	loop->served += (unsigned int)loop->batch_count;
	if (loop->batch_count < DAEMON_LOOP_BATCH || loop->served >= loop->sources)
		loop->served = 0;
}

static void serve_batch(struct daemon_loop *loop)
{
	for (int i = 0; i < loop->batch_count && !loop->stop; i++) {
		struct daemon_source *source = loop->batch[i].data.ptr;

		if (source)
			source->ready(source, loop->batch[i].events);
	}
	loop->batch_count = 0;
}

void daemon_loop_run(struct daemon_loop *loop)
{
	while (!loop->stop) {
		poll_sources(loop);
		loop->again = false;
		serve_batch(loop);
		if (!loop->served)
			run_timers(loop);
		if (loop->idle)
			loop->idle(loop);
	}
}
