/* SPDX-License-Identifier: Apache-2.0 */
/* Counts by call. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace.h"

struct count {
	_Atomic uint64_t calls, errors, ns, waits, queued;
};

/* A count that stands still. */
struct row {
	const char *name;
	uint64_t calls, errors, ns, waits, queued;
};

static struct count *counts;

bool vcuda_trace_summary_start(void)
{
	counts = calloc(vcuda_trace_call_count, sizeof(*counts));
	return counts;
}

static void add(_Atomic uint64_t *to, uint64_t value)
{
	if (value)
		atomic_fetch_add_explicit(to, value, memory_order_relaxed);
}

void vcuda_trace_summary_add(unsigned int call, CUresult result, uint64_t ns, uint32_t waits, uint32_t queued)
{
	struct count *c = &counts[call];

	add(&c->calls, 1);
	/* Not ready is an answer. */
	add(&c->errors, result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY);
	add(&c->ns, ns);
	add(&c->waits, waits);
	add(&c->queued, queued);
}

void vcuda_trace_summary_forget(void)
{
	memset(counts, 0, vcuda_trace_call_count * sizeof(*counts));
}

static int by_time(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	return strcmp(x->name, y->name);
}

static unsigned int collect(struct row *rows, struct row *total)
{
	unsigned int used = 0;

	for (unsigned int i = 0; i < vcuda_trace_call_count; i++) {
		struct row r = {vcuda_trace_calls[i].name, counts[i].calls, counts[i].errors, counts[i].ns,
				counts[i].waits,           counts[i].queued};

		if (!r.calls)
			continue;
		total->calls += r.calls;
		total->errors += r.errors;
		total->ns += r.ns;
		total->waits += r.waits;
		total->queued += r.queued;
		rows[used++] = r;
	}
	qsort(rows, used, sizeof(*rows), by_time);
	return used;
}

static void print_row(FILE *out, const struct row *r, const struct row *total)
{
	fprintf(out, "%7.2f %12.3f %12.2f %9ju %7ju %9ju %9ju  %s\n",
		total->ns ? 100 * (double)r->ns / (double)total->ns : 0, (double)r->ns / 1e6,
		(double)r->ns / 1000 / (double)r->calls, (uintmax_t)r->calls, (uintmax_t)r->errors, (uintmax_t)r->waits,
		(uintmax_t)r->queued, r->name);
}

void vcuda_trace_summary_print(struct vcuda_trace_file *to)
{
	struct row *rows = calloc(vcuda_trace_call_count, sizeof(*rows)), total = {.name = "total"};
	unsigned int used = rows ? collect(rows, &total) : 0;
	char *text = NULL;
	size_t length = 0;
	FILE *out = used ? open_memstream(&text, &length) : NULL;

	if (out) {
		fprintf(out, "CUDA calls of process %d (%s)\n", (int)getpid(), program_invocation_short_name);
		fprintf(out, "%7s %12s %12s %9s %7s %9s %9s  %s\n", "% time", "ms", "us/call", "calls", "errors",
			"waits", "queued", "call");
		for (unsigned int i = 0; i < used; i++)
			print_row(out, &rows[i], &total);
		print_row(out, &total, &total);
		if (!fclose(out))
			vcuda_trace_file_write(to, text, length);
		free(text);
	}
	free(rows);
}
