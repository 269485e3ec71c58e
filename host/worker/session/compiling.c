/* SPDX-License-Identifier: Apache-2.0 */
#include "session/compiling.h"

#include <pthread.h>

#include "session/compile-rows.h"

static struct {
	pthread_mutex_t lock;
	struct worker_session *session; /* NULL: there is no guest yet */
	void (*wake)(struct worker_session *s);
	struct worker_compiling *first; /* the oldest */
	uint32_t last, shown, done;     /* numbers */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* With the lock. The oldest compilation is the one that most commands wait for. */
static void show(void)
{
	const struct worker_compiling *c = state.first;
	bool wake = false;

	if (!state.session)
		return;
	if (!c)
		vcuda_compiling_end(state.session->shm, state.done);
	else if (c->number != state.shown)
		wake = vcuda_compiling_begin(state.session->shm, c->number, state.done, c->kernel);
	state.shown = c ? c->number : 0;
	if (wake)
		state.wake(state.session);
}

void worker_compiling_tell(struct worker_session *s, void (*wake)(struct worker_session *s))
{
	pthread_mutex_lock(&state.lock);
	state.session = s;
	state.wake = wake;
	show();
	pthread_mutex_unlock(&state.lock);
}

void worker_compiling_begin(struct worker_compiling *c, const char *kernel)
{
	struct worker_compiling **place;

	*c = (struct worker_compiling){.kernel = kernel};
	pthread_mutex_lock(&state.lock);
	/* 0 is none. */
	c->number = ++state.last ? state.last : ++state.last;
	for (place = &state.first; *place; place = &(*place)->next)
		;
	*place = c;
	show();
	pthread_mutex_unlock(&state.lock);
}

void worker_compiling_end(struct worker_compiling *c)
{
	struct worker_compiling **place;

	pthread_mutex_lock(&state.lock);
	for (place = &state.first; *place != c; place = &(*place)->next)
		;
	*place = c->next;
	state.done++;
	show();
	pthread_mutex_unlock(&state.lock);
}

void worker_compiling_count(const struct vcuda_compiled *compiled)
{
	struct worker_session *s;

	pthread_mutex_lock(&state.lock);
	s = state.session;
	pthread_mutex_unlock(&state.lock);
	if (s)
		worker_compile_rows_add(s, compiled);
}
