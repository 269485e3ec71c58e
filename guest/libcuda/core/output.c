/* SPDX-License-Identifier: Apache-2.0 */
#include "core/output.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>

#include "guest/client/call.h"
#include "guest/client/lock-within.h"
#include "protocol/guest-calls.h"

#define PART 8000

_Static_assert(PART + 16 <= VCUDA_REPLY_MAX, "a part fits a reply");

/* A signal handler that calls exit() may interrupt the thread that has the lock: then locking it fails. */
#define UNLOCKED PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP

static pthread_mutex_t fetching = UNLOCKED; /* held until the text is written, so that text stays in order */
static pthread_mutex_t writing = UNLOCKED;  /* inside stdout's lock; the holder waits only for the file */
static bool ends;                           /* under `writing` */
_Atomic bool libcuda_output_in_flight;

/* Flushes under the same lock, so that exit() and a forked child find no kernel text in the buffer. */
static void write_text(FILE *to, const char *text, size_t bytes)
{
	flockfile(to);
	pthread_mutex_lock(&writing);
	if (!ends) {
		/* Through stdio: in order with what the application prints itself. */
		fwrite(text, 1, bytes, to);
		fflush(to);
	}
	pthread_mutex_unlock(&writing);
	funlockfile(to);
}

static void bring_text(struct vcuda_shm *shm)
{
	const struct call_options internal = {.internal = true};
	char text[PART];
	unsigned int bytes;

	while (atomic_load(&shm->output)) {
		if (vcuda_call_vcudaOutputRead_with(&internal, PART, &bytes, text) != CUDA_SUCCESS || !bytes ||
		    bytes > PART)
			break;
		write_text(stdout, text, bytes);
	}
}

/*
 * The limit ends waits that could last for ever: the thread that has the lock may wait for stdout, which this thread's
 * application code holds, or for the reader of a full pipe, which may be this thread. The worker may never answer.
 */
static bool lock_fetching(void)
{
	return client_lock_within(&fetching, 1000);
}

void libcuda_output_forward(struct vcuda_shm *shm)
{
	if (!lock_fetching())
		return;
	/* A thread that came to wait for another one's text may find none left. */
	if (atomic_load(&shm->output)) {
		atomic_store(&libcuda_output_in_flight, true);
		bring_text(shm);
		atomic_store(&libcuda_output_in_flight, false);
	}
	pthread_mutex_unlock(&fetching);
}

/*
 * The child's buffer is a copy. If a thread of the parent was writing, the parent writes all of that buffer, and the
 * child has no thread that gives the locks back.
 */
void libcuda_output_forked(void)
{
	if (pthread_mutex_trylock(&writing))
		__fpurge(stdout);
	writing = fetching = (pthread_mutex_t)UNLOCKED;
}

/*
 * Next, exit() writes the buffer of stdout without stdout's lock, so a thread that writes beside it doubles the text.
 * Text that a thread still fetches after the limit is lost. A thread that writes waits for the file alone, as exit()
 * does.
 */
__attribute__((destructor)) static void end_output(void)
{
	if (lock_fetching())
		pthread_mutex_unlock(&fetching);
	if (pthread_mutex_lock(&writing))
		return;
	ends = true;
	pthread_mutex_unlock(&writing);
}
