/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that one thread of a guest destroys while another one's commands use them, over a driver that trusts what it
 * is given and poisons what it frees. The sanitizers see the rest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "host/worker/memory/mapping.h"
#include "host/worker/session/command.h"
#include "host/worker/session/destroy.h"
#include "host/worker/session/dispatch.h"
#include "host/worker/session/session.h"
#include "host/worker/session/worker-table-slot.h"

#define ALIVE 0x600df00du
#define POISON 0xdeadbeefu
#define HITS 500

#define STREAM WORKER_ACCEPT(VCUDA_KIND_STREAM)
#define CONTEXT WORKER_ACCEPT(VCUDA_KIND_CONTEXT)

/* ---- a driver ---- */

struct object {
	uint32_t state;
};

static CUresult refusal;
static sem_t destroyed;
static _Atomic unsigned int order; /* of what was destroyed last */
static __thread CUcontext current;
static _Atomic(CUcontext) destroyed_in;

static void *object_new(void)
{
	struct object *o = malloc(sizeof(*o));

	o->state = ALIVE;
	return o;
}

/* Each call begins with this check. */
static void object_use(const void *object)
{
	if (((const struct object *)object)->state != ALIVE)
		abort();
}

static CUresult object_destroy(struct worker_session *s, void *object)
{
	object_use(object);
	if (refusal != CUDA_SUCCESS)
		return refusal;
	((struct object *)object)->state = POISON;
	free(object);
	sem_post(&destroyed);
	return CUDA_SUCCESS;
}

static CUresult stream_destroy(struct worker_session *s, void *object)
{
	order = order * 10 + 1;
	destroyed_in = current;
	return object_destroy(s, object);
}

static CUresult context_destroy(struct worker_session *s, void *object)
{
	order = order * 10 + 2;
	return object_destroy(s, object);
}

static CUresult get_current(CUcontext *context)
{
	*context = current;
	return CUDA_SUCCESS;
}

static CUresult set_current(CUcontext context)
{
	if (context)
		object_use(context);
	current = context;
	return CUDA_SUCCESS;
}

static CUresult context_ends(void)
{
	return CUDA_SUCCESS;
}

static struct vcuda_backend_ops ops;
static struct worker_session session;

/* Replacements of functions that the session calls. */
void worker_table_computes(void)
{
}

bool worker_mapping_covers(struct worker_mappings *t, const void *p, uint64_t bytes, bool writable)
{
	return false;
}

/* ---- commands ---- */

static const struct vcuda_command uses = {.op = VCUDA_OP_cuStreamQuery}, ends = {.op = VCUDA_OP_cuStreamDestroy_v2};

static uint64_t new_id(enum vcuda_kind kind, uint64_t context)
{
	return worker_handle_add(session.handles, kind, false, object_new(), 0, context);
}

/* The object that a command of this thread uses from now on, NULL: the id names nothing. */
static void *begin_use(uint32_t kinds, uint64_t id)
{
	void *object = (void *)(uintptr_t)id;

	worker_command_begin(&uses);
	return worker_resolve(&session, kinds, 0, &object) == CUDA_SUCCESS ? object : NULL;
}

static void end_use(void *object)
{
	object_use(object);
	worker_command_end(&session);
}

static CUresult destroy(uint32_t kinds, uint64_t id)
{
	CUresult result;

	worker_command_begin(&ends);
	result = worker_destroy(&session, kinds, (void *)(uintptr_t)id,
				kinds == STREAM ? stream_destroy : context_destroy);
	worker_command_end(&session);
	return result;
}

static bool is_destroyed(void)
{
	return !sem_trywait(&destroyed);
}

static void wait_destroyed(void)
{
	while (sem_wait(&destroyed))
		continue;
}

static int set_up(void **state)
{
	ops = (struct vcuda_backend_ops){.cuCtxGetCurrent = get_current, .cuCtxSetCurrent = set_current};
	refusal = CUDA_SUCCESS;
	order = 0;
	return sem_init(&destroyed, 0, 0);
}

static int tear_down(void **state)
{
	return sem_destroy(&destroyed);
}

/* Until a thread that destroys has removed the id. */
static void wait_removed(void)
{
	while (worker_handle_live(session.handles, VCUDA_KIND_STREAM))
		sched_yield();
}

/* ---- tests ---- */

static void unused_is_destroyed_at_once(void **state)
{
	uint64_t id = new_id(VCUDA_KIND_STREAM, 0);

	end_use(begin_use(STREAM, id));
	assert_int_equal(destroy(STREAM, id), CUDA_SUCCESS);
	assert_true(is_destroyed());
	assert_int_equal(destroy(STREAM, id), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(destroy(CONTEXT, id), CUDA_ERROR_INVALID_CONTEXT);
}

/* In the context of the command that destroyed it. */
static void last_user_destroys(void **state)
{
	uint64_t context = new_id(VCUDA_KIND_CONTEXT, 0), id = new_id(VCUDA_KIND_STREAM, context);
	const struct vcuda_command ends_in = {.op = VCUDA_OP_cuStreamDestroy_v2, .context = context};
	void *object = begin_use(STREAM, id), *in = begin_use(CONTEXT, context);

	assert_non_null(object);
	worker_command_begin(&ends_in);
	assert_int_equal(worker_destroy(&session, STREAM, (void *)(uintptr_t)id, stream_destroy), CUDA_SUCCESS);
	assert_false(is_destroyed());
	assert_null(worker_handle_get(session.handles, id, ~0u));
	assert_int_equal(worker_handle_live(session.handles, VCUDA_KIND_STREAM), 1);
	end_use(object);
	wait_destroyed();
	assert_ptr_equal(destroyed_in, in);
	wait_removed();
	assert_int_equal(destroy(CONTEXT, context), CUDA_SUCCESS);
	wait_destroyed();
}

/* Before the last user has ended: the object is destroyed in no context. */
static void context_of_the_destruction_goes(void **state)
{
	uint64_t context = new_id(VCUDA_KIND_CONTEXT, 0), id = new_id(VCUDA_KIND_STREAM, 0);
	const struct vcuda_command ends_in = {.op = VCUDA_OP_cuStreamDestroy_v2, .context = context};
	void *object = begin_use(STREAM, id);

	worker_command_begin(&ends_in);
	assert_int_equal(worker_destroy(&session, STREAM, (void *)(uintptr_t)id, stream_destroy), CUDA_SUCCESS);
	assert_int_equal(worker_destroy(&session, CONTEXT, (void *)(uintptr_t)context, context_destroy), CUDA_SUCCESS);
	assert_true(is_destroyed());
	end_use(object);
	wait_destroyed();
	assert_null(destroyed_in);
	wait_removed();
}

static void refused_destruction_leaves_the_object(void **state)
{
	uint64_t id = new_id(VCUDA_KIND_STREAM, 0);

	refusal = CUDA_ERROR_ILLEGAL_ADDRESS;
	assert_int_equal(destroy(STREAM, id), CUDA_ERROR_ILLEGAL_ADDRESS);
	refusal = CUDA_SUCCESS;
	end_use(begin_use(STREAM, id));
	assert_int_equal(destroy(STREAM, id), CUDA_SUCCESS);
}

/* A context ends after its objects. */
static void contexts_wait_for_their_objects(void **state)
{
	uint64_t context = new_id(VCUDA_KIND_CONTEXT, 0), id = new_id(VCUDA_KIND_STREAM, context);
	void *object = begin_use(STREAM, id);

	worker_command_begin(&ends);
	assert_int_equal(worker_destroy(&session, STREAM, (void *)(uintptr_t)id, stream_destroy), CUDA_SUCCESS);
	assert_int_equal(worker_destroy(&session, CONTEXT, (void *)(uintptr_t)context, context_destroy), CUDA_SUCCESS);
	assert_false(is_destroyed());
	end_use(object);
	wait_destroyed();
	wait_destroyed();
	assert_int_equal(order, 12);
	wait_removed();
}

/* A back end that ends calls with their context is asked at once. It has destroyed the stream as well. */
static void contexts_that_end_calls_do_not_wait(void **state)
{
	uint64_t context = new_id(VCUDA_KIND_CONTEXT, 0), id = new_id(VCUDA_KIND_STREAM, context);
	void *object = begin_use(STREAM, id);

	ops.contextEnds = context_ends;
	assert_int_equal(worker_destroy(&session, STREAM, (void *)(uintptr_t)id, stream_destroy), CUDA_SUCCESS);
	assert_int_equal(worker_destroy(&session, CONTEXT, (void *)(uintptr_t)context, context_destroy), CUDA_SUCCESS);
	assert_true(is_destroyed());
	end_use(object);
	assert_int_equal(order, 2);
	free(object);
}

static void set_stack_size(size_t bytes)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, bytes);
	assert_int_equal(pthread_setattr_default_np(&attributes), 0);
	pthread_attr_destroy(&attributes);
}

/* The last user's thread keeps its context, and destroys nothing. */
static void no_thread_can_be_started(void **state)
{
	uint64_t context = new_id(VCUDA_KIND_CONTEXT, 0), ids[2];
	const struct vcuda_command ends_in = {.op = VCUDA_OP_cuStreamDestroy_v2, .context = context};
	CUcontext own = object_new();
	void *objects[2];

	for (int i = 0; i < 2; i++) {
		ids[i] = new_id(VCUDA_KIND_STREAM, 0);
		objects[i] = begin_use(STREAM, ids[i]);
		worker_command_begin(&ends_in);
		assert_int_equal(worker_destroy(&session, STREAM, (void *)(uintptr_t)ids[i], stream_destroy),
				 CUDA_SUCCESS);
	}
	set_current(own);
	/* More than there are addresses. */
	set_stack_size((size_t)1 << 47);
	for (int i = 0; i < 2; i++) {
		object_use(objects[i]);
		if (worker_handle_put(session.handles, ids[i]))
			worker_destroy_ready(&session);
	}
	set_stack_size(8 << 20);
	for (int i = 0; i < 2; i++)
		wait_destroyed();
	assert_ptr_equal(current, own);
	assert_non_null(destroyed_in);
	wait_removed();
	set_current(NULL);
	free(own);
	assert_int_equal(destroy(CONTEXT, context), CUDA_SUCCESS);
	wait_destroyed();
}

static _Atomic uint64_t victim;
static _Atomic bool over;
static _Atomic unsigned int hits;

static void *use_all_the_time(void *argument)
{
	while (!over) {
		uint64_t id = victim;
		void *object = begin_use(STREAM, id);

		/* Gives the other thread time to destroy it. */
		while (object && victim == id)
			object_use(object);
		hits += object != NULL;
		if (object)
			object_use(object);
		worker_command_end(&session);
	}
	return argument;
}

/* Ends when the users have had many of the objects in use as these were destroyed. */
static void two_threads(void **state)
{
	unsigned int rounds = 0;
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use_all_the_time, NULL), 0);
	for (; hits < HITS; rounds++) {
		uint64_t id = new_id(VCUDA_KIND_STREAM, 0);

		victim = id;
		end_use(begin_use(STREAM, id));
		assert_int_equal(destroy(STREAM, id), CUDA_SUCCESS);
		victim = 0;
	}
	over = true;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	while (rounds--)
		wait_destroyed();
	wait_removed();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(unused_is_destroyed_at_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(last_user_destroys, set_up, tear_down),
		cmocka_unit_test_setup_teardown(context_of_the_destruction_goes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(refused_destruction_leaves_the_object, set_up, tear_down),
		cmocka_unit_test_setup_teardown(contexts_wait_for_their_objects, set_up, tear_down),
		cmocka_unit_test_setup_teardown(contexts_that_end_calls_do_not_wait, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_thread_can_be_started, set_up, tear_down),
		cmocka_unit_test_setup_teardown(two_threads, set_up, tear_down),
	};

	session.ops = &ops;
	session.handles = worker_handles_create();
	if (!worker_destroy_start())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
