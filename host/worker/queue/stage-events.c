/* SPDX-License-Identifier: Apache-2.0 */
#include "queue/stage-events.h"

#include <pthread.h>

#include "session/command.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct worker_stage_events spare_events; /* of count 0: none */
static uint64_t generation;		       /* moves when a context ends: what was taken before is not kept */

static void destroy(struct worker_session *s, struct worker_stage_events *set)
{
	while (set->count)
		s->ops->cuEventDestroy_v2(set->events[--set->count]);
}

CUresult worker_stage_events_take(struct worker_session *s, struct worker_stage_events *set, unsigned int count)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&lock);
	*set = spare_events;
	spare_events.count = 0;
	set->generation = generation;
	pthread_mutex_unlock(&lock);
	if (set->context != worker_command_context())
		destroy(s, set);
	set->context = worker_command_context();
	while (set->count < count && result == CUDA_SUCCESS)
		if ((result = s->ops->cuEventCreate(&set->events[set->count], CU_EVENT_DISABLE_TIMING)) == CUDA_SUCCESS)
			set->count++;
	return result;
}

void worker_stage_events_give(struct worker_session *s, struct worker_stage_events *set, bool good)
{
	struct worker_stage_events old = *set;

	pthread_mutex_lock(&lock);
	if (good && set->generation == generation) {
		old = spare_events;
		spare_events = *set;
	}
	pthread_mutex_unlock(&lock);
	destroy(s, &old);
}

void worker_stage_events_drop(struct worker_session *s)
{
	struct worker_stage_events old;

	pthread_mutex_lock(&lock);
	generation++;
	old = spare_events;
	spare_events.count = 0;
	pthread_mutex_unlock(&lock);
	destroy(s, &old);
}
