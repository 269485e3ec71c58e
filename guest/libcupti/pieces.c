/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of pageable memory go in pieces, and are one record. So are all nodes of a graph while graphs are recorded as
 * a whole. Parts and the end of their call come in any order.
 */
#include "cupti.h"

#include <pthread.h>

#define MOST 256u

struct whole {
	struct vcuda_profile_work work; /* so far; its `copy` is 0: the place is free */
	uint64_t node;
	uint32_t pieces;
	uint32_t all; /* parts of the call; 0: the call has not ended */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct whole wholes[MOST];
static unsigned int next; /* place to be taken where all are */

/* With the lock held. */
static void finish(struct whole *w)
{
	if (w->pieces)
		cupti_record_whole(&w->work);
	*w = (struct whole){0};
}

/* With the lock held. A place, which may be new. */
static struct whole *find(uint32_t copy, uint64_t node)
{
	struct whole *unused = NULL;
	uint32_t all = 0;

	for (unsigned int i = 0; i < MOST; i++) {
		if (wholes[i].work.copy == copy && wholes[i].node == node)
			return &wholes[i];
		if (wholes[i].work.copy == copy)
			all = wholes[i].all;
		if (!wholes[i].work.copy)
			unused = &wholes[i];
	}
	if (!unused) {
		unused = &wholes[next++ % MOST];
		finish(unused);
	}
	unused->work.copy = copy;
	unused->node = node;
	unused->all = all;
	return unused;
}

/* With the lock held. Ends what the call has done if that is `all`. Returns whether it was. */
static bool finish_call(uint32_t copy, uint32_t all)
{
	uint32_t pieces = 0;

	for (unsigned int i = 0; i < MOST; i++)
		if (wholes[i].work.copy == copy)
			pieces += wholes[i].pieces;
	if (!all || pieces < all)
		return false;
	for (unsigned int i = 0; i < MOST; i++)
		if (wholes[i].work.copy == copy)
			finish(&wholes[i]);
	return true;
}

void cupti_pieces_add(const struct vcuda_profile_work *work, uint64_t node)
{
	struct whole *w;

	pthread_mutex_lock(&lock);
	w = find(work->copy, node);
	if (!w->pieces++) {
		w->work = *work;
	} else {
		w->work.bytes += work->bytes;
		w->work.begin = work->begin < w->work.begin ? work->begin : w->work.begin;
		w->work.end = work->end > w->work.end ? work->end : w->work.end;
	}
	finish_call(work->copy, w->all);
	pthread_mutex_unlock(&lock);
}

void cupti_pieces_end(uint32_t copy, uint32_t all)
{
	bool is_known = false;

	pthread_mutex_lock(&lock);
	if (!finish_call(copy, all)) {
		for (unsigned int i = 0; i < MOST; i++) {
			if (wholes[i].work.copy != copy)
				continue;
			wholes[i].all = all;
			is_known = true;
		}
		if (!is_known)
			find(copy, 0)->all = all;
	}
	pthread_mutex_unlock(&lock);
}

void cupti_pieces_flush(void)
{
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < MOST; i++)
		finish(&wholes[i]);
	pthread_mutex_unlock(&lock);
}

void cupti_pieces_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	for (unsigned int i = 0; i < MOST; i++)
		wholes[i] = (struct whole){0};
}
