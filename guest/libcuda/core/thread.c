/* SPDX-License-Identifier: Apache-2.0 */
#include "core/thread.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/log.h"
#include "core/hooks.h"

/* Numbers of threads are reused, so that they stay small: the worker keeps one word for each. */
#define NUMBERS 256

_Thread_local struct libcuda_thread *libcuda_thread_cached __attribute__((tls_model("initial-exec")));
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint16_t users[NUMBERS]; /* threads that have this number; more than one only where there are more threads than
				   numbers */

static void leave(void *thread)
{
	struct libcuda_thread *t = thread;

	libcuda_hooks_thread_exits(t);
	pthread_mutex_lock(&lock);
	users[t->calls.number]--;
	pthread_mutex_unlock(&lock);
	libcuda_thread_cached = NULL;
	free(t);
}

static void create_key(void)
{
	pthread_key_create(&key, leave);
}

static uint32_t take_number(void)
{
	uint32_t best = 0;

	pthread_mutex_lock(&lock);
	for (uint32_t i = 1; i < NUMBERS && users[best]; i++)
		if (users[i] < users[best])
			best = i;
	users[best]++;
	pthread_mutex_unlock(&lock);
	return best;
}

struct libcuda_thread *libcuda_thread_begin(void)
{
	struct libcuda_thread *t = calloc(1, sizeof(*t));

	/* The loader does the same where it has no memory for a thread's variables. */
	if (!t) {
		vcuda_log("there is no memory for what each thread needs");
		abort();
	}
	t->calls.number = take_number();
	libcuda_thread_cached = t;
	pthread_once(&once, create_key);
	/* A destructor of the application's may call CUDA after ours ran: then this runs once more. */
	pthread_setspecific(key, t);
	return t;
}
