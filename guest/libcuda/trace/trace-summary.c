/* SPDX-License-Identifier: Apache-2.0 */
/* Counts by call. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/request.h"
#include "protocol/guest-calls.h"
#include "protocol/profile-rows.h"
#include "guest/client/session.h"
#include "common/deadline.h"
#include "common/start-thread.h"
#include "trace/trace-kernels.h"
#include "trace/trace.h"

/* Times are sorted into classes, four for each doubling, from 64 ns on. */
#define CLASSES 128
#define SHORTEST_LOG2 6

/* More rows than there are kinds of commands. */
#define PROFILE_WORDS 900

/* Far longer than an idle worker takes; a worker that is stuck gives no answer. */
#define LONGEST_WAIT_MS 300

_Static_assert(PROFILE_WORDS * 8 + 64 <= VCUDA_REPLY_MAX, "the worker's answer fits");

struct count {
	_Atomic uint64_t calls, errors, ns, most, waited, waits, queued;
	_Atomic uint32_t classes[CLASSES];
};

/* A copy of a count, which no longer changes. Times in ns. */
struct row {
	const char *name;
	uint64_t calls, errors, ns, half, most_of, most, waited, waits, queued; /* half, most_of: of 50 and 99 of 100 */
};

static struct count *counts;

bool libcuda_trace_summary_start(void)
{
	counts = calloc(libcuda_trace_call_count, sizeof(*counts));
	return counts;
}

static void add(_Atomic uint64_t *to, uint64_t value)
{
	if (value)
		atomic_fetch_add_explicit(to, value, memory_order_relaxed);
}

static unsigned int class_of(uint64_t ns)
{
	unsigned int log2 = 63 - (unsigned int)__builtin_clzll(ns | 1), class;

	if (log2 < SHORTEST_LOG2)
		return 0;
	class = 1 + (log2 - SHORTEST_LOG2) * 4 + (unsigned int)(ns >> (log2 - 2) & 3);
	return class < CLASSES ? class : CLASSES - 1;
}

/* The longest time that is in a class. */
static uint64_t end_of(unsigned int class)
{
	unsigned int log2 = SHORTEST_LOG2 + (class - 1) / 4;

	return class ? ((uint64_t)(4 + (class - 1) % 4 + 1) << (log2 - 2)) - 1 : (1u << SHORTEST_LOG2) - 1;
}

void libcuda_trace_summary_add(unsigned int call, CUresult result, uint64_t ns, const struct libcuda_trace *during)
{
	struct count *c = &counts[call];
	uint64_t most = atomic_load_explicit(&c->most, memory_order_relaxed);

	add(&c->calls, 1);
	/* Not ready is an answer. */
	add(&c->errors, result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY);
	add(&c->ns, ns);
	add(&c->waited, during->waited);
	add(&c->waits, during->waits);
	add(&c->queued, during->queued);
	atomic_fetch_add_explicit(&c->classes[class_of(ns)], 1, memory_order_relaxed);
	while (most < ns && !atomic_compare_exchange_weak(&c->most, &most, ns))
		continue;
}

void libcuda_trace_summary_forget(void)
{
	memset(counts, 0, libcuda_trace_call_count * sizeof(*counts));
}

static int by_time(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	return strcmp(x->name, y->name);
}

/* The time that `percent` of 100 calls took at most, as far as the classes tell. */
static uint64_t percentile(const struct count *c, unsigned int percent)
{
	uint64_t wanted = (c->calls * percent + 99) / 100, seen = 0, ns;

	for (unsigned int i = 0; i < CLASSES; i++) {
		seen += c->classes[i];
		if (seen >= wanted) {
			ns = end_of(i);
			return ns < c->most ? ns : c->most;
		}
	}
	return c->most;
}

static unsigned int collect(struct row *rows, struct row *total)
{
	unsigned int used = 0;

	for (unsigned int i = 0; i < libcuda_trace_call_count; i++) {
		const struct count *c = &counts[i];
		struct row r = {libcuda_trace_calls[i].name,
				c->calls,
				c->errors,
				c->ns,
				0,
				0,
				c->most,
				c->waited,
				c->waits,
				c->queued};

		if (!r.calls)
			continue;
		r.half = percentile(c, 50);
		r.most_of = percentile(c, 99);
		total->calls += r.calls;
		total->errors += r.errors;
		total->ns += r.ns;
		total->most = total->most > r.most ? total->most : r.most;
		total->waited += r.waited;
		total->waits += r.waits;
		total->queued += r.queued;
		rows[used++] = r;
	}
	qsort(rows, used, sizeof(*rows), by_time);
	return used;
}

static void print_row(FILE *out, const struct row *r, const struct row *total)
{
	char percentiles[40] = "";

	if (r != total)
		snprintf(percentiles, sizeof(percentiles), "%.2f %10.2f", (double)r->half / 1e3,
			 (double)r->most_of / 1e3);
	fprintf(out, "%7.2f %11.3f %11.3f %10.2f %21s %11.2f %9ju %7ju %9ju %9ju  %s\n",
		total->ns ? 100 * (double)r->ns / (double)total->ns : 0, (double)r->ns / 1e6, (double)r->waited / 1e6,
		(double)r->ns / 1e3 / (double)r->calls, percentiles, (double)r->most / 1e3, (uintmax_t)r->calls,
		(uintmax_t)r->errors, (uintmax_t)r->waits, (uintmax_t)r->queued, r->name);
}

/* ---- the worker's part ---- */

static int by_sum(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return x[VCUDA_PROFILE_SUM] < y[VCUDA_PROFILE_SUM] ? 1 : x[VCUDA_PROFILE_SUM] > y[VCUDA_PROFILE_SUM] ? -1 : 0;
}

/* The worker's answers to a separate thread: a program may end in a signal handler, in a call that holds the ring. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	bool answered;
	unsigned int used;
	uint64_t words[PROFILE_WORDS];
	unsigned int kernel_count;
	uint64_t *kernels;
} worker = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *ask(void *unused)
{
	static uint64_t words[PROFILE_WORDS];
	unsigned int used = 0;
	CUresult result = vcuda_call_vcudaProfile(PROFILE_WORDS, &used, words);
	unsigned int kernel_count = 0;
	uint64_t *kernels = result == CUDA_SUCCESS ? libcuda_trace_kernels_ask(&kernel_count) : NULL;

	pthread_mutex_lock(&worker.lock);
	worker.kernels = kernels;
	worker.kernel_count = kernel_count;
	if (result == CUDA_SUCCESS && used <= PROFILE_WORDS)
		memcpy(worker.words, words, used * sizeof(*words));
	worker.used = result == CUDA_SUCCESS && used <= PROFILE_WORDS ? used : 0;
	worker.answered = true;
	pthread_cond_signal(&worker.moved);
	pthread_mutex_unlock(&worker.lock);
	return unused;
}

/* Guest objects may not use pthread_cond_clockwait(), which glibc has since 2.30. */
static bool prepare_wait(void)
{
	pthread_condattr_t attributes;
	bool done;

	if (pthread_condattr_init(&attributes))
		return false;
	done = !pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) &&
	       !pthread_cond_init(&worker.moved, &attributes);
	pthread_condattr_destroy(&attributes);
	return done;
}

/* The words that the worker has answered, 0 if it does not within LONGEST_WAIT_MS. Once a process. */
static unsigned int ask_worker(void)
{
	struct timespec until;
	unsigned int used;

	/* A child that was forked has no worker, and there may be none any more. */
	if (libcuda_require_init() != CUDA_SUCCESS || client_session_error() != CUDA_SUCCESS || !prepare_wait() ||
	    !vcuda_thread_start(ask, NULL))
		return 0;
	until = vcuda_deadline(LONGEST_WAIT_MS * 1000000ull);
	pthread_mutex_lock(&worker.lock);
	while (!worker.answered && !pthread_cond_timedwait(&worker.moved, &worker.lock, &until))
		continue;
	used = worker.answered ? worker.used : 0;
	pthread_mutex_unlock(&worker.lock);
	return used;
}

static void print_worker(FILE *out, unsigned int used)
{
	uint64_t *words = worker.words;

	qsort(words, used / VCUDA_PROFILE_WORDS, VCUDA_PROFILE_WORDS * sizeof(*words), by_sum);
	fprintf(out, "What the worker ran\n%11s %10s %11s %9s  %s\n", "ms", "us/each", "longest us", "commands",
		"command");
	for (const uint64_t *row = words; row + VCUDA_PROFILE_WORDS <= words + used; row += VCUDA_PROFILE_WORDS) {
		uint64_t op = row[VCUDA_PROFILE_OP], n = row[VCUDA_PROFILE_COUNT];

		if (op && op < VCUDA_OP_LIMIT && vcuda_call_table[op].name && n)
			fprintf(out, "%11.3f %10.2f %11.2f %9ju  %s\n", (double)row[VCUDA_PROFILE_SUM] / 1e6,
				(double)row[VCUDA_PROFILE_SUM] / 1e3 / (double)n, (double)row[VCUDA_PROFILE_MOST] / 1e3,
				(uintmax_t)n, vcuda_call_table[op].name);
	}
	for (const uint64_t *row = words; row + VCUDA_PROFILE_WORDS <= words + used; row += VCUDA_PROFILE_WORDS)
		if (!row[VCUDA_PROFILE_OP] && row[VCUDA_PROFILE_COUNT])
			fprintf(out, "In the ring when it took a command: %.0f bytes on average, %ju at most, of %u\n",
				(double)row[VCUDA_PROFILE_SUM] / (double)row[VCUDA_PROFILE_COUNT],
				(uintmax_t)row[VCUDA_PROFILE_MOST], VCUDA_RING_BYTES);
}

static void print_calls(FILE *out, const struct row *rows, unsigned int used, const struct row *total)
{
	fprintf(out, "CUDA calls of process %d (%s)\n", (int)getpid(), program_invocation_short_name);
	fprintf(out, "%7s %11s %11s %10s %10s %10s %11s %9s %7s %9s %9s  %s\n", "% time", "ms", "waited ms", "us/call",
		"50% us", "99% us", "longest us", "calls", "errors", "waits", "queued", "call");
	for (unsigned int i = 0; i < used; i++)
		print_row(out, &rows[i], total);
	print_row(out, total, total);
}

void libcuda_trace_summary_print(struct libcuda_trace_file *to)
{
	struct row *rows = calloc(libcuda_trace_call_count, sizeof(*rows)), total = {.name = "total"};
	unsigned int used = rows ? collect(rows, &total) : 0, answered = used ? ask_worker() : 0;
	char *text = NULL;
	size_t length = 0;
	FILE *out = used ? open_memstream(&text, &length) : NULL;

	if (out) {
		print_calls(out, rows, used, &total);
		if (answered) {
			print_worker(out, answered);
			libcuda_trace_kernels_print(out, worker.kernels, worker.kernel_count);
		}
		if (!fclose(out))
			libcuda_trace_file_write(to, text, length);
		free(text);
	}
	free(rows);
}
