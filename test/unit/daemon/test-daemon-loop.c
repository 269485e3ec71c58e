/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop: sources that were ready in time come before timers, and do not keep timers from expiring. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <unistd.h>

#include "host/daemon/loop/loop.h"
#include "test/check.h"

#define SOURCES (3 * DAEMON_LOOP_BATCH + 5)
#define DEADLINE_MS 20

static struct daemon_loop loop;
static struct daemon_source sources[SOURCES];
static struct daemon_timer timer;
static unsigned int served, served_before_timer;

static void take(struct daemon_source *source, uint32_t events)
{
	eventfd_t value;

	CHECK(!eventfd_read(source->fd, &value));
	served++;
}

/* The descriptor stays readable. */
static void look(struct daemon_source *source, uint32_t events)
{
	served++;
}

static void expired(struct daemon_timer *unused)
{
	served_before_timer = served;
	loop.stop = true;
}

static void start(unsigned int count, void (*ready)(struct daemon_source *source, uint32_t events))
{
	CHECK(!daemon_loop_init(&loop));
	for (unsigned int i = 0; i < count; i++) {
		sources[i] = (struct daemon_source){.fd = -1, .ready = ready};
		CHECK(!daemon_source_add(&loop, &sources[i], eventfd(0, EFD_NONBLOCK), EPOLLIN));
	}
	daemon_timer_init(&timer, expired);
	daemon_timer_set(&loop, &timer, DEADLINE_MS);
	served = 0;
}

static void make_ready(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		CHECK(!eventfd_write(sources[i].fd, 1));
}

static void finish(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		int fd = sources[i].fd;

		daemon_source_remove(&loop, &sources[i]);
		close(fd);
	}
	daemon_loop_close(&loop);
}

static void pass_deadline(void)
{
	uint64_t begin = daemon_now();

	while (daemon_now() <= begin + DEADLINE_MS)
		usleep(1000);
}

/* The process was stopped between two turns of the loop. */
static void test_late(void)
{
	start(SOURCES, take);
	make_ready(SOURCES);
	pass_deadline();
	daemon_loop_run(&loop);
	CHECK(served_before_timer == SOURCES);
	finish(SOURCES);
}

static void stopped(int signal)
{
	pass_deadline();
	make_ready(1);
}

/* The process was stopped while it waited: the kernel ends the wait as for a signal. */
static void test_stopped_while_it_waits(void)
{
	struct itimerval soon = {.it_value.tv_usec = 1000 * DEADLINE_MS / 4};

	signal(SIGALRM, stopped);
	start(1, take);
	CHECK(!setitimer(ITIMER_REAL, &soon, NULL));
	daemon_loop_run(&loop);
	CHECK(served_before_timer == 1);
	finish(1);
}

static void test_sources_that_stay_ready(void)
{
	start(SOURCES, look);
	make_ready(SOURCES);
	daemon_loop_run(&loop);
	CHECK(served_before_timer >= SOURCES);
	finish(SOURCES);
}

int main(void)
{
	test_late();
	test_stopped_while_it_waits();
	test_sources_that_stay_ready();
	puts("ok");
	return 0;
}
