/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of pageable memory go in pieces, and are one record. Pieces and the end of their call come in any order. */
#include "cupti.h"

#include <pthread.h>

#define MOST 256u

struct copy {
	struct vcuda_profile_work whole; /* so far; its `copy` is 0: the place is free */
	uint32_t pieces, all;            /* all: 0: the call has not ended */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct copy copies[MOST];
static unsigned int next; /* place to be taken where all are */

/* With the lock held. */
static void finish(struct copy *c)
{
	if (c->pieces)
		cupti_record_copy(&c->whole);
	*c = (struct copy){0};
}

/* With the lock held. The copy of a number, which may be new. */
static struct copy *find(uint32_t number)
{
	struct copy *unused = NULL;

	for (unsigned int i = 0; i < MOST; i++) {
		if (copies[i].whole.copy == number)
			return &copies[i];
		if (!copies[i].whole.copy)
			unused = &copies[i];
	}
	if (!unused) {
		unused = &copies[next++ % MOST];
		finish(unused);
	}
	unused->whole.copy = number;
	return unused;
}

static void finish_if_complete(struct copy *c)
{
	if (c->all && c->pieces >= c->all)
		finish(c);
}

void cupti_pieces_add(const struct vcuda_profile_work *work)
{
	struct copy *c;

	pthread_mutex_lock(&lock);
	c = find(work->copy);
	if (!c->pieces++) {
		c->whole = *work;
	} else {
		c->whole.bytes += work->bytes;
		c->whole.begin = work->begin < c->whole.begin ? work->begin : c->whole.begin;
		c->whole.end = work->end > c->whole.end ? work->end : c->whole.end;
	}
	finish_if_complete(c);
	pthread_mutex_unlock(&lock);
}

void cupti_pieces_end(const struct vcuda_profile_note *note)
{
	struct copy *c;

	pthread_mutex_lock(&lock);
	c = find(note->copy);
	c->all = note->pieces;
	finish_if_complete(c);
	pthread_mutex_unlock(&lock);
}

void cupti_pieces_flush(void)
{
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < MOST; i++)
		finish(&copies[i]);
	pthread_mutex_unlock(&lock);
}

void cupti_pieces_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	for (unsigned int i = 0; i < MOST; i++)
		copies[i] = (struct copy){0};
}
