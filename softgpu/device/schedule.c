/* SPDX-License-Identifier: Apache-2.0 */
#include "device/schedule.h"

#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#include "at-work.h"
#include "backend-cpu.h"
#include "device/context.h"
#include "device/device.h"
#include "device/event.h"
#include "device/memory.h"
#include "common/deadline.h"
#include "common/start-thread.h"
#include "device/stream.h"
#include "turn.h"

/* More units than an operation's chunk are claimed while they take less than that. */
#define SHORT_NS 50000

/* A copy or kernel that takes this long is worth a claim. */
#define LEAST_NS 5000

/* After this long in one operation a worker looks for others, of higher priority or other streams. */
#define SLICE_NS 2000000

/*
 * Kernels that wait for others hold their workers. Up to this many workers are added for the others; an added worker
 * rests this long.
 */
#define MOST_HELPERS 32                 /* may run kernels that have a worker already, and so may be lost for others */
#define MOST_EXTRA (127 + MOST_HELPERS) /* a GPU runs 128 kernels at once */
#define EXTRA_REST_NS 200000000

/*
 * Workers beyond the device's number take little from other processes, however many they are. Each process then gets
 * about as much of the processors as its device has workers. Each further worker has less weight: the first has a
 * third, and all together weigh three workers. A worker whose kernel waits leaves the processors to them, the longer
 * the more they are.
 */
#define EXTRA_NICE 4
#define MOST_NICE 19
#define WAIT_NS_OF_EXTRA 50000
#define MOST_WAIT_NS 5000000

/*
 * Beyond this many operations, or bytes in them, a thread that submits more waits, unless the worker says otherwise. A
 * GPU's streams hold about a thousand operations.
 */
#define MOST_PENDING (1u << 18)
#define MOST_HELD (128ull << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;       /* workers: something became ready */
static pthread_cond_t extra_work = PTHREAD_COND_INITIALIZER; /* the same for workers beyond the device's number */
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;       /* waiting threads: something ended */
static unsigned int idle, idle_extra;                        /* workers that sleep, of either kind */
static unsigned int extra;                                   /* workers beyond the device's number */
static int own_nice;                                         /* the program may run under `nice` */
static unsigned int waiting;                                 /* threads that sleep in softgpu_wait_any() */
static uint64_t submitted;
static uint64_t pending;                                 /* submitted operations that have not ended */
static uint64_t held;                                    /* bytes in these */
static struct vcuda_list busy = VCUDA_LIST_INIT(busy);   /* streams with work */
static struct vcuda_list ready = VCUDA_LIST_INIT(ready); /* operations with unclaimed units, by priority */

void softgpu_lock(void)
{
	pthread_mutex_lock(&lock);
}

void softgpu_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

uint64_t softgpu_submitted(void)
{
	return submitted;
}

bool softgpu_has_room(uint64_t bytes)
{
	uint64_t commands = MOST_PENDING, most = MOST_HELD;

	if (softgpu_meter())
		softgpu_meter()->queue(&commands, &most);
	if (pending >= commands)
		return false;
	return !bytes || !held || (held < most && bytes <= most - held && softgpu_host_room(bytes));
}

void softgpu_wait_any(void)
{
	waiting++;
	pthread_cond_wait(&done, &lock);
	waiting--;
}

void softgpu_wake_waiters(void)
{
	if (waiting)
		pthread_cond_broadcast(&done);
}

static void make_ready(struct softgpu_op *op)
{
	struct vcuda_list *where = ready.next;

	/* A smaller number is a higher priority. */
	while (where != &ready &&
	       container_of(where, struct softgpu_op, ready)->stream->priority <= op->stream->priority)
		where = where->next;
	vcuda_list_add(&op->ready, where);
}

static void signal_some(pthread_cond_t *condition, unsigned int sleepers, uint64_t wanted)
{
	if (sleepers && wanted >= sleepers)
		pthread_cond_broadcast(condition);
	else
		while (sleepers && wanted--)
			pthread_cond_signal(condition);
}

/* Workers beyond the device's number are for kernels that find no other worker. */
static void wake_workers(uint64_t units)
{
	unsigned int most = softgpu_device()->threads;

	signal_some(&work, idle, units);
	if (!idle)
		signal_some(&extra_work, idle_extra, units < most ? units : most);
}

/* Whether anything of `stream` is older than `seq`. */
static bool older(const struct CUstream_st *stream, uint64_t seq)
{
	return stream->head && stream->head->seq < seq;
}

/* Whether the context of an operation holds anything older: in streams that hold, or in all. */
static bool older_in_context(const struct softgpu_op *op, bool that_hold)
{
	vcuda_list_for_each (node, &busy) {
		const struct CUstream_st *other = container_of(node, struct CUstream_st, busy);

		if (other->context == op->stream->context && (other->holds || !that_hold) && older(other, op->seq))
			return true;
	}
	return false;
}

static bool is_dropped(const struct softgpu_op *op)
{
	return op->stream->context->error || op->stream->context->abandoned;
}

/* Whether it comes after all that it must come after. */
static bool is_its_turn(const struct softgpu_op *op)
{
	const struct CUstream_st *stream = op->stream;

	if (op->after && !softgpu_record_done(op->after))
		return false;
	if (stream->gathers && older_in_context(op, false))
		return false;
	if (!stream->inner && stream->context->holds && older_in_context(op, true))
		return false;
	if (!stream->legacy)
		return !stream->blocking || !older(&stream->context->null_stream, op->seq);
	vcuda_list_for_each (node, &busy) {
		const struct CUstream_st *other = container_of(node, struct CUstream_st, busy);

		if (other->blocking && other->context == stream->context && older(other, op->seq))
			return false;
	}
	return true;
}

static bool may_start(const struct softgpu_op *op)
{
	return is_dropped(op) || (is_its_turn(op) && (!op->due || op->due(op)));
}

/* Whether a stream of the context waits for a value, and nothing of the context runs or may start. */
static bool is_stuck(const struct CUctx_st *context)
{
	bool waits = false;

	vcuda_list_for_each (node, &busy) {
		const struct softgpu_op *op = container_of(node, struct CUstream_st, busy)->head;

		if (op->stream->context != context)
			continue;
		if (op->started || may_start(op))
			return false;
		waits |= op->due && is_its_turn(op);
	}
	return waits;
}

bool softgpu_is_stuck(void)
{
	vcuda_list_for_each (node, &busy) {
		const struct softgpu_op *op = container_of(node, struct CUstream_st, busy)->head;

		if (op->started || may_start(op))
			return false;
	}
	return true;
}

/* Takes the first operation, which has ended, off its stream. The stream may be gone afterwards. */
static void pop(struct CUstream_st *stream)
{
	struct softgpu_op *op = stream->head;

	stream->head = op->next;
	pending--;
	held -= op->bytes;
	if (!stream->head) {
		stream->tail = &stream->head;
		vcuda_list_remove(&stream->busy);
	}
	op->finish(op);
	if (!stream->head)
		softgpu_stream_put(stream);
}

/*
 * Starts what may start. Returns false if the first operation has to wait or now runs; true if it is gone, so that
 * others may go on.
 */
static bool advance(struct CUstream_st *stream, const struct softgpu_op *caller_runs)
{
	struct softgpu_op *op = stream->head;

	if (op->started || !may_start(op))
		return false;
	op->started = true;
	if (is_dropped(op) || (op->start && !op->start(op)) || (op->units == 0 && !op->external)) {
		pop(stream);
		return true;
	}
	if (op->external)
		return false;
	softgpu_turn_want();
	make_ready(op);
	if (op != caller_runs)
		wake_workers(op->units);
	return false;
}

static void dispatch(const struct softgpu_op *caller_runs)
{
	bool moved;

	do {
		moved = false;
		for (struct vcuda_list *node = busy.next, *next; node != &busy; node = next) {
			/* `next` stays: advance() removes no stream but its own. */
			next = node->next;
			moved |= advance(container_of(node, struct CUstream_st, busy), caller_runs);
		}
	} while (moved);
}

static void complete(struct softgpu_op *op)
{
	pop(op->stream);
	dispatch(NULL);
	softgpu_wake_waiters();
}

void softgpu_schedule_again(void)
{
	dispatch(NULL);
}

void softgpu_op_done(struct softgpu_op *op)
{
	complete(op);
}

bool softgpu_submit(struct CUstream_st *stream, struct softgpu_op *op, bool caller_runs)
{
	op->next = NULL;
	vcuda_list_init(&op->ready);
	op->stream = stream;
	op->seq = ++submitted;
	pending++;
	held += op->bytes;
	op->claimed = 0;
	op->active = 0;
	op->started = false;
	if (!op->chunk)
		op->chunk = 1;
	if (op->most < op->chunk)
		op->most = op->chunk;
	caller_runs = caller_runs && op->units == 1;
	stream->last = op->seq;
	*stream->tail = op;
	stream->tail = &op->next;
	if (stream->head != op)
		return false;
	stream->refs++;
	vcuda_list_add(&stream->busy, &busy);
	/* An operation without units may end in this call, which frees `op`. */
	caller_runs = caller_runs && may_start(op);
	dispatch(caller_runs ? op : NULL);
	return caller_runs;
}

bool softgpu_op_claim(struct softgpu_op *op, uint64_t *unit)
{
	*unit = __atomic_fetch_add(&op->claimed, 1, __ATOMIC_RELAXED);
	return *unit < op->units;
}

void softgpu_op_abandon(struct softgpu_op *op)
{
	__atomic_store_n(&op->claimed, op->units, __ATOMIC_RELAXED);
}

static bool claimed_all(const struct softgpu_op *op)
{
	return __atomic_load_n(&op->claimed, __ATOMIC_RELAXED) >= op->units;
}

/*
 * Whether one more thread may run units of it. A thread of the program that waits is one more than the workers: if all
 * of them ran the same operation, one would have no processor, and the others would wait in the end for what it has
 * claimed.
 */
static bool has_work(const struct softgpu_op *op)
{
	return !claimed_all(op) && op->active < softgpu_device()->threads;
}

/*
 * The number of units that a thread claims next. Neighbours mostly use neighbouring memory, or the same: small pieces
 * move data from one processor's cache to another's, and waste prefetches. At the end, small pieces let all threads
 * finish together.
 */
static uint64_t next_chunk(const struct softgpu_op *op, uint64_t chunk, uint64_t took)
{
	uint64_t claimed = __atomic_load_n(&op->claimed, __ATOMIC_RELAXED), least = chunk * LEAST_NS / (took + 1) + 1;
	uint64_t pieces = softgpu_device()->threads * (op->in_rows ? 2u : 16u);
	uint64_t share = claimed < op->units ? (op->units - claimed) / pieces : 0;

	if (took < SHORT_NS)
		chunk *= 2;
	chunk = chunk < op->most ? chunk : op->most;
	chunk = chunk < share ? chunk : share;
	least = least < op->chunk ? least : op->chunk;
	return chunk > least ? chunk : least;
}

/*
 * Runs units of a started operation: all there are, or, with `slice`, for a while. Where it is another VM's turn, or
 * becomes that, waits for the own turn and returns. The operation may be gone afterwards.
 */
static void run(struct softgpu_op *op, bool slice)
{
	bool several = op->units > op->chunk;
	uint64_t chunk = op->chunk, start, last, now;

	if (!softgpu_turn_begin()) {
		softgpu_unlock();
		softgpu_turn_wait();
		softgpu_lock();
		return;
	}
	op->active++;
	softgpu_at_work_begin(op->stream->context->device, !op->copies);
	softgpu_unlock();
	start = last = several ? vcuda_now_ns() : 0;
	for (;;) {
		uint64_t unit = __atomic_fetch_add(&op->claimed, chunk, __ATOMIC_RELAXED);

		if (unit < op->units)
			op->run(op, unit, op->units - unit < chunk ? op->units - unit : chunk);
		if (claimed_all(op))
			break;
		now = several ? vcuda_now_ns() : 0;
		if ((slice && now - start > SLICE_NS) || softgpu_is_held())
			break;
		chunk = next_chunk(op, chunk, now - last);
		last = now;
	}
	softgpu_turn_end();
	softgpu_lock();
	op->active--;
	softgpu_at_work_end(op->stream->context->device, !op->copies);
	if (!claimed_all(op))
		return;
	vcuda_list_remove(&op->ready);
	if (op->active)
		return;
	softgpu_turn_want_no_more();
	complete(op);
}

static bool in_scope(const struct softgpu_scope *scope, const struct CUstream_st *stream)
{
	const struct CUstream_st *wanted = scope->stream;

	if (stream->head->seq > scope->last || (scope->context && stream->context != scope->context))
		return false;
	return !wanted || wanted == stream ||
	       (wanted->legacy && stream->blocking && stream->context == wanted->context);
}

bool softgpu_scope_done(const struct softgpu_scope *scope)
{
	if (scope->record)
		return softgpu_record_done(scope->record);
	vcuda_list_for_each (node, &busy) {
		if (in_scope(scope, container_of(node, struct CUstream_st, busy)))
			return false;
	}
	return true;
}

/* An operation in the scope that has units to run, or NULL. */
static struct softgpu_op *last_issued_find(const struct softgpu_scope *scope)
{
	vcuda_list_for_each (node, &busy) {
		struct CUstream_st *stream = container_of(node, struct CUstream_st, busy);

		if (in_scope(scope, stream) && stream->head->started && has_work(stream->head))
			return stream->head;
	}
	return NULL;
}

/* A context that ends may wait for a value that only the ending thread would write. */
static bool drop_stuck(struct CUctx_st *context)
{
	if (!context || !context->ending || !is_stuck(context))
		return false;
	context->abandoned = true;
	dispatch(NULL);
	softgpu_wake_waiters();
	return true;
}

void softgpu_wait(const struct softgpu_scope *scope)
{
	while (!softgpu_scope_done(scope)) {
		struct softgpu_op *op = last_issued_find(scope);

		if (op)
			run(op, false);
		else if (!drop_stuck(scope->context))
			softgpu_wait_any();
	}
}

static struct softgpu_op *next_ready(bool alone)
{
	vcuda_list_for_each (node, &ready) {
		struct softgpu_op *op = container_of(node, struct softgpu_op, ready);

		if (has_work(op) && !(alone && op->active))
			return op;
	}
	return NULL;
}

/* For a worker beyond the device's number, beside `others` such workers. */
static struct softgpu_op *next_for_extra(unsigned int others)
{
	struct softgpu_op *op = next_ready(true);

	return op || others >= MOST_HELPERS ? op : next_ready(false);
}

/* Waits for something to become ready. */
static void rest(void)
{
	idle++;
	pthread_cond_wait(&work, &lock);
	idle--;
}

/* The same for a worker beyond the device's number, which does so for a while only. False: in vain. */
static bool rest_as_extra(void)
{
	struct timespec until = vcuda_deadline(EXTRA_REST_NS);
	int error;

	idle_extra++;
	do {
		error = pthread_cond_clockwait(&extra_work, &lock, CLOCK_MONOTONIC, &until);
	} while (!error && !next_for_extra(extra - 1));
	idle_extra--;
	return next_for_extra(extra - 1);
}

/* Streams of one priority take turns. */
static void run_slice(struct softgpu_op *op)
{
	vcuda_list_remove(&op->ready);
	make_ready(op);
	run(op, true);
}

static void *worker(void *unused)
{
	struct softgpu_op *op;

	softgpu_lock();
	for (;;) {
		while ((op = next_ready(false)))
			run_slice(op);
		rest();
	}
	return unused;
}

static void *extra_worker(void *unused)
{
	struct softgpu_op *op;
	int nice_value;

	softgpu_lock();
	nice_value = own_nice + EXTRA_NICE + (int)extra;
	/* The nice value of the calling thread. */
	setpriority(PRIO_PROCESS, 0, nice_value < MOST_NICE ? nice_value : MOST_NICE);
	do {
		while ((op = next_for_extra(extra - 1)))
			run_slice(op);
	} while (rest_as_extra());
	extra--;
	softgpu_unlock();
	return unused;
}

static bool start_worker(void *(*body)(void *))
{
	/* A signal that an instruction raises must reach its handler. */
	pthread_attr_t attributes;
	bool ok;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 8u << 20);
	ok = vcuda_thread_start_with(&attributes, vcuda_faults, body, NULL);
	pthread_attr_destroy(&attributes);
	return ok;
}

bool softgpu_workers_start(void)
{
	static unsigned int running;
	/* At least two: a kernel may wait for another stream's work. */
	unsigned int want = softgpu_device()->threads > 1 ? softgpu_device()->threads : 2;

	softgpu_lock();
	own_nice = getpriority(PRIO_PROCESS, 0);
	while (running < want && start_worker(worker))
		running++;
	softgpu_unlock();
	return running > 0;
}

uint64_t softgpu_worker_stalled(void)
{
	uint64_t wait;

	/* While it is another VM's turn, one more would only wait. One that rests is among those that count. */
	if (!idle && !softgpu_is_held() && next_for_extra(idle_extra ? extra - 1 : extra)) {
		if (idle_extra)
			pthread_cond_signal(&extra_work);
		else if (extra < MOST_EXTRA && start_worker(extra_worker))
			extra++;
	}
	wait = (uint64_t)extra * WAIT_NS_OF_EXTRA;
	return wait < MOST_WAIT_NS ? wait : MOST_WAIT_NS;
}
