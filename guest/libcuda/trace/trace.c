/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/trace.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/deadline.h"
#include "core/hooks.h"
#include "core/request.h"
#include "core/thread.h"
#include "protocol/activity-rows.h"
#include "trace/profile.h"

static struct libcuda_trace_file lines, summary;
static bool prints_lines, prints_summary;
static _Atomic bool is_open;

/* ---- the table of entry points ---- */

/* Calls may be under way. */
static void fill(void (*const *with)(void))
{
	for (unsigned int i = 0; i < libcuda_trace_call_count; i++)
		atomic_store_explicit(&libcuda_trace_jump[i], with[i], memory_order_release);
}

static bool is_traced(void)
{
	return prints_lines || prints_summary || libcuda_profile_is_on();
}

/* Another thread may change what is traced, or open the library, meanwhile. */
void libcuda_trace_refill(void)
{
	bool traced, open;

	do {
		traced = is_traced();
		open = atomic_load(&is_open);
		fill(traced ? libcuda_trace_traced : open ? libcuda_trace_plain : libcuda_trace_closed);
	} while (traced != is_traced() || open != atomic_load(&is_open));
}

static void close_entries(void)
{
	atomic_store(&is_open, false);
	libcuda_trace_refill();
}

/* cuInit has succeeded for the first time: a child has to do without. */
static void open_entries(void)
{
	pthread_atfork(NULL, NULL, close_entries);
	atomic_store(&is_open, true);
	libcuda_trace_refill();
}

bool libcuda_trace_is_open(void)
{
	return atomic_load_explicit(&is_open, memory_order_acquire);
}

/* ---- calls ---- */

void libcuda_trace_enter(struct libcuda_trace *t, unsigned int call, const void *parameters, const uint64_t *values)
{
	struct libcuda_thread *thread = libcuda_thread();

	/* A sink may make calls, too. */
	libcuda_profile_enter(&t->profile, call, parameters, values);
	thread->calls.first_seq = 0;
	t->waited = thread->calls.waited_ns;
	t->waits = thread->calls.waits;
	t->queued = thread->calls.queued;
	t->stalls = thread->calls.stalls;
	t->start = vcuda_now_ns();
}

/* "local", "queued", "waited 2 times, queued 1": what the call was to the worker. */
static void describe(char *text, size_t size, const struct libcuda_trace *t)
{
	char queued[32] = "", waited[32] = "";

	if (t->queued > 1)
		snprintf(queued, sizeof(queued), "queued %u", t->queued);
	else if (t->queued)
		strcpy(queued, "queued");
	if (t->waits > 1)
		snprintf(waited, sizeof(waited), "waited %u times", t->waits);
	else if (t->waits)
		strcpy(waited, "waited");
	snprintf(text, size, "%s%s%s%s", waited, *waited && *queued ? ", " : "", *waited || *queued ? queued : "local",
		 t->stalls ? ", ring was full" : "");
}

static void print_line(const struct libcuda_trace *t, unsigned int call, CUresult result, uint64_t ns,
		       const uint64_t *values)
{
	char line[LIBCUDA_TRACE_LINE + 160], how[96];
	int n = snprintf(line, sizeof(line), "[%d] ", (int)gettid());
	size_t length = (size_t)n;

	length += libcuda_trace_line(line + length, &libcuda_trace_calls[call], result, values);
	describe(how, sizeof(how), t);
	n = snprintf(line + length, sizeof(line) - length, " (%s, %.1f us)\n", how, (double)ns / 1000);
	libcuda_trace_file_write(&lines, line, length + (size_t)n);
}

void libcuda_trace_leave(struct libcuda_trace *t, unsigned int call, CUresult result, const uint64_t *values)
{
	uint64_t ns = vcuda_now_ns() - t->start;
	const struct libcuda_thread *thread = libcuda_thread();
	const struct libcuda_trace during = {
		.waited = thread->calls.waited_ns - t->waited,
		.waits = thread->calls.waits - t->waits,
		.queued = thread->calls.queued - t->queued,
		.stalls = thread->calls.stalls - t->stalls,
	};
	int saved = errno, cancel_state;

	if (prints_summary)
		libcuda_trace_summary_add(call, result, ns, &during);
	/* The call is no place to be cancelled at, so writing about it is none. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	libcuda_profile_leave(&t->profile, call, result, t->start, ns, during.waited, values);
	if (prints_lines)
		print_line(&during, call, result, ns, values);
	pthread_setcancelstate(cancel_state, NULL);
	errno = saved;
}

/* A line about something that no call shows, while calls have lines. */
__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
	char line[LIBCUDA_TRACE_LINE];
	size_t length, room;
	int saved = errno, cancel_state;
	va_list arguments;

	length = (size_t)snprintf(line, sizeof(line), "[%d] ", (int)gettid());
	room = sizeof(line) - length - 1;
	va_start(arguments, format);
	vsnprintf(line + length, room, format, arguments);
	va_end(arguments);
	length = strlen(line);
	line[length++] = '\n';
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	libcuda_trace_file_write(&lines, line, length);
	pthread_setcancelstate(cancel_state, NULL);
	errno = saved;
}

/* Runs when the library is loaded, before any call of its functions. */
__attribute__((constructor)) static void start(void)
{
	prints_lines = libcuda_trace_file_open(&lines, "VCUDA_TRACE");
	prints_summary = libcuda_trace_file_open(&summary, "VCUDA_STATS") && libcuda_trace_summary_start();
	libcuda_profile_start();
	libcuda_hook_open = open_entries;
	if (!is_traced())
		return;
	fill(libcuda_trace_traced);
	if (prints_lines)
		libcuda_hook_note = note;
	if (prints_summary)
		client_call_profile(VCUDA_PROFILE_COUNTS, 0);
	if (libcuda_profile_has_file())
		client_call_profile(VCUDA_PROFILE_ACTIVITIES, 0);
	if (prints_summary)
		pthread_atfork(NULL, NULL, libcuda_trace_summary_forget);
}

/* After the destructors of what uses the library. */
__attribute__((destructor)) static void stop(void)
{
	if (libcuda_profile_has_file())
		libcuda_profile_finish();
	else
		libcuda_profile_end();
	if (prints_summary)
		libcuda_trace_summary_print(&summary);
}
