/* SPDX-License-Identifier: Apache-2.0 */
/* The client's identifiers of what a thread is in, for each kind a stack. */
#include "cupti.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct stack {
	uint64_t *all;
	size_t count, room;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

static void free_stacks(void *stacks)
{
	for (int kind = 0; kind < CUPTI_EXTERNALS; kind++)
		free(((struct stack *)stacks)[kind].all);
	free(stacks);
}

static void make_key(void)
{
	has_key = !pthread_key_create(&key, free_stacks);
}

/* The thread's, one for each kind. NULL: there is no memory, or none yet where none is to be made. */
static struct stack *stacks(bool make)
{
	struct stack *s;

	pthread_once(&once, make_key);
	s = has_key ? pthread_getspecific(key) : NULL;
	if (s || !make || !has_key)
		return s;
	s = calloc(CUPTI_EXTERNALS, sizeof(*s));
	if (s && pthread_setspecific(key, s)) {
		free(s);
		s = NULL;
	}
	return s;
}

static bool grow(struct stack *s)
{
	size_t room = s->room ? 2 * s->room : 16;
	uint64_t *more = s->count < s->room ? s->all : realloc(s->all, room * sizeof(*more));

	if (more && more != s->all)
		s->all = more;
	if (more && s->count == s->room)
		s->room = room;
	return more;
}

void cupti_external_read(struct vcuda_profile_tags *tags)
{
	const struct stack *s = stacks(false);

	for (int kind = 1; s && kind < CUPTI_EXTERNALS; kind++) {
		if (!s[kind].count)
			continue;
		tags->external[kind] = s[kind].all[s[kind].count - 1];
		tags->external_kinds |= 1u << kind;
	}
}

CUPTI_EXPORT cupti_result cuptiActivityPushExternalCorrelationId(uint32_t kind, uint64_t id)
{
	struct stack *s;

	if (!kind || kind >= CUPTI_EXTERNALS)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	s = stacks(true);
	if (!s || !grow(&s[kind]))
		return cupti_done(CUPTI_ERROR_OUT_OF_MEMORY);
	s[kind].all[s[kind].count++] = id;
	return CUPTI_SUCCESS;
}

CUPTI_EXPORT cupti_result cuptiActivityPopExternalCorrelationId(uint32_t kind, uint64_t *last)
{
	struct stack *s = stacks(false);

	if (!kind || kind >= CUPTI_EXTERNALS)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	if (!s || !s[kind].count)
		return cupti_done(CUPTI_ERROR_QUEUE_EMPTY);
	s[kind].count--;
	if (last)
		*last = s[kind].all[s[kind].count];
	return CUPTI_SUCCESS;
}
