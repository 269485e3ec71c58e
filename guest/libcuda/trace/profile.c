/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes of calls and ranges go through a ring without a lock: a signal handler of the program may make a call, and the
 * process may end in one.
 */
#include "trace/profile.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/deadline.h"
#include "common/log.h"
#include "common/start-thread.h"
#include "core/request.h"
#include "core/thread.h"
#include "guest/client/lock-within.h"
#include "guest/client/session.h"
#include "protocol/activity-rows.h"
#include "protocol/guest-calls.h"
#include "trace/trace.h"

#define MOST_NOTES 131072u

#define ROUND_NS 10000000u

/* Rows of one answer of the worker. */
#define ROWS 240
#define ROW_WORDS (ROWS * VCUDA_ACTIVITY_WORDS)

_Static_assert(ROW_WORDS * 8 + 128 <= VCUDA_REPLY_MAX, "the worker's answer fits");

/*
 * Once no sink wants work any more, the worker measures until all work that was issued has been told, and at most for
 * so many rounds after its command was taken: the command may have failed.
 */
#define LAST_ROUNDS 100

/* finish() waits for so long, at most twice. */
#define LONGEST_WAIT_NS 1000000000ull

/* A call or a range. */
struct note {
	_Atomic uint64_t ready; /* the nth note is complete: n + 1 */
	bool is_range;
	union {
		struct libcuda_profile_call call;
		struct libcuda_profile_range range;
	};
};

static struct libcuda_trace_file file;

static bool has_file;
static struct note *notes; /* the nth is at n % MOST_NOTES; NULL: there is no record */
static _Atomic uint64_t added, taken, lost;
static _Atomic bool has_writer, is_ending, has_ended;

/* Held by the thread that asks the worker and tells what it says. Taken before `output`. */
static pthread_mutex_t rounds = PTHREAD_MUTEX_INITIALIZER;
/* Held while events are told, and not while the worker is asked, which may take long. */
static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;
static bool has_begun; /* the file, under `output` */
static pthread_mutex_t preparing = PTHREAD_MUTEX_INITIALIZER;

/* Under `rounds`. */
static struct {
	uint64_t shortest; /* ns in which the worker answered; grows, since clocks run apart. 0: it was never asked */
	int64_t offset;    /* offset of the worker's clock, from its last answer */
	uint64_t lost, pending;
	uint64_t told;        /* pieces of work */
	uint64_t told_losses; /* to the sink */
	unsigned int last_rounds;
	bool is_lost; /* the worker did not answer the last time */
} worker;

/* ---- notes ---- */

static bool prepare(void)
{
	if (!libcuda_profile_functions_start())
		return false;
	notes = calloc(MOST_NOTES, sizeof(*notes));
	return notes && libcuda_profile_commands_start();
}

bool libcuda_profile_prepare(void)
{
	static enum { UNTRIED, FAILED, PREPARED } state;
	bool is_prepared;

	pthread_mutex_lock(&preparing);
	if (state == UNTRIED)
		state = prepare() ? PREPARED : FAILED;
	is_prepared = state == PREPARED;
	pthread_mutex_unlock(&preparing);
	return is_prepared;
}

bool libcuda_profile_start(void)
{
	pthread_atfork(NULL, NULL, libcuda_profile_forget);
	if (!libcuda_trace_file_open(&file, "VCUDA_PROFILE"))
		return false;
	has_file = libcuda_profile_prepare();
	if (!has_file)
		vcuda_log("VCUDA_PROFILE: there is no memory for a profile");
	return has_file;
}

bool libcuda_profile_has_file(void)
{
	return has_file;
}

static void *write_all(void *unused);

static void start_writer(void)
{
	bool no = false;

	if (!atomic_load(&is_ending) && atomic_compare_exchange_strong(&has_writer, &no, true) &&
	    !vcuda_thread_start(write_all, NULL))
		atomic_store(&has_writer, false);
}

/* NULL: there is no room. Else complete() follows, with the note's number. */
static struct note *begin_note(uint64_t *n)
{
	start_writer();
	*n = atomic_load(&added);
	do {
		if (*n - atomic_load(&taken) >= MOST_NOTES) {
			atomic_fetch_add(&lost, 1);
			return NULL;
		}
	} while (!atomic_compare_exchange_weak(&added, n, *n + 1));
	return &notes[*n % MOST_NOTES];
}

static void complete(struct note *note, uint64_t n)
{
	atomic_store_explicit(&note->ready, n + 1, memory_order_release);
}

void libcuda_profile_add(const struct libcuda_profile_call *call)
{
	struct note *note;
	uint64_t n;

	note = begin_note(&n);
	if (!note)
		return;
	note->is_range = false;
	note->call = *call;
	complete(note, n);
}

void libcuda_profile_add_range(const struct libcuda_profile_range *range)
{
	struct note *note = NULL;
	uint64_t n;

	if (has_file)
		note = begin_note(&n);
	if (!note) {
		free(range->name);
		return;
	}
	note->is_range = true;
	note->range = *range;
	note->range.tid = (int)gettid();
	complete(note, n);
}

void libcuda_profile_forget(void)
{
	libcuda_profile_functions_forget();
	pthread_mutex_init(&preparing, NULL);
	pthread_mutex_init(&rounds, NULL);
	pthread_mutex_init(&output, NULL);
	has_begun = false;
	memset(&worker, 0, sizeof(worker));
	atomic_store(&taken, atomic_load(&added));
	atomic_store(&lost, 0);
	atomic_store(&has_writer, false);
	atomic_store(&is_ending, false);
	atomic_store(&has_ended, false);
}

/* ---- telling; `rounds` is held ---- */

static void tell_work(const struct libcuda_profile_row *row)
{
	const struct vcuda_profile_sink *sink = libcuda_profile_sink();
	struct libcuda_profile_function function = {0};
	struct libcuda_profile_command c;

	worker.told++;
	if (!libcuda_profile_command_find(row->seq, &c))
		c = (struct libcuda_profile_command){.work.name = vcuda_call_table[row->op].name, .work.seq = row->seq};
	if (c.function)
		function = libcuda_profile_function_find(c.function);
	if (function.name)
		c.work.name = function.name;
	c.work.static_shared_bytes = function.static_shared_bytes;
	c.work.local_bytes = function.local_bytes;
	c.work.registers = function.registers;
	c.work.begin = row->begin;
	c.work.end = row->end;
	if (has_file)
		libcuda_profile_write_work(&c);
	if (sink)
		sink->work(&c.work);
}

static void tell_row(const uint64_t *words)
{
	const struct libcuda_profile_row row = {
		.seq = words[VCUDA_ACTIVITY_SEQ],
		.begin = words[VCUDA_ACTIVITY_BEGIN] - (uint64_t)worker.offset,
		.end = words[VCUDA_ACTIVITY_END] - (uint64_t)worker.offset,
		.op = words[VCUDA_ACTIVITY_WHAT] & VCUDA_ACTIVITY_OP,
		.thread = (unsigned int)(words[VCUDA_ACTIVITY_WHAT] >> 32),
	};

	/* The recorder's own questions are no part of the record. */
	if (row.op >= VCUDA_OP_LIMIT || !vcuda_call_table[row.op].name || row.op == VCUDA_OP_vcudaActivities ||
	    row.end < row.begin)
		return;
	if (words[VCUDA_ACTIVITY_WHAT] & VCUDA_ACTIVITY_ON_DEVICE)
		tell_work(&row);
	else if (has_file)
		libcuda_profile_write_command(&row);
}

/* Takes the worker's rows, and tells them. Returns how many came; 0 too where there is no worker, or it fails. */
static unsigned int ask_worker(void)
{
	static uint64_t words[ROW_WORDS];
	uint64_t before = vcuda_now_ns(), after, now = 0;
	unsigned int used = 0;

	worker.is_lost = libcuda_trace_is_open() && client_session_error() != CUDA_SUCCESS;
	if (!libcuda_trace_is_open() || worker.is_lost)
		return 0;
	if (vcuda_call_vcudaActivities(ROW_WORDS, &used, &now, &worker.lost, &worker.pending, words) != CUDA_SUCCESS ||
	    used > ROW_WORDS) {
		worker.is_lost = true;
		return 0;
	}
	after = vcuda_now_ns();
	if (!worker.shortest || after - before <= worker.shortest) {
		worker.shortest = after - before;
		/* A time within these is the same clock's. */
		worker.offset = now >= before && now <= after ? 0 : (int64_t)(now - before - worker.shortest / 2);
	}
	pthread_mutex_lock(&output);
	for (unsigned int at = 0; at + VCUDA_ACTIVITY_WORDS <= used; at += VCUDA_ACTIVITY_WORDS)
		tell_row(&words[at]);
	if (has_file)
		libcuda_profile_write_flush();
	pthread_mutex_unlock(&output);
	return used / VCUDA_ACTIVITY_WORDS;
}

static void tell_note(struct note *note)
{
	const struct vcuda_profile_sink *sink = libcuda_profile_sink();

	if (note->is_range) {
		libcuda_profile_write_range(&note->range);
		free(note->range.name);
		return;
	}
	if (has_file && note->call.note.domain == VCUDA_PROFILE_DRIVER)
		libcuda_profile_write_call(&note->call);
	if (sink && note->call.note.correlation)
		sink->call(&note->call.note);
}

/* With `output` held, and not necessarily `rounds`. */
static void tell_notes(void)
{
	if (has_file && !has_begun)
		libcuda_profile_write_begin(&file);
	has_begun = true;
	for (uint64_t n = atomic_load(&taken);; n++) {
		struct note *note = &notes[n % MOST_NOTES];

		if (atomic_load_explicit(&note->ready, memory_order_acquire) != n + 1)
			break;
		tell_note(note);
		atomic_store(&taken, n + 1);
	}
	if (has_file)
		libcuda_profile_write_flush();
}

static void tell_round(void)
{
	const struct vcuda_profile_sink *sink = libcuda_profile_sink();
	uint64_t losses;

	pthread_mutex_lock(&output);
	tell_notes();
	pthread_mutex_unlock(&output);
	/* Answers are full while the worker has more. */
	while (ask_worker() == ROWS)
		continue;
	worker.shortest += worker.shortest / 64 + 1;
	losses = worker.lost + atomic_load(&lost);
	if (sink && losses > worker.told_losses)
		sink->lost(losses - worker.told_losses);
	worker.told_losses = losses;
}

/* The work of commands is neither told nor known to be lost. */
static bool is_owed(void)
{
	return libcuda_profile_command_count() > worker.told + worker.lost;
}

static bool has_told_all(void)
{
	if (!is_owed())
		return true;
	return ++worker.last_rounds > LAST_ROUNDS;
}

/* ---- the thread that tells ---- */

/* Returns whether more is to come. */
static bool run_round(void)
{
	const struct vcuda_profile_sink *sink = libcuda_profile_sink();
	bool is_wanted;

	pthread_mutex_lock(&rounds);
	tell_round();
	is_wanted = has_file || libcuda_profile_watched();
	if (is_wanted)
		worker.last_rounds = 0;
	else if (has_told_all())
		client_call_profile(0, VCUDA_PROFILE_ACTIVITIES);
	else
		is_wanted = true;
	pthread_mutex_unlock(&rounds);
	if (sink)
		sink->round();
	return is_wanted;
}

/* A thread may be between the begin and the end of a note, behind which others stand. */
bool libcuda_profile_flush(void)
{
	uint64_t end = vcuda_now_ns() + LONGEST_WAIT_NS, last = atomic_load(&added);
	bool is_lost;

	run_round();
	while (atomic_load(&taken) < last && vcuda_now_ns() < end) {
		sched_yield();
		run_round();
	}
	pthread_mutex_lock(&rounds);
	is_lost = worker.is_lost && is_owed();
	pthread_mutex_unlock(&rounds);
	return atomic_load(&taken) >= last && !is_lost;
}

void libcuda_profile_change(void (*change)(uint32_t what), uint32_t what)
{
	pthread_mutex_lock(&rounds);
	change(what);
	if (libcuda_profile_watched() & VCUDA_PROFILE_WORK)
		client_call_profile(VCUDA_PROFILE_ACTIVITIES, 0);
	pthread_mutex_unlock(&rounds);
	if (libcuda_profile_watched())
		start_writer();
}

void libcuda_profile_end(void)
{
	atomic_store(&is_ending, true);
}

static void tell_losses(void)
{
	if (atomic_load(&lost))
		vcuda_log("the profile lacks %ju calls and ranges: the program makes them faster than they are written",
			  (uintmax_t)atomic_load(&lost));
	if (worker.lost)
		vcuda_log("the profile lacks %ju commands or their times on the device", (uintmax_t)worker.lost);
	if (worker.pending)
		vcuda_log("the profile lacks %ju pieces of work: the device had not ended them when the program did",
			  (uintmax_t)worker.pending);
}

static void *write_all(void *unused)
{
	bool is_last = false, is_wanted = true;

	while (!is_last && is_wanted) {
		nanosleep(&(struct timespec){.tv_nsec = ROUND_NS}, NULL);
		is_last = atomic_load(&is_ending);
		is_wanted = run_round();
	}
	if (has_file)
		tell_losses();
	if (is_last)
		atomic_store(&has_ended, true);
	else
		atomic_store(&has_writer, false);
	return unused;
}

void libcuda_profile_finish(void)
{
	uint64_t end = vcuda_now_ns() + LONGEST_WAIT_NS;

	atomic_store(&is_ending, true);
	while (atomic_load(&has_writer) && !atomic_load(&has_ended) && vcuda_now_ns() < end)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	if (!atomic_load(&has_writer) || atomic_load(&has_ended))
		return;
	/* The writer waits for the worker, or for the ring, which the thread that ends the process may hold. */
	if (!client_lock_within(&output, LONGEST_WAIT_NS / 1000000))
		return;
	tell_notes();
	pthread_mutex_unlock(&output);
	vcuda_log("the profile lacks the last work of the device: the worker has not answered in time");
}
