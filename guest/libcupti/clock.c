/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of records are those of a clock that the client may choose, whose units nobody knows. The recorder has times of
 * the monotonic clock. Both clocks are read now and then, and times in between are interpolated.
 */
#include "cupti.h"

#include <pthread.h>
#include <time.h>

#include "common/deadline.h"

/* So many comparisons are kept, at least 10 ms apart: times of the last seconds are interpolated. A power of two. */
#define MOST 1024u

#define TRIES 3

struct comparison {
	uint64_t ns, client;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t (*client_clock)(void); /* NULL: the system's */
static struct comparison all[MOST];    /* the nth is at n % MOST */
static uint64_t count;

static uint64_t system_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t client_now(void)
{
	return client_clock ? client_clock() : system_now();
}

static struct comparison compare(void)
{
	struct comparison best = {0};
	uint64_t shortest = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = vcuda_now_ns(), client = client_now(), took = vcuda_now_ns() - before;

		if (took < shortest)
			best = (struct comparison){before + took / 2, client};
		shortest = took < shortest ? took : shortest;
	}
	return best;
}

static void compare_locked(void)
{
	all[count++ % MOST] = compare();
}

void cupti_clock_compare(void)
{
	pthread_mutex_lock(&lock);
	compare_locked();
	pthread_mutex_unlock(&lock);
}

uint64_t cupti_clock_now(void)
{
	uint64_t now;

	pthread_mutex_lock(&lock);
	now = client_now();
	pthread_mutex_unlock(&lock);
	return now;
}

/* The client's clock by the line through two comparisons. */
static uint64_t interpolate(const struct comparison *a, const struct comparison *b, uint64_t ns)
{
	__int128 ticks = (__int128)(int64_t)(b->client - a->client) * (int64_t)(ns - a->ns);

	return b->ns == a->ns ? a->client : a->client + (uint64_t)(int64_t)(ticks / (int64_t)(b->ns - a->ns));
}

uint64_t cupti_clock_at(uint64_t ns)
{
	uint64_t first, low, high, at;

	pthread_mutex_lock(&lock);
	/* The first of two comparisons between which the time is: those that are there end after it. */
	while (count < 2 || (all[(count - 1) % MOST].ns < ns && vcuda_now_ns() >= ns))
		compare_locked();
	first = count > MOST ? count - MOST : 0;
	low = first;
	high = count - 2;
	while (low < high) {
		uint64_t middle = (low + high + 1) / 2;

		if (all[middle % MOST].ns <= ns)
			low = middle;
		else
			high = middle - 1;
	}
	at = interpolate(&all[low % MOST], &all[(low + 1) % MOST], ns);
	pthread_mutex_unlock(&lock);
	return at;
}

void cupti_clock_forget(void)
{
	pthread_mutex_init(&lock, NULL);
}

/* The times of what was recorded before are those of the clock before, or of neither. */
CUPTI_EXPORT cupti_result cuptiActivityRegisterTimestampCallback(uint64_t (*now)(void))
{
	if (!now)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	pthread_mutex_lock(&lock);
	client_clock = now;
	count = 0;
	compare_locked();
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

CUPTI_EXPORT cupti_result cuptiGetTimestamp(uint64_t *timestamp)
{
	if (!timestamp)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	*timestamp = cupti_clock_now();
	return CUPTI_SUCCESS;
}
