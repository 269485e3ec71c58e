/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/event-pool.h"

#include <pthread.h>

#include "core/context.h"

#define MOST 64

struct kept {
	CUevent event;
	unsigned int flags;
	const struct vcuda_context *context;
	uint64_t life; /* of the context */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept kept[MOST];
static unsigned int count;

bool vcuda_event_pool_keep(struct vcuda_context *c, CUevent event, unsigned int flags, uint64_t life)
{
	bool fits;

	if (flags & CU_EVENT_INTERPROCESS || life != atomic_load(&c->life))
		return false;
	pthread_mutex_lock(&lock);
	fits = count < MOST;
	if (fits)
		kept[count++] = (struct kept){event, flags, c, life};
	pthread_mutex_unlock(&lock);
	return fits;
}

bool vcuda_event_pool_take(struct vcuda_context *c, CUevent *event, unsigned int flags, uint64_t life)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (unsigned int i = count; i-- > 0 && !found;) {
		found = kept[i].context == c && kept[i].life == life && kept[i].flags == flags;
		if (!found)
			continue;
		*event = kept[i].event;
		kept[i] = kept[--count];
	}
	pthread_mutex_unlock(&lock);
	return found;
}

void vcuda_event_pool_end_context(const struct vcuda_context *context)
{
	unsigned int left = 0;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < count; i++)
		if (kept[i].context != context)
			kept[left++] = kept[i];
	count = left;
	pthread_mutex_unlock(&lock);
}
