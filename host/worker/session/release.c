/* SPDX-License-Identifier: Apache-2.0 */
#include "session/release.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "common/start-thread.h"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t done;
	_Atomic bool busy; /* set under the lock; a look without it is enough where it is not */
	void (*part)(void *argument);
	void *argument;
} later = {.lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static void *run(void *unused)
{
	later.part(later.argument);
	pthread_mutex_lock(&later.lock);
	atomic_store(&later.busy, false);
	pthread_cond_broadcast(&later.done);
	pthread_mutex_unlock(&later.lock);
	return unused;
}

bool worker_release_later(void (*part)(void *argument), void *argument)
{
	bool starts;

	pthread_mutex_lock(&later.lock);
	starts = !atomic_load(&later.busy);
	if (starts) {
		later.part = part;
		later.argument = argument;
		starts = vcuda_thread_start_with(NULL, vcuda_faults, run, NULL);
		atomic_store(&later.busy, starts);
	}
	pthread_mutex_unlock(&later.lock);
	return starts;
}

void worker_release_wait(void)
{
	if (!atomic_load(&later.busy))
		return;
	pthread_mutex_lock(&later.lock);
	while (atomic_load(&later.busy))
		pthread_cond_wait(&later.done, &later.lock);
	pthread_mutex_unlock(&later.lock);
}
