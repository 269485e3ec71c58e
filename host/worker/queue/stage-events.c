/* SPDX-License-Identifier: Apache-2.0 */
#include "queue/stage-events.h"

#include <pthread.h>

#include "session/command.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vcuda_stage_events kept; /* of count 0: none */
static uint64_t life;		       /* moves when a context ends: what was taken before is not kept */

static void destroy(struct vcuda_session *s, struct vcuda_stage_events *set)
{
	while (set->count)
		s->ops->cuEventDestroy_v2(set->events[--set->count]);
}

CUresult vcuda_stage_events_take(struct vcuda_session *s, struct vcuda_stage_events *set, unsigned int count)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&lock);
	*set = kept;
	kept.count = 0;
	set->life = life;
	pthread_mutex_unlock(&lock);
	if (set->context != vcuda_command_context())
		destroy(s, set);
	set->context = vcuda_command_context();
	while (set->count < count && result == CUDA_SUCCESS)
		if ((result = s->ops->cuEventCreate(&set->events[set->count], CU_EVENT_DISABLE_TIMING)) == CUDA_SUCCESS)
			set->count++;
	return result;
}

void vcuda_stage_events_give(struct vcuda_session *s, struct vcuda_stage_events *set, bool good)
{
	struct vcuda_stage_events old = *set;

	pthread_mutex_lock(&lock);
	if (good && set->life == life) {
		old = kept;
		kept = *set;
	}
	pthread_mutex_unlock(&lock);
	destroy(s, &old);
}

void vcuda_stage_events_drop(struct vcuda_session *s)
{
	struct vcuda_stage_events old;

	pthread_mutex_lock(&lock);
	life++;
	old = kept;
	kept.count = 0;
	pthread_mutex_unlock(&lock);
	destroy(s, &old);
}
