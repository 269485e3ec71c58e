/* SPDX-License-Identifier: Apache-2.0 */
#include "module/image-name.h"

#include <endian.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/image-cache.h"
#include "module/sha256.h"
#include "common/start-thread.h"

_Static_assert(sizeof(struct vcuda_image_name) == LIBCUDA_SHA256_BYTES, "a name is a hash");

/* A thread besides the caller's is worth its start, some 40 us, from so many bytes on. */
#define HELPED_BYTES (1u << 20)
#define MOST_HELPERS 3

/* Who does: the caller, and helpers, of which one may come when all is done, and touches no more than this then. */
struct job {
	const uint8_t *data;
	size_t bytes, parts;
	size_t pairs; /* of parts; the last may be of one */
	_Atomic size_t next, done;
	_Atomic unsigned int users;
	sem_t finished;
	uint8_t hashes[][LIBCUDA_SHA256_BYTES];
};

static void leave(struct job *job)
{
	if (atomic_fetch_sub(&job->users, 1) > 1)
		return;
	sem_destroy(&job->finished);
	free(job);
}

static size_t part_bytes(const struct job *job, size_t part)
{
	size_t left = job->bytes - part * VCUDA_IMAGE_PART_BYTES;

	return left < VCUDA_IMAGE_PART_BYTES ? left : VCUDA_IMAGE_PART_BYTES;
}

static void hash_pair(struct job *job, size_t pair)
{
	size_t first = 2 * pair, second = first + 1;
	const uint8_t *data = job->data + first * VCUDA_IMAGE_PART_BYTES;

	if (second < job->parts && part_bytes(job, second) == VCUDA_IMAGE_PART_BYTES) {
		libcuda_sha256_two((const void *const[]){data, data + VCUDA_IMAGE_PART_BYTES}, VCUDA_IMAGE_PART_BYTES,
				   (uint8_t *const[]){job->hashes[first], job->hashes[second]});
		return;
	}
	libcuda_sha256(data, part_bytes(job, first), job->hashes[first]);
	if (second < job->parts)
		libcuda_sha256(data + VCUDA_IMAGE_PART_BYTES, part_bytes(job, second), job->hashes[second]);
}

static void work(struct job *job)
{
	size_t pair;

	while ((pair = atomic_fetch_add(&job->next, 1)) < job->pairs) {
		hash_pair(job, pair);
		if (atomic_fetch_add(&job->done, 1) + 1 == job->pairs)
			sem_post(&job->finished);
	}
}

static void *help(void *job)
{
	work(job);
	leave(job);
	return NULL;
}

static void call_helpers(struct job *job)
{
	/* The application's handlers may give pages of its memory their contents. */
	static const int faults[] = {SIGSEGV, SIGBUS, 0};
	size_t wanted = job->bytes / HELPED_BYTES;
	cpu_set_t ours;

	if (sched_getaffinity(0, sizeof(ours), &ours))
		return;
	if (wanted > MOST_HELPERS)
		wanted = MOST_HELPERS;
	for (size_t n = 0; n < wanted && n + 1 < (size_t)CPU_COUNT(&ours); n++) {
		atomic_fetch_add(&job->users, 1);
		if (vcuda_thread_start_with(NULL, faults, help, job))
			continue;
		atomic_fetch_sub(&job->users, 1);
		return;
	}
}

static void hash_hashes(const struct job *job, struct vcuda_image_name *name)
{
	uint64_t length = htole64(job->bytes);
	struct libcuda_sha256 sha;

	libcuda_sha256_start(&sha);
	libcuda_sha256_add(&sha, VCUDA_IMAGE_NAME_PREFIX, strlen(VCUDA_IMAGE_NAME_PREFIX));
	libcuda_sha256_add(&sha, &length, sizeof(length));
	libcuda_sha256_add(&sha, job->hashes, job->parts * LIBCUDA_SHA256_BYTES);
	libcuda_sha256_end(&sha, name->bytes);
}

bool libcuda_image_name_of(const void *data, size_t bytes, struct vcuda_image_name *name)
{
	size_t parts = (bytes + VCUDA_IMAGE_PART_BYTES - 1) / VCUDA_IMAGE_PART_BYTES;
	struct job *job = malloc(sizeof(*job) + parts * LIBCUDA_SHA256_BYTES);
	int cancel_state;

	if (!job)
		return false;
	*job = (struct job){.data = data, .bytes = bytes, .parts = parts, .pairs = (parts + 1) / 2, .users = 1};
	sem_init(&job->finished, 0, !job->pairs);
	/* A thread that is cancelled in here would leave others with its image. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	call_helpers(job);
	work(job);
	while (sem_wait(&job->finished) < 0)
		continue;
	hash_hashes(job, name);
	leave(job);
	pthread_setcancelstate(cancel_state, NULL);
	return true;
}
