/* SPDX-License-Identifier: Apache-2.0 */
/* Starts threads, also for libraries inside an application's process. For guest and host. Thread-safe. */
#ifndef VCUDA_START_THREAD_H
#define VCUDA_START_THREAD_H

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Starts a detached thread with all signals blocked but those in `kept`, a list that 0 ends (NULL: none), so that the
 * process's signal handlers run on its own threads. `attributes` may be NULL. False: no thread could be started.
 */
static inline bool vcuda_thread_start_with(const pthread_attr_t *attributes, const int *kept, void *(*run)(void *),
					   void *argument)
{
	sigset_t blocked, before;
	pthread_t thread;
	bool ok;

	sigfillset(&blocked);
	/* A blocked SIGSYS of a refused system call would end the process without its handler. */
	sigdelset(&blocked, SIGSYS);
	while (kept && *kept)
		sigdelset(&blocked, *kept++);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	ok = pthread_create(&thread, attributes, run, argument) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ok)
		pthread_detach(thread);
	return ok;
}

/* For `kept` of threads that run kernels: a fault whose signal is blocked ends the process. */
static const int vcuda_faults[] __attribute__((unused)) = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, 0};

static inline bool vcuda_thread_start(void *(*run)(void *), void *argument)
{
	return vcuda_thread_start_with(NULL, NULL, run, argument);
}

struct vcuda_thread_start {
	void *(*run)(void *);
	void *argument;
	sem_t runs;
};

static inline void *vcuda_thread_run(void *start)
{
	struct vcuda_thread_start *s = start;
	void *(*run)(void *) = s->run, *argument = s->argument;

	sem_post(&s->runs);
	return run(argument);
}

/*
 * Starts a thread that keeps signals of faults, and returns once the thread runs: for a process that forks later. A
 * thread that starts takes locks of the allocator. GCC's address sanitizer does not release such a lock in a child that
 * is forked meanwhile.
 */
static inline bool vcuda_thread_start_before_fork(void *(*run)(void *), void *argument)
{
	struct vcuda_thread_start s = {.run = run, .argument = argument};

	sem_init(&s.runs, 0, 0);
	if (!vcuda_thread_start_with(NULL, vcuda_faults, vcuda_thread_run, &s))
		return false;
	while (sem_wait(&s.runs))
		;
	sem_destroy(&s.runs);
	return true;
}

#endif
