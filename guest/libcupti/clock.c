/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of records are those of a clock that the client may choose, of any unit. The recorder has times of the
 * monotonic clock. Both clocks are read now and then, and times in between are interpolated. The client's clock is read
 * with no lock held.
 */
#include "cupti.h"

#include <pthread.h>
#include <time.h>

#include "common/deadline.h"

/* The comparisons that are kept: enough to interpolate the times of the last 10 s. A power of two. */
#define MOST 1024u
/* The comparisons but the last are at least so far apart. */
#define APART_NS 10000000u
/* Comparisons that are nearer do not tell how fast the client's clock goes. */
#define NEAREST_NS 1000000u

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

static uint64_t (*present_clock(void))(void)
{
	uint64_t (*clock)(void);

	pthread_mutex_lock(&lock);
	clock = client_clock;
	pthread_mutex_unlock(&lock);
	return clock;
}

static uint64_t read_clock(uint64_t (*clock)(void))
{
	return clock ? clock() : system_now();
}

static struct comparison compare(uint64_t (*clock)(void))
{
	struct comparison best = {0};
	uint64_t shortest = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = vcuda_now_ns(), client = read_clock(clock), took = vcuda_now_ns() - before;

		if (took < shortest)
			best = (struct comparison){before + took / 2, client};
		shortest = took < shortest ? took : shortest;
	}
	return best;
}

/* ---- with the lock held ---- */

static struct comparison *nth(uint64_t n)
{
	return &all[n % MOST];
}

/* Threads may come in another order than they have read the clocks. */
static void add(struct comparison c)
{
	if (count && c.ns <= nth(count - 1)->ns)
		return;
	if (count > 1 && nth(count - 1)->ns - nth(count - 2)->ns < APART_NS)
		count--;
	*nth(count++) = c;
}

/* ---- */

/* Two comparisons, which are not too near. */
static void start(uint64_t (*clock)(void))
{
	const struct comparison first = compare(clock);
	struct comparison second;

	do {
		nanosleep(&(struct timespec){.tv_nsec = NEAREST_NS}, NULL);
		second = compare(clock);
	} while (second.ns - first.ns < NEAREST_NS);
	pthread_mutex_lock(&lock);
	client_clock = clock;
	count = 0;
	add(first);
	add(second);
	pthread_mutex_unlock(&lock);
}

void cupti_clock_start(void)
{
	bool has_begun;

	pthread_mutex_lock(&lock);
	has_begun = count;
	pthread_mutex_unlock(&lock);
	if (!has_begun)
		start(NULL);
}

void cupti_clock_compare(void)
{
	uint64_t (*clock)(void) = present_clock();
	const struct comparison c = compare(clock);

	pthread_mutex_lock(&lock);
	if (clock == client_clock)
		add(c);
	pthread_mutex_unlock(&lock);
}

uint64_t cupti_clock_now(void)
{
	return read_clock(present_clock());
}

/* The client's clock by the line through two comparisons. */
static uint64_t interpolate(const struct comparison *a, const struct comparison *b, uint64_t ns)
{
	__int128 ticks = (__int128)(int64_t)(b->client - a->client) * (int64_t)(ns - a->ns);

	return b->ns == a->ns ? a->client : a->client + (uint64_t)(int64_t)(ticks / (int64_t)(b->ns - a->ns));
}

/* The last comparison that is not later. The times of first and last enclose `ns`. */
static uint64_t find(uint64_t first, uint64_t ns)
{
	uint64_t low = first, high = count - 2;

	while (low < high) {
		uint64_t middle = (low + high + 1) / 2;

		if (nth(middle)->ns <= ns)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

uint64_t cupti_clock_at(uint64_t ns)
{
	uint64_t first, n, at;

	pthread_mutex_lock(&lock);
	first = count > MOST ? count - MOST : 0;
	if (ns < nth(first)->ns || ns > nth(count - 1)->ns) {
		at = interpolate(nth(first), nth(count - 1), ns);
	} else {
		n = find(first, ns);
		at = interpolate(nth(n), nth(n + 1), ns);
	}
	pthread_mutex_unlock(&lock);
	return at;
}

void cupti_clock_forget(void)
{
	pthread_mutex_init(&lock, NULL);
}

/* Times of what was recorded before are those of the clock before, or those that this one would have had. */
CUPTI_EXPORT cupti_result cuptiActivityRegisterTimestampCallback(uint64_t (*now)(void))
{
	if (!now)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	start(now);
	return CUPTI_SUCCESS;
}

CUPTI_EXPORT cupti_result cuptiGetTimestamp(uint64_t *timestamp)
{
	if (!timestamp)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	*timestamp = cupti_clock_now();
	return CUPTI_SUCCESS;
}
