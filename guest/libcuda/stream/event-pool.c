/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/event-pool.h"

#include <pthread.h>

#include "core/context.h"

#define MOST 64

struct pooled_event {
	CUevent event;
	unsigned int flags;
	const struct libcuda_context *context;
	uint64_t generation; /* of the context */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pooled_event pool[MOST];
static unsigned int count;

bool libcuda_event_pool_put(struct libcuda_context *c, CUevent event, unsigned int flags, uint64_t generation)
{
	bool fits;

	if (flags & CU_EVENT_INTERPROCESS || generation != atomic_load(&c->generation))
		return false;
	pthread_mutex_lock(&lock);
	fits = count < MOST;
	if (fits)
		pool[count++] = (struct pooled_event){event, flags, c, generation};
	pthread_mutex_unlock(&lock);
	return fits;
}

bool libcuda_event_pool_take(struct libcuda_context *c, CUevent *event, unsigned int flags, uint64_t generation)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (unsigned int i = count; i-- > 0 && !found;) {
		found = pool[i].context == c && pool[i].generation == generation && pool[i].flags == flags;
		if (!found)
			continue;
		*event = pool[i].event;
		pool[i] = pool[--count];
	}
	pthread_mutex_unlock(&lock);
	return found;
}

void libcuda_event_pool_end_context(const struct libcuda_context *context)
{
	unsigned int left = 0;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < count; i++)
		if (pool[i].context != context)
			pool[left++] = pool[i];
	count = left;
	pthread_mutex_unlock(&lock);
}
