/* SPDX-License-Identifier: Apache-2.0 */
#include "device/ipc-event.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "device/context.h"
#include "device/event.h"
#include "common/log.h"
#include "device/ipc.h"
#include "common/share.h"
#include "common/start-thread.h"

#define PAGE 4096u

/* Records that may be under way at once: one that is done must not stand for one before it, on another stream. */
#define SLOTS (PAGE / 8 - 1)

/* Other processes may write any value here: a value only makes a thread wait, or not. */
struct numbers {
	_Atomic uint64_t begun, done[SLOTS];
};
_Static_assert(sizeof(struct numbers) == PAGE, "a page that is mapped as a whole");

struct softgpu_shared_event {
	unsigned int refs; /* the event, each record and each wait */
	bool offered;
	struct vcuda_share_handle handle; /* if we offer it */
	struct numbers *numbers;
	/*
	 * A record that is under way locks the byte of the file that has the number of its slot. If its process dies,
	 * Linux drops the lock, and the record counts as done. The descriptor belongs to this mapping alone, and so do
	 * its locks; `mine` has the numbers that the locks are for, 0: none.
	 */
	int fd;
	_Atomic uint64_t mine[SLOTS];
};

/* A stream's wait. */
struct await {
	struct softgpu_op op;
	struct softgpu_shared_event *event;
	uint64_t number;
	struct await *next; /* the next wait that a thread looks after */
};

/* A descriptor of the same file with locks of its own: a descriptor that was passed on shares its locks. */
static int reopen(int fd)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

static struct softgpu_shared_event *map(int fd)
{
	struct softgpu_shared_event *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->refs = 1;
	e->fd = reopen(fd);
	if (e->fd < 0) {
		vcuda_log("an event of several processes cannot be opened: %s", strerror(errno));
		goto free_event;
	}
	e->numbers = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, e->fd, 0);
	if (e->numbers != MAP_FAILED)
		return e;
	close(e->fd);
free_event:
	free(e);
	return NULL;
}

struct softgpu_shared_event *softgpu_shared_event_create(void)
{
	int fd = vcuda_share_file(PAGE);
	struct softgpu_shared_event *e = fd < 0 ? NULL : map(fd);

	if (!e) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	e->offered = vcuda_share_offer(VCUDA_SHARE_EVENT, (struct vcuda_share_part){0, PAGE}, fd, &e->handle);
	if (e->offered)
		return e;
	softgpu_shared_event_put(e);
	return NULL;
}

void softgpu_shared_event_get(struct softgpu_shared_event *e)
{
	e->refs++;
}

void softgpu_shared_event_put(struct softgpu_shared_event *e)
{
	if (!e || --e->refs)
		return;
	if (e->offered)
		vcuda_share_withdraw(&e->handle);
	munmap(e->numbers, PAGE);
	close(e->fd);
	free(e);
}

static bool lock_place(const struct softgpu_shared_event *e, uint64_t number, short type)
{
	struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)(number % SLOTS), .l_len = 1};

	return fcntl(e->fd, F_OFD_SETLK, &l) == 0;
}

/* Whether another process, or another mapping of this one, has a record under way in that place. */
static bool is_locked(const struct softgpu_shared_event *e, uint64_t number)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)(number % SLOTS), .l_len = 1};

	return fcntl(e->fd, F_OFD_GETLK, &l) || l.l_type != F_UNLCK;
}

/* Publishes the number that later waits wait for; false: a higher number was published already. */
static bool publish(struct softgpu_shared_event *e, uint64_t number)
{
	uint64_t newest = atomic_load(&e->numbers->begun);

	while (newest < number)
		if (atomic_compare_exchange_weak(&e->numbers->begun, &newest, number))
			return true;
	return false;
}

uint64_t softgpu_shared_event_begin(struct softgpu_shared_event *e)
{
	uint64_t number = atomic_load(&e->numbers->begun);

	for (unsigned int tries = 0; tries < SLOTS; tries++) {
		_Atomic uint64_t *mine = &e->mine[++number % SLOTS];

		/* Locked before others know of it, else they would take it for a dead process's. */
		if (atomic_load(mine) || !lock_place(e, number, F_WRLCK))
			continue;
		atomic_store(mine, number);
		if (publish(e, number))
			return number;
		atomic_store(mine, 0);
		lock_place(e, number, F_UNLCK);
		number = atomic_load(&e->numbers->begun);
	}
	return 0;
}

void softgpu_shared_event_finish(struct softgpu_shared_event *e, uint64_t number)
{
	_Atomic uint64_t *done = &e->numbers->done[number % SLOTS];
	uint64_t now = atomic_load(done);

	while (now < number && !atomic_compare_exchange_weak(done, &now, number))
		continue;
	atomic_store(&e->mine[number % SLOTS], 0);
	lock_place(e, number, F_UNLCK);
}

uint64_t softgpu_shared_event_newest(const struct softgpu_shared_event *e)
{
	return atomic_load(&e->numbers->begun);
}

bool softgpu_shared_event_done(const struct softgpu_shared_event *e, uint64_t number)
{
	if (atomic_load(&e->numbers->done[number % SLOTS]) >= number)
		return true;
	return atomic_load(&e->mine[number % SLOTS]) != number && !is_locked(e, number);
}

/* ---- waiting: no process wakes another, so one thread polls, more seldom the longer it takes ---- */

static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t awaits_lock = PTHREAD_MUTEX_INITIALIZER;
static struct await *awaits;

static void nap(unsigned int *us)
{
	nanosleep(&(struct timespec){.tv_nsec = *us * 1000L}, NULL);
	*us = *us < 1000 ? *us * 2 : 1000;
}

/* Takes those out that have ended. */
static struct await *take_ended(void)
{
	struct await *ended = NULL;

	pthread_mutex_lock(&awaits_lock);
	while (!awaits)
		pthread_cond_wait(&more, &awaits_lock);
	for (struct await **at = &awaits, *a; (a = *at);) {
		/* the operation keeps its stream, and that its context */
		const bool *cancel = &a->op.stream->context->cancel;

		if (!softgpu_shared_event_done(a->event, a->number) && !__atomic_load_n(cancel, __ATOMIC_RELAXED)) {
			at = &a->next;
			continue;
		}
		*at = a->next;
		a->next = ended;
		ended = a;
	}
	pthread_mutex_unlock(&awaits_lock);
	return ended;
}

static void *look(void *unused)
{
	unsigned int us = 20;

	for (;;) {
		struct await *ended = take_ended();

		if (!ended) {
			nap(&us);
			continue;
		}
		us = 20;
		softgpu_lock();
		while (ended) {
			struct await *a = ended;

			ended = a->next;
			softgpu_op_done(&a->op);
		}
		softgpu_unlock();
	}
	return unused;
}

static bool start_thread(void)
{
	static bool started;

	if (!started)
		started = vcuda_thread_start(look, NULL);
	return started;
}

static bool await_start(struct softgpu_op *op)
{
	struct await *a = (struct await *)op;

	pthread_mutex_lock(&awaits_lock);
	a->next = awaits;
	awaits = a;
	pthread_cond_signal(&more);
	pthread_mutex_unlock(&awaits_lock);
	return true;
}

static void await_finish(struct softgpu_op *op)
{
	struct await *a = (struct await *)op;

	softgpu_shared_event_put(a->event);
	free(a);
}

bool softgpu_shared_event_await(struct CUstream_st *stream, struct softgpu_shared_event *event, uint64_t number)
{
	struct await *a = start_thread() ? calloc(1, sizeof(*a)) : NULL;

	if (!a)
		return false;
	a->op.external = true;
	a->op.start = await_start;
	a->op.finish = await_finish;
	a->event = event;
	a->number = number;
	softgpu_shared_event_get(event);
	softgpu_submit(stream, &a->op, false);
	return true;
}

void softgpu_shared_event_sleep(struct CUctx_st *context, struct softgpu_shared_event *event, uint64_t number)
{
	unsigned int us = 20;

	softgpu_shared_event_get(event);
	while (!softgpu_shared_event_done(event, number) && softgpu_context_state(context) == CUDA_SUCCESS) {
		softgpu_unlock();
		nap(&us);
		softgpu_lock();
	}
	softgpu_shared_event_put(event);
}

/* ---- handles ---- */

CUresult softgpu_cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
	const struct softgpu_shared_event *shared;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	shared = softgpu_event_shared(event);
	/* an event that was opened here cannot be exported by this process */
	if (!pHandle || !shared || !shared->offered)
		return softgpu_leave(shared || !pHandle ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE);
	memcpy(pHandle, &shared->handle, sizeof(*pHandle));
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
	struct softgpu_shared_event *shared;
	struct vcuda_share_handle h;
	struct vcuda_share_part part;
	struct CUctx_st *c;
	CUresult result;
	bool whole;
	int fd;

	if (!phEvent)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&h, &handle, sizeof(h));
	if (vcuda_share_is_own(&h))
		return CUDA_ERROR_INVALID_CONTEXT;
	result = softgpu_ipc_result(vcuda_share_take(&h, VCUDA_SHARE_EVENT, &part, &fd));
	if (result != CUDA_SUCCESS)
		return result;
	whole = !part.offset && part.bytes == PAGE;
	shared = whole ? map(fd) : NULL;
	close(fd);
	if (!shared)
		return whole ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	result = softgpu_enter(&c);
	if (result != CUDA_SUCCESS) {
		softgpu_lock();
		softgpu_shared_event_put(shared);
		return softgpu_leave(result);
	}
	return softgpu_leave(softgpu_event_open(c, shared, phEvent));
}
