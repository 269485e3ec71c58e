/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes of calls and ranges go through a ring without a lock: a signal handler of the program may make a call, and the
 * process may end in one.
 */
#include "trace/profile.h"

#include <pthread.h>
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
#define MOST_FUNCTIONS 65536u /* a power of two */

#define ROUND_NS 10000000u

/* Rows of one answer of the worker. */
#define ROWS 240
#define ROW_WORDS (ROWS * VCUDA_ACTIVITY_WORDS)

_Static_assert(ROW_WORDS * 8 + 128 <= VCUDA_REPLY_MAX, "the worker's answer fits");

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

struct function {
	uint64_t handle; /* 0: none */
	const char *name;
};

static struct libcuda_trace_file file;

/* Where a call has a function or kernel among its parameters; -1: it has none. */
static int8_t *places;

static struct note *notes; /* the nth is at n % MOST_NOTES; NULL: there is no profile */
static _Atomic uint64_t added, taken, lost;
static _Atomic bool has_writer, is_ending, has_ended;

/* Held while events are written, and not while the worker is asked, which may take long. */
static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;
static bool has_begun; /* under `output` */

/* Handles of functions are never used again. Names live as long as the process. */
static struct {
	pthread_mutex_t lock;
	struct function *all;
	unsigned int count;
} functions = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- functions ---- */

static int8_t place_of_function(const struct libcuda_trace_call *call)
{
	for (int i = 0; i < call->count; i++)
		if (call->params[i].how == LIBCUDA_TRACE_FUNCTION && !call->params[i].target)
			return (int8_t)i;
	return -1;
}

/* With the lock held. NULL: it has no name, or there is no room. */
static const char *name_of(uint64_t handle)
{
	unsigned int at = (unsigned int)(handle * 0x9e3779b97f4a7c15u >> 40) % MOST_FUNCTIONS;
	char name[LIBCUDA_PROFILE_NAME];

	while (functions.all[at].handle && functions.all[at].handle != handle)
		at = (at + 1) % MOST_FUNCTIONS;
	if (functions.all[at].handle)
		return functions.all[at].name;
	if (!handle || functions.count >= MOST_FUNCTIONS / 2 ||
	    !libcuda_trace_function_name(name, sizeof(name), handle))
		return NULL;
	functions.all[at] = (struct function){handle, strdup(name)};
	functions.count++;
	return functions.all[at].name;
}

const char *libcuda_profile_name(uint64_t handle)
{
	const char *name;

	pthread_mutex_lock(&functions.lock);
	name = name_of(handle);
	pthread_mutex_unlock(&functions.lock);
	return name;
}

/* The function may be unloaded before its name is written. */
static void keep_name(uint64_t handle)
{
	if (pthread_mutex_trylock(&functions.lock))
		return;
	name_of(handle);
	pthread_mutex_unlock(&functions.lock);
}

/* ---- notes ---- */

bool libcuda_profile_start(void)
{
	if (!libcuda_trace_file_open(&file, "VCUDA_PROFILE"))
		return false;
	places = calloc(libcuda_trace_call_count, sizeof(*places));
	functions.all = calloc(MOST_FUNCTIONS, sizeof(*functions.all));
	notes = calloc(MOST_NOTES, sizeof(*notes));
	if (!places || !functions.all || !notes || !libcuda_profile_commands_start()) {
		vcuda_log("VCUDA_PROFILE: there is no memory for a profile");
		notes = NULL;
		return false;
	}
	for (unsigned int i = 0; i < libcuda_trace_call_count; i++)
		places[i] = place_of_function(&libcuda_trace_calls[i]);
	return true;
}

bool libcuda_profile_is_on(void)
{
	return notes;
}

static void *write_all(void *unused);

/* NULL: there is no room. Else complete() follows, with the note's number. */
static struct note *begin_note(uint64_t *n)
{
	bool no = false;

	if (!atomic_load(&is_ending) && atomic_compare_exchange_strong(&has_writer, &no, true) &&
	    !vcuda_thread_start(write_all, NULL))
		atomic_store(&has_writer, false);
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

void libcuda_profile_add(unsigned int call, CUresult result, uint64_t start, uint64_t ns, uint64_t waited,
			 const uint64_t *values)
{
	const struct call_thread *thread = &libcuda_thread()->calls;
	uint64_t n, function = places[call] < 0 ? 0 : values[places[call]];
	struct note *note;

	if (function)
		keep_name(function);
	note = begin_note(&n);
	if (!note)
		return;
	note->is_range = false;
	note->call = (struct libcuda_profile_call){
		.start = start,
		.ns = ns,
		.waited = waited,
		.first = thread->first_seq,
		.last = thread->last_seq,
		.function = function,
		.tid = (int)gettid(),
		.result = result,
		.call = (uint16_t)call,
	};
	complete(note, n);
}

void libcuda_profile_add_range(const struct libcuda_profile_range *range)
{
	struct note *note = NULL;
	uint64_t n;

	if (notes)
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
	pthread_mutex_init(&functions.lock, NULL);
	pthread_mutex_init(&output, NULL);
	has_begun = false;
	atomic_store(&taken, atomic_load(&added));
	atomic_store(&lost, 0);
	atomic_store(&has_writer, false);
	atomic_store(&is_ending, false);
	atomic_store(&has_ended, false);
}

/* ---- the thread that writes ---- */

static struct {
	uint64_t shortest; /* ns in which the worker answered; grows, since clocks run apart */
	int64_t offset;    /* of the worker's clock, as that answer told it */
	uint64_t lost, pending;
} worker;

/* Takes the worker's rows, and writes them. Returns how many came; 0 too where there is no worker. */
static unsigned int ask_worker(void)
{
	static uint64_t words[ROW_WORDS];
	uint64_t before = vcuda_now_ns(), after, now = 0;
	unsigned int used = 0;

	if (!libcuda_trace_is_open() || client_session_error() != CUDA_SUCCESS ||
	    vcuda_call_vcudaActivities(ROW_WORDS, &used, &now, &worker.lost, &worker.pending, words) != CUDA_SUCCESS ||
	    used > ROW_WORDS)
		return 0;
	after = vcuda_now_ns();
	if (after - before <= worker.shortest) {
		worker.shortest = after - before;
		/* A time within these is the same clock's. */
		worker.offset = now >= before && now <= after ? 0 : (int64_t)(now - before - worker.shortest / 2);
	}
	pthread_mutex_lock(&output);
	for (unsigned int at = 0; at + VCUDA_ACTIVITY_WORDS <= used; at += VCUDA_ACTIVITY_WORDS)
		libcuda_profile_write_row(&words[at], worker.offset);
	libcuda_profile_write_flush();
	pthread_mutex_unlock(&output);
	return used / VCUDA_ACTIVITY_WORDS;
}

/* With `output` held. */
static void write_notes(void)
{
	if (!has_begun)
		libcuda_profile_write_begin(&file);
	has_begun = true;
	for (uint64_t n = atomic_load(&taken);; n++) {
		struct note *note = &notes[n % MOST_NOTES];

		if (atomic_load_explicit(&note->ready, memory_order_acquire) != n + 1)
			break;
		if (note->is_range) {
			libcuda_profile_write_range(&note->range);
			free(note->range.name);
		} else {
			libcuda_profile_write_call(&note->call);
		}
		atomic_store(&taken, n + 1);
	}
	libcuda_profile_write_flush();
}

static void write_round(void)
{
	pthread_mutex_lock(&output);
	write_notes();
	pthread_mutex_unlock(&output);
	/* Answers are full while the worker has more. */
	while (ask_worker() == ROWS)
		continue;
	worker.shortest += worker.shortest / 64 + 1;
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
	bool is_last = false;

	memset(&worker, 0, sizeof(worker));
	worker.shortest = UINT64_MAX / 2;
	while (!is_last) {
		nanosleep(&(struct timespec){.tv_nsec = ROUND_NS}, NULL);
		is_last = atomic_load(&is_ending);
		write_round();
	}
	tell_losses();
	atomic_store(&has_ended, true);
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
	write_notes();
	pthread_mutex_unlock(&output);
	vcuda_log("the profile lacks the last work of the device: the worker has not answered in time");
}
