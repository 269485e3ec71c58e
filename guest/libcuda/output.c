/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "guest-calls.h"
#include "thread.h"

#define PART 8000

_Static_assert(PART + 16 <= VCUDA_REPLY_MAX, "a part fits a reply");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool ends; /* under the lock */
_Atomic bool vcuda_output_in_flight;

static void bring_text(struct vcuda_shm *shm)
{
	char text[PART];
	unsigned int bytes;

	while (atomic_load(&shm->output)) {
		if (vcuda_call_vcudaOutputRead(PART, &bytes, text) != CUDA_SUCCESS || !bytes || bytes > PART)
			break;
		/* Through stdio: in order with what the application prints itself. */
		fwrite(text, 1, bytes, stdout);
	}
	fflush(stdout);
}

void vcuda_output_forward(struct vcuda_shm *shm)
{
	struct vcuda_thread *thread = vcuda_thread();

	/* The calls made in here end up here again. */
	if (thread->reads_output)
		return;
	thread->reads_output = true;
	pthread_mutex_lock(&lock);
	/* A thread that came to wait for another one's text may find none left. */
	if (!ends && atomic_load(&shm->output)) {
		atomic_store(&vcuda_output_in_flight, true);
		bring_text(shm);
		atomic_store(&vcuda_output_in_flight, false);
	}
	pthread_mutex_unlock(&lock);
	thread->reads_output = false;
}

/*
 * Next the C library writes what stdout has left, without its lock: a thread that goes on meanwhile, and flushes as
 * well, would have the same text written twice. The lock may never come: of a thread that a fork left behind.
 */
__attribute__((destructor)) static void end_output(void)
{
	struct timespec limit;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec++;
	if (pthread_mutex_timedlock(&lock, &limit))
		return;
	ends = true;
	pthread_mutex_unlock(&lock);
}
