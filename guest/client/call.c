/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's end of the ring. A call takes a reply slot (if it waits), then the ring lock, reserves room, and keeps
 * the lock until it has published: so commands stand in the order of the API calls. Waiting for a reply holds no lock.
 */
#include "call.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "guest/libcuda/core/context.h"
#include "guest/libcuda/core/hooks.h"
#include "guest/libcuda/stream/known.h"
#include "log.h"
#include "guest/libcuda/core/output.h"
#include "protocol/probe.h"
#include "session.h"
#include "guest/libcuda/core/thread.h"

/*
 * How long a waiter looks at its reply slot before it sleeps: longer than a short call, shorter than a time slice. With
 * a GPU, for which NVIDIA's driver looks without end, it goes on for as long as that pays for the wake-up
 * (transport.h), and lets others run in between.
 */
#define SPIN_NS 50000

_Static_assert(VCUDA_SLOTS == 64, "the slots in use are the bits of one word");

static pthread_mutex_t ring_lock = PTHREAD_MUTEX_INITIALIZER;
static struct vcuda_producer producer;

/*
 * Of the last command that leaves a device something to do, whichever context's: it may be in a stream of another one
 * than it is called in. One that is waited for leaves it when it is answered, since others may overtake it in the
 * worker.
 */
static uint64_t busy_seq;
/* The last of these that may be in a stream which the default one does not wait for. */
static uint64_t apart_seq;
static sem_t free_slots;
static _Atomic uint64_t used_slots;
static uint64_t spin_ns;
static bool profile;

void vcuda_call_attach(void *shm)
{
	vcuda_producer_init(&producer, shm);
	atomic_store(&producer.shm->profile, profile);
	sem_init(&free_slots, 0, VCUDA_SLOTS);
	spin_ns = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? SPIN_NS : 0;
}

void vcuda_call_profile(void)
{
	profile = true;
}

void vcuda_call_wait_for_gpu(void)
{
	if (spin_ns)
		spin_ns = vcuda_session.transport->ops->gpu_spin_ns;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t take_slot(void)
{
	uint64_t used = atomic_load(&used_slots);

	while (sem_wait(&free_slots) < 0)
		continue;
	for (;;) {
		uint64_t lowest = ~used & (used + 1);

		/* The semaphore says that a bit is clear, but not that our copy of the word is new. */
		if (!lowest)
			used = atomic_load(&used_slots);
		else if (atomic_compare_exchange_weak(&used_slots, &used, used | lowest))
			return (uint32_t)__builtin_ctzll(lowest);
	}
}

static void give_slot(uint32_t slot)
{
	atomic_fetch_and(&used_slots, ~(1ull << slot));
	sem_post(&free_slots);
}

static CUresult lose_if_gone(int err)
{
	if (err == -EPIPE || err == -ENODEV)
		vcuda_session_lose(CUDA_ERROR_LAUNCH_FAILED);
	return vcuda_session_error();
}

/* Sleeps until the worker may have done something. Returns the session's error, 0 if it lives. */
static CUresult sleep_while(bool (*blocked)(void *), void *argument)
{
	struct vcuda_transport *t = vcuda_session.transport;
	struct vcuda_shm *shm = producer.shm;
	int err = 0;
	uint32_t seen;

	/* seq_cst, then look again: the worker stores what we wait for first and reads `waiters` then. */
	atomic_fetch_add(&shm->waiters, 1);
	seen = atomic_load(&shm->wake);
	if (!atomic_load(&shm->lost) && blocked(argument)) {
		VCUDA_PROBE(guest_sleep);
		err = t->ops->wait(t, seen, 0);
		VCUDA_PROBE(guest_wake);
	}
	atomic_fetch_sub(&shm->waiters, 1);
	return lose_if_gone(err);
}

CUresult vcuda_call_worker_lives(void)
{
	struct vcuda_transport *t = vcuda_session.transport;

	/* A wait that need not last says so, too. */
	return lose_if_gone(t->ops->wait(t, atomic_load(&producer.shm->wake), 1));
}

/* Calls blocked() for a while with the processor, then asleep in between, until it is false. Returns the session's
 * error. */
static CUresult look_or_sleep_while(bool (*blocked)(void *), void *argument)
{
	CUresult error = CUDA_SUCCESS;
	uint64_t start = 0;

	while (blocked(argument)) {
		uint64_t now = now_ns();

		if (!start)
			start = now;
		if (now - start < spin_ns) {
			for (int i = 0; i < 16 && blocked(argument); i++)
				__builtin_ia32_pause();
			if (now - start > SPIN_NS)
				sched_yield();
			continue;
		}
		error = sleep_while(blocked, argument);
		/* What was answered before the worker went is an answer. */
		if (error)
			return blocked(argument) ? error : CUDA_SUCCESS;
	}
	return CUDA_SUCCESS;
}

static CUresult wait_while(bool (*blocked)(void *), void *argument)
{
	uint64_t start = profile ? now_ns() : 0;
	CUresult result = look_or_sleep_while(blocked, argument);

	if (profile)
		vcuda_thread()->waited_ns += now_ns() - start;
	return result;
}

CUresult vcuda_call_wait_while(bool (*blocked)(void *argument), void *argument)
{
	return wait_while(blocked, argument);
}

struct vcuda_shm *vcuda_call_shm(void)
{
	return producer.shm;
}

static bool ring_is_full(void *unused)
{
	return !vcuda_producer_may_retry(&producer);
}

/* Room in the ring; the caller holds the ring lock, so that nobody overtakes it. */
static CUresult reserve(struct vcuda_call *call, uint32_t bytes)
{
	while (!(call->command = vcuda_producer_reserve(&producer, bytes))) {
		CUresult error;

		vcuda_thread()->stalls++;
		vcuda_producer_want_room(&producer);
		error = vcuda_session_error();
		if (error == CUDA_SUCCESS)
			error = wait_while(ring_is_full, NULL);
		if (error)
			return error;
	}
	return CUDA_SUCCESS;
}

static void raise(uint64_t *at, uint64_t to)
{
	if (*at < to)
		*at = to;
}

void vcuda_call_settles(void)
{
	struct vcuda_context *context = vcuda_context_calling();

	pthread_mutex_lock(&ring_lock);
	raise(&context->settled_seq, vcuda_thread()->seq);
	pthread_mutex_unlock(&ring_lock);
}

void vcuda_call_idles(void)
{
	struct vcuda_context *context = vcuda_context_calling();

	pthread_mutex_lock(&ring_lock);
	raise(&context->settled_seq, vcuda_thread()->seq);
	raise(&context->idle_seq, vcuda_thread()->seq);
	pthread_mutex_unlock(&ring_lock);
}

bool vcuda_call_offers_marks(void)
{
	return atomic_load_explicit(&producer.shm->marks, memory_order_relaxed) && spin_ns && !vcuda_mirror_ops() &&
	       vcuda_session.transport->host_minor;
}

void vcuda_call_only_settled(void)
{
	vcuda_thread()->call_settled = true;
}

void vcuda_call_any(void)
{
	vcuda_thread()->call_settled = false;
}

static bool is_settled(const struct vcuda_context *context)
{
	return context && busy_seq < context->settled_seq;
}

bool vcuda_call_is_idle(void)
{
	const struct vcuda_context *context = vcuda_context_calling();
	bool idle;

	pthread_mutex_lock(&ring_lock);
	idle = is_settled(context) && apart_seq <= context->idle_seq && vcuda_context_is_only_one();
	pthread_mutex_unlock(&ring_lock);
	return idle;
}

bool vcuda_call_is_taken(uint64_t position)
{
	return atomic_load_explicit(&producer.shm->head, memory_order_relaxed) >= position;
}

bool vcuda_call_may_look(void)
{
	return spin_ns;
}

/* With the ring lock held: whether the call can be made now, and in the order of the calls. */
static CUresult enter_ring(struct vcuda_call *call, const struct vcuda_context *context, uint32_t bytes)
{
	if (vcuda_thread()->call_settled && !is_settled(context))
		return CUDA_ERROR_NOT_READY;
	return reserve(call, bytes);
}

/* What goes before it is made whatever it is made for. */
static void before_others(const struct vcuda_mirror_ops *mirror, unsigned int op)
{
	struct vcuda_thread *thread = vcuda_thread();
	bool only_settled = thread->call_settled;

	thread->call_settled = false;
	mirror->before(op);
	thread->call_settled = only_settled;
}

CUresult vcuda_call_begin(struct vcuda_call *call, unsigned int op, size_t bytes)
{
	struct vcuda_thread *thread = vcuda_thread();
	struct vcuda_context *context = vcuda_context_calling();
	const struct vcuda_call_info *info = &vcuda_call_table[op];
	size_t size = sizeof(struct vcuda_command) + bytes;
	const struct vcuda_mirror_ops *mirror;
	CUresult error;

	if (!vcuda_session_attached())
		return CUDA_ERROR_NOT_INITIALIZED;
	error = vcuda_session_error();
	if (error)
		return error;
	if (size > VCUDA_COMMAND_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (info->since_minor > vcuda_session.transport->host_minor)
		return CUDA_ERROR_NOT_SUPPORTED;
	mirror = vcuda_mirror_ops();
	if (mirror)
		before_others(mirror, op);
	*call = (struct vcuda_call){.sync = info->sync || thread->call_sync,
				    .op = op,
				    .result = CUDA_ERROR_UNKNOWN,
				    .work = &vcuda_known_other_work};
	VCUDA_PROBE3(call_begin, op, info->name, call->sync);
	/* A thread that is cancelled in here would keep the ring lock or a slot for ever. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call->cancel_state);
	if (call->sync)
		call->slot = take_slot();
	else
		thread->queued++;
	pthread_mutex_lock(&ring_lock);
	error = enter_ring(call, context, (uint32_t)size);
	if (error) {
		pthread_mutex_unlock(&ring_lock);
		vcuda_call_end(call);
		return error;
	}
	call->command->op = (uint16_t)op;
	call->command->flags = call->sync ? VCUDA_COMMAND_SYNC : 0;
	call->command->context = context ? (uint64_t)(uintptr_t)context->id : 0;
	call->command->slot = call->slot;
	call->command->thread = thread->number;
	call->writer = vcuda_writer_init(call->command + 1, bytes);
	return CUDA_SUCCESS;
}

static bool reply_is_missing(void *call)
{
	struct vcuda_call *c = call;
	struct vcuda_thread *thread = vcuda_thread();

	while (atomic_load(&vcuda_shm_slot(producer.shm, c->slot)->done) != c->seq)
		if (!thread->meanwhile || !thread->meanwhile(thread->meanwhile_argument))
			return true;
	return false;
}

/* With the ring lock held. */
static void note_work(const struct vcuda_call *call)
{
	const struct vcuda_call_info *info = &vcuda_call_table[call->op];
	bool apart = false;

	if (!info->quiet || !info->sync)
		apart = vcuda_known_issued(call->work, producer.tail);
	if (info->quiet)
		return;
	busy_seq = producer.seq;
	if (apart)
		apart_seq = producer.seq;
}

static CUresult wait_reply(struct vcuda_call *call)
{
	struct vcuda_slot *slot = vcuda_shm_slot(producer.shm, call->slot);
	struct vcuda_context *context = vcuda_context_calling();
	CUresult result;
	uint32_t bytes;

	vcuda_thread()->waits++;
	result = wait_while(reply_is_missing, call);
	if (result)
		return result;
	/* Others may have overtaken it in the worker: what it leaves to do, it leaves now. */
	if (!vcuda_call_table[call->op].quiet || !vcuda_call_table[call->op].sync) {
		pthread_mutex_lock(&ring_lock);
		call->position = producer.tail;
		note_work(call);
		pthread_mutex_unlock(&ring_lock);
	}
	result = call->result = (CUresult)slot->result;
	bytes = slot->bytes;
	if (bytes > VCUDA_REPLY_MAX)
		bytes = 0;
	call->reader = vcuda_reader_init(slot->data, bytes);
	if (context && vcuda_is_sticky(result))
		atomic_store(&context->error, result);
	if (vcuda_call_table[call->op].waits && (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY))
		vcuda_known_heard(context);
	return result;
}

CUresult vcuda_call_submit(struct vcuda_call *call)
{
	struct vcuda_transport *t = vcuda_session.transport;
	uint32_t bytes = (uint32_t)(call->writer.at - (uint8_t *)call->command);
	bool ring;

	/* The sizes were computed from the same arguments: only a string that another thread changes meanwhile can go
	 * wrong here. */
	if (call->writer.error) {
		pthread_mutex_unlock(&ring_lock);
		return CUDA_ERROR_INVALID_VALUE;
	}
	ring = vcuda_producer_publish(&producer, call->command, bytes);
	call->seq = producer.seq;
	call->position = vcuda_thread()->position = producer.tail;
	vcuda_thread()->seq = call->seq;
	vcuda_thread()->launched = call->op == VCUDA_OP_vcudaLaunchKernel || call->op == VCUDA_OP_vcudaGraphLaunch;
	note_work(call);
	pthread_mutex_unlock(&ring_lock);
	if (ring) {
		VCUDA_PROBE(doorbell);
		t->ops->doorbell(t);
	}
	return call->sync ? wait_reply(call) : CUDA_SUCCESS;
}

CUresult vcuda_call_check(struct vcuda_call *call)
{
	if (vcuda_reader_finished(&call->reader))
		return CUDA_SUCCESS;
	vcuda_log_once("the worker's answer to a call does not decode; host and guest may be of different builds");
	return CUDA_ERROR_UNKNOWN;
}

void vcuda_call_end(struct vcuda_call *call)
{
	const struct vcuda_mirror_ops *mirror;

	VCUDA_PROBE2(call_end, call->op, call->result);
	if (call->sync) {
		give_slot(call->slot);
		/* What the worker printed before it answered comes before what the application prints next. */
		if (vcuda_output_is_due(producer.shm))
			vcuda_output_forward(producer.shm);
		mirror = vcuda_mirror_ops();
		if (mirror)
			mirror->after(call->op, call->result);
		/* Those made calls of their own. */
		vcuda_thread()->seq = call->seq;
		vcuda_thread()->position = call->position;
	}
	pthread_setcancelstate(call->cancel_state, NULL);
}
