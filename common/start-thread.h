/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that libraries start in a process that is not theirs. For both sides. */
#ifndef VCUDA_START_THREAD_H
#define VCUDA_START_THREAD_H

#include <pthread.h>
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
	/* A refused system call's: blocked, it could not be told from others. */
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

static inline bool vcuda_thread_start(void *(*run)(void *), void *argument)
{
	return vcuda_thread_start_with(NULL, NULL, run, argument);
}

#endif
