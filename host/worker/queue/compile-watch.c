/* SPDX-License-Identifier: Apache-2.0 */
#include "queue/compile-watch.h"

#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "common/deadline.h"
#include "common/log.h"
#include "common/start-thread.h"
#include "session/ledger.h"

#define SECOND 1000000000ull

static struct {
	pthread_mutex_t lock;
	pthread_cond_t begun;
	struct worker_compile_watch *first;
	bool runs; /* the thread that looks */
} watches = {.lock = PTHREAD_MUTEX_INITIALIZER, .begun = PTHREAD_COND_INITIALIZER};

static uint64_t now(clockid_t clock)
{
	struct timespec t = {0};

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

_Noreturn static void end_worker(uint64_t seconds)
{
	vcuda_log("loading a module takes more than %llu s of a processor (raise vcudad's --max-compile-time): the "
		  "worker ends",
		  (unsigned long long)seconds);
	worker_ledger_refused(VCUDA_LEDGER_COMPILE_SECONDS);
	_exit(1);
}

/* How long no call can reach the limit: a thread uses no more time than passes. With the lock. */
static uint64_t check(void)
{
	uint64_t seconds = worker_ledger_process_limit(VCUDA_LEDGER_COMPILE_SECONDS);
	uint64_t left = UINT64_MAX;

	for (const struct worker_compile_watch *w = watches.first; w; w = w->next) {
		uint64_t used = now(w->clock) - w->begin;

		if (used >= seconds * SECOND)
			end_worker(seconds);
		if (seconds * SECOND - used < left)
			left = seconds * SECOND - used;
	}
	return left;
}

/* The limit may be lowered meanwhile. */
static void wait_for(uint64_t ns)
{
	struct timespec until = vcuda_deadline(ns < SECOND ? ns : SECOND);

	pthread_cond_clockwait(&watches.begun, &watches.lock, CLOCK_MONOTONIC, &until);
}

static void *look(void *unused)
{
	pthread_mutex_lock(&watches.lock);
	for (;;) {
		if (watches.first)
			wait_for(check());
		else
			pthread_cond_wait(&watches.begun, &watches.lock);
	}
	return unused;
}

void worker_compile_watch_begin(struct worker_compile_watch *w)
{
	if (pthread_getcpuclockid(pthread_self(), &w->clock))
		w->clock = CLOCK_MONOTONIC;
	w->begin = now(w->clock);
	pthread_mutex_lock(&watches.lock);
	w->next = watches.first;
	watches.first = w;
	watches.runs = watches.runs || vcuda_thread_start(look, NULL);
	pthread_cond_signal(&watches.begun);
	pthread_mutex_unlock(&watches.lock);
}

void worker_compile_watch_end(struct worker_compile_watch *w)
{
	struct worker_compile_watch **at = &watches.first;

	pthread_mutex_lock(&watches.lock);
	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	pthread_mutex_unlock(&watches.lock);
}
