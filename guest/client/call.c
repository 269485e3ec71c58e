/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's end of the ring. A call takes a reply slot (if it waits), then the ring lock, reserves room, and keeps
 * the lock until it has published, so commands are in the order of the API calls. Waiting for a reply holds no lock.
 */
#include "call.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/deadline.h"
#include "common/log.h"
#include "common/probe.h"
#include "guest/progress/progress.h"
#include "protocol/activity-rows.h"
#include "protocol/call-info.h"
#include "section.h"
#include "session.h"

/*
 * How long a thread polls its reply slot before it sleeps: longer than a short call, shorter than a time slice. With a
 * GPU, where NVIDIA's driver polls without end, a thread polls for as long as that pays for the wake-up (transport.h),
 * and yields the processor in between.
 */
#define SPIN_NS 50000

/* How often a thread tries to get the ring lock before it sleeps. A thread that writes a command has it for less. */
#define LOCK_TRIES 100

_Static_assert(VCUDA_SLOTS == 64, "the slots in use are the bits of one word");

static pthread_mutex_t ring_lock = PTHREAD_MUTEX_INITIALIZER;
static struct vcuda_producer producer;
static unsigned int lock_tries;     /* LOCK_TRIES, or 0 where the holder could not run meanwhile */
static _Atomic bool waits_for_room; /* the thread with the ring lock waits for room, and writes nothing meanwhile */
static bool holds_ring;             /* the thread that has closed calls has the ring lock */

/*
 * The number of the last command, of any context, that left the device work: its stream may belong to another context.
 * A call that waits is counted when it is answered, since others may overtake it in the worker.
 */
static uint64_t busy_seq;
/* The last such command whose stream may be non-blocking, so that the default stream does not wait for it. */
static uint64_t non_blocking_seq;

struct call_queue client_call_all, client_call_non_blocking, client_call_untracked = {.non_blocking = true};

static sem_t free_slots;
static _Atomic uint64_t used_slots;
static uint64_t spin_ns;
static _Atomic uint32_t profile; /* VCUDA_PROFILE_* */

_Atomic(client_call_observe) client_call_observer;

/*
 * Threads of a program with several GPUs write commands at the same time, and to sleep takes longer than to write one.
 * A thread that waits for room in the ring keeps the lock for long.
 */
static void lock_ring(void)
{
	for (unsigned int n = 0; n < lock_tries && !atomic_load_explicit(&waits_for_room, memory_order_relaxed); n++) {
		if (!pthread_mutex_trylock(&ring_lock))
			return;
		for (int pause = 0; pause < 4; pause++)
			__builtin_ia32_pause();
	}
	pthread_mutex_lock(&ring_lock);
}

void client_call_attach(void *shm)
{
	vcuda_producer_init(&producer, shm);
	client_call_profile(0, 0);
	sem_init(&free_slots, 0, VCUDA_SLOTS);
	spin_ns = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? SPIN_NS : 0;
	lock_tries = spin_ns ? LOCK_TRIES : 0;
}

void client_call_profile(uint32_t set, uint32_t clear)
{
	lock_ring();
	atomic_store(&profile, (profile | set) & ~clear);
	if (producer.shm && !client_session_forked()) {
		client_section_enter();
		atomic_store(&producer.shm->profile, profile);
		client_section_leave();
	}
	pthread_mutex_unlock(&ring_lock);
}

unsigned int client_call_places(void)
{
	return profile & VCUDA_PROFILE_ACTIVITIES ? 3 : 1; /* an event on each side */
}

void client_call_wait_for_gpu(void)
{
	if (spin_ns)
		spin_ns = client_session.transport->ops->gpu_spin_ns;
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

static int wait_transport(void *transport, uint32_t seen, uint32_t timeout_us)
{
	struct client_transport *t = transport;
	int err;

	VCUDA_PROBE(guest_sleep);
	err = t->ops->wait(t, seen, timeout_us);
	VCUDA_PROBE(guest_wake);
	return err;
}

struct sleep {
	bool (*blocked)(void *argument);
	void *argument;
	uint32_t compiling; /* the compilation that was looked at */
};

static bool has_no_news(void *sleep)
{
	const struct sleep *s = sleep;

	return s->blocked(s->argument) && atomic_load(&producer.shm->compiling.number) == s->compiling;
}

/* Sleeps until the worker may have done something. Returns 0 or the session's error. */
static int sleep_while(bool (*blocked)(void *), void *argument)
{
	struct sleep sleep = {blocked, argument, atomic_load(&producer.shm->compiling.number)};
	uint32_t limit_us = client_progress_look(producer.shm);
	int err;

	client_section_enter();
	err = vcuda_shm_sleep(producer.shm, wait_transport, client_session.transport, limit_us, has_no_news, &sleep);
	client_section_leave();
	return client_session_check(err);
}

int client_call_worker_check(void)
{
	struct client_transport *t = client_session.transport;
	int err;

	client_section_enter();
	/* The shortest wait reports a worker that is gone, too. */
	err = t->ops->wait(t, atomic_load(&producer.shm->wake), 1);
	client_section_leave();
	return client_session_check(err);
}

/* Polls blocked() for a while, then sleeps between looks, until it is false. Returns 0 or the session's error. */
static int poll_or_sleep_while(bool (*blocked)(void *), void *argument)
{
	uint64_t start = 0;

	while (blocked(argument)) {
		uint64_t now = vcuda_now_ns();
		int error;

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
		/* An answer that came before the worker went counts. */
		if (error)
			return blocked(argument) ? error : 0;
	}
	return 0;
}

int client_call_wait_while(bool (*blocked)(void *argument), void *argument)
{
	int result = poll_or_sleep_while(blocked, argument);

	client_progress_end();
	return result;
}

static int wait_while(struct call_thread *thread, bool (*blocked)(void *), void *argument)
{
	uint64_t start = profile ? vcuda_now_ns() : 0;
	int result = client_call_wait_while(blocked, argument);

	if (start)
		thread->waited_ns += vcuda_now_ns() - start;
	return result;
}

struct vcuda_shm *client_call_shm(void)
{
	return producer.shm;
}

static bool ring_is_full(void *unused)
{
	return !vcuda_producer_may_retry(&producer);
}

/* While calls are closed the wait does not end. */
static int wait_for_room(struct client_call *call)
{
	int error;

	atomic_store(&waits_for_room, true);
	error = wait_while(call->thread, ring_is_full, NULL);
	client_section_enter();
	atomic_store(&waits_for_room, false);
	client_section_leave();
	return error;
}

/* Room in the ring. The caller holds the ring lock, so that no thread overtakes this one. */
static int reserve(struct client_call *call, uint32_t bytes)
{
	while (!(call->command = vcuda_producer_reserve(&producer, bytes))) {
		int error;

		call->thread->stalls++;
		vcuda_producer_want_room(&producer);
		error = client_session_error();
		if (!error)
			error = wait_for_room(call);
		if (error)
			return error;
	}
	return 0;
}

/* ---- drained and idle contexts ---- */

static void raise(uint64_t *at, uint64_t to)
{
	if (*at < to)
		*at = to;
}

void client_call_drained(struct call_context *context, const struct call_receipt *receipt)
{
	lock_ring();
	raise(&context->drained_seq, receipt->seq);
	pthread_mutex_unlock(&ring_lock);
}

void client_call_idle(struct call_context *context, const struct call_receipt *receipt)
{
	lock_ring();
	raise(&context->drained_seq, receipt->seq);
	raise(&context->idle_seq, receipt->seq);
	pthread_mutex_unlock(&ring_lock);
}

static bool is_drained(const struct call_context *context)
{
	return context && busy_seq < context->drained_seq;
}

bool client_call_is_drained(const struct call_context *context)
{
	bool drained;

	lock_ring();
	drained = is_drained(context);
	pthread_mutex_unlock(&ring_lock);
	return drained;
}

bool client_call_is_idle(const struct call_context *context)
{
	bool idle;

	lock_ring();
	idle = is_drained(context) && non_blocking_seq <= context->idle_seq;
	pthread_mutex_unlock(&ring_lock);
	return idle;
}

bool client_call_is_taken(uint64_t position)
{
	return atomic_load_explicit(&producer.shm->head, memory_order_relaxed) >= position;
}

bool client_call_may_poll(void)
{
	return spin_ns;
}

/* Plain stores: the ring lock, which the caller holds, orders them. */
static void note_command(struct call_queue *queue, const struct client_call *call)
{
	atomic_store_explicit(&queue->issued, producer.tail, memory_order_relaxed);
	atomic_store_explicit(&queue->launched, call->launches, memory_order_relaxed);
}

/* With the ring lock held. */
static void note_work(const struct client_call *call)
{
	const struct vcuda_call_info *info = &vcuda_call_table[call->request->op];
	struct call_queue *queue = call->request->queue ? call->request->queue : &client_call_untracked;
	bool non_blocking = atomic_load(&queue->non_blocking);

	if (!info->quiet || !info->sync) {
		note_command(queue, call);
		note_command(&client_call_all, call);
		if (non_blocking)
			note_command(&client_call_non_blocking, call);
	}
	if (info->quiet)
		return;
	busy_seq = producer.seq;
	if (non_blocking)
		non_blocking_seq = producer.seq;
}

/* ---- a call ---- */

/* With the ring lock held. */
static int enter_ring(struct client_call *call, uint32_t bytes)
{
	if (call->options->only_drained && !is_drained(call->context))
		return CALL_NOT_DRAINED;
	return reserve(call, bytes);
}

static int check(const struct vcuda_call_info *info, size_t size)
{
	int error;

	if (!client_session_attached())
		return CALL_NOT_CONNECTED;
	error = client_session_error();
	if (error)
		return error;
	if (size > VCUDA_COMMAND_MAX)
		return CALL_TOO_LARGE;
	return info->since_minor > client_session.transport->host_minor ? CALL_UNKNOWN : 0;
}

static void fill_in_header(const struct client_call *call)
{
	const struct call_context *context = call->context;

	call->command->op = (uint16_t)call->request->op;
	call->command->flags = call->sync ? VCUDA_COMMAND_SYNC : 0;
	call->command->context = context ? (uint64_t)(uintptr_t)context->id : 0;
	call->command->slot = call->slot;
	call->command->thread = call->thread->number;
}

/* With the ring lock held. Sets `ring` to whether the worker has to be woken. */
static int publish(struct client_call *call, bool *ring)
{
	const struct call_request *request = call->request;
	client_call_observe observe;
	uint32_t bytes;
	int error = enter_ring(call, (uint32_t)(sizeof(struct vcuda_command) + request->bytes));

	if (error)
		return error;
	fill_in_header(call);
	call->writer = vcuda_writer_init(call->command + 1, request->bytes);
	request->encode(&call->writer, request->arguments);
	/* The size comes from the same arguments: only a string that another thread changes meanwhile can fail here. */
	if (call->writer.error)
		return CALL_MALFORMED;
	bytes = (uint32_t)(call->writer.at - (uint8_t *)call->command);
	observe = atomic_load_explicit(&client_call_observer, memory_order_acquire);
	if (observe)
		observe(producer.seq + 1, call);
	*ring = vcuda_producer_publish(&producer, call->command, bytes);
	call->receipt = (struct call_receipt){producer.seq, producer.tail};
	call->thread->last_seq = producer.seq;
	if (!call->thread->first_seq)
		call->thread->first_seq = producer.seq;
	note_work(call);
	return 0;
}

int client_call_ring_doorbell(void)
{
	struct client_transport *t = client_session.transport;
	int err;

	client_section_enter();
	err = t->ops->doorbell(t);
	client_section_leave();
	return client_session_check(err);
}

static int send(struct client_call *call)
{
	bool ring = false;
	int error;

	lock_ring();
	error = publish(call, &ring);
	pthread_mutex_unlock(&ring_lock);
	if (ring) {
		VCUDA_PROBE(doorbell);
		error = client_call_ring_doorbell();
	}
	return error;
}

static bool reply_is_missing(void *call)
{
	const struct client_call *c = call;
	const struct call_options *o = c->options;

	while (atomic_load(&vcuda_shm_slot(producer.shm, c->slot)->done) != c->receipt.seq)
		if (!o->meanwhile || !o->meanwhile(o->argument))
			return true;
	return false;
}

static int wait_reply(struct client_call *call)
{
	const struct vcuda_call_info *info = &vcuda_call_table[call->request->op];
	int error;

	call->thread->waits++;
	error = wait_while(call->thread, reply_is_missing, call);
	if (error)
		return error;
	/* Other commands may have overtaken this one in the worker: count the work that it leaves from now on. */
	if (!info->quiet || !info->sync) {
		lock_ring();
		call->receipt.position = producer.tail;
		note_work(call);
		pthread_mutex_unlock(&ring_lock);
	}
	call->answered = true;
	call->result = vcuda_shm_slot(producer.shm, call->slot)->result;
	return call->result;
}

static int decode(const struct client_call *call)
{
	const struct call_request *request = call->request;
	struct vcuda_slot *slot = vcuda_shm_slot(producer.shm, call->slot);
	uint32_t bytes = slot->bytes;
	struct vcuda_reader reader = vcuda_reader_init(slot->data, bytes > VCUDA_REPLY_MAX ? 0 : bytes);

	request->decode(&reader, request->arguments);
	return vcuda_reader_finished(&reader) ? 0 : CALL_BAD_ANSWER;
}

/* The call has a reply slot if it waits. */
static int send_and_wait(struct client_call *call)
{
	int result = send(call);

	if (result)
		return result;
	if (call->sync)
		result = wait_reply(call);
	if (call->options->receipt)
		*call->options->receipt = call->receipt;
	return result || !call->answered || !call->request->decode ? result : decode(call);
}

int client_call(struct client_call *call)
{
	const struct vcuda_call_info *info = &vcuda_call_table[call->request->op];
	int result = check(info, sizeof(struct vcuda_command) + call->request->bytes);
	unsigned int depth;

	call->sync = info->sync || call->options->wait;
	call->answered = false;
	if (result)
		return result;
	VCUDA_PROBE3(call_begin, call->request->op, info->name, call->sync);
	/* A thread that is cancelled in a call would keep the ring lock or a slot for ever. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call->cancel_state);
	depth = client_section_suspend();
	if (call->sync)
		call->slot = take_slot();
	else
		call->thread->queued++;
	result = send_and_wait(call);
	VCUDA_PROBE2(call_end, call->request->op, result);
	if (call->sync)
		give_slot(call->slot);
	client_section_resume(depth);
	pthread_setcancelstate(call->cancel_state, NULL);
	return result;
}

/* ---- for the thread that closes calls ---- */

void client_call_wake(void)
{
	/* Through the mapping that both sides have, as local_wait() sleeps. */
	syscall(SYS_futex, &producer.shm->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool is_closed(void)
{
	if (!holds_ring)
		holds_ring = pthread_mutex_trylock(&ring_lock) == 0;
	return client_section_is_empty() && (holds_ring || atomic_load(&waits_for_room));
}

bool client_call_close(unsigned int ms)
{
	uint64_t end = vcuda_now_ns() + ms * UINT64_C(1000000);

	client_section_close();
	while (!is_closed()) {
		if (vcuda_now_ns() >= end) {
			client_call_open();
			return false;
		}
		client_call_wake();
		nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
	}
	return true;
}

void client_call_open(void)
{
	client_section_open();
	if (holds_ring)
		pthread_mutex_unlock(&ring_lock);
	holds_ring = false;
}

void client_call_forked(void)
{
	client_section_forked();
	pthread_mutex_init(&ring_lock, NULL);
}
