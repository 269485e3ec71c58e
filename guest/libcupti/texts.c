/* SPDX-License-Identifier: Apache-2.0 */
/* Names of ranges, which records point to. */
#include "cupti.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 4096u

struct text {
	struct text *next;
	char chars[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct text *all[BUCKETS];

static unsigned int bucket_of(const char *text)
{
	uint32_t hash = 2166136261u;

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * 16777619u;
	return hash % BUCKETS;
}

/* With the lock held. */
static struct text *find(struct text **bucket, const char *text)
{
	size_t bytes = strlen(text) + 1;
	struct text *t = *bucket;

	while (t && strcmp(t->chars, text))
		t = t->next;
	if (t)
		return t;
	t = malloc(sizeof(*t) + bytes);
	if (!t)
		return NULL;
	memcpy(t->chars, text, bytes);
	t->next = *bucket;
	*bucket = t;
	return t;
}

const char *cupti_text_keep(const char *text)
{
	const struct text *t;

	if (!text)
		return NULL;
	pthread_mutex_lock(&lock);
	t = find(&all[bucket_of(text)], text);
	pthread_mutex_unlock(&lock);
	return t ? t->chars : NULL;
}

void cupti_text_fork(void)
{
	pthread_mutex_init(&lock, NULL);
}
