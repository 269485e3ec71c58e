/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <pthread.h>
#include <stdio.h>

#include "guest-calls.h"
#include "thread.h"

#define PART 8000

_Static_assert(PART + 16 <= VCUDA_REPLY_MAX, "a part fits a reply");

void vcuda_output_forward(struct vcuda_shm *shm)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct vcuda_thread *thread = vcuda_thread();
	char text[PART];
	unsigned int bytes;

	/* The calls made in here end up here again. */
	if (thread->reads_output)
		return;
	thread->reads_output = true;
	pthread_mutex_lock(&lock);
	while (atomic_load(&shm->output)) {
		if (vcuda_call_vcudaOutputRead(PART, &bytes, text) != CUDA_SUCCESS || !bytes || bytes > PART)
			break;
		/* Through stdio: in order with what the application prints itself. */
		fwrite(text, 1, bytes, stdout);
	}
	fflush(stdout);
	pthread_mutex_unlock(&lock);
	thread->reads_output = false;
}
