/* SPDX-License-Identifier: Apache-2.0 */
/* The table of kernels that the software GPU has compiled for this process, or taken from its cache. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/compile-rows.h"
#include "protocol/guest-calls.h"
#include "ring/ring.h"
#include "trace/trace-kernels.h"

#define PART_WORDS (30 * VCUDA_COMPILE_WORDS)

_Static_assert(PART_WORDS * 8 + 64 <= VCUDA_REPLY_MAX, "a part fits a reply");

uint64_t *libcuda_trace_kernels_ask(unsigned int *count)
{
	static uint64_t part[PART_WORDS];
	uint64_t *rows = NULL, *more;
	unsigned int used;

	*count = 0;
	do {
		used = 0;
		if (vcuda_call_vcudaCompileRows(*count, PART_WORDS, &used, part) != CUDA_SUCCESS || used > PART_WORDS ||
		    used < VCUDA_COMPILE_WORDS)
			break;
		more = realloc(rows, ((size_t)*count * VCUDA_COMPILE_WORDS + used) * sizeof(*rows));
		if (!more)
			break;
		rows = more;
		memcpy(rows + (size_t)*count * VCUDA_COMPILE_WORDS, part, used * sizeof(*rows));
		*count += used / VCUDA_COMPILE_WORDS;
	} while (used == PART_WORDS);
	return rows;
}

static int by_wall(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return x[VCUDA_COMPILE_WALL] < y[VCUDA_COMPILE_WALL]   ? 1
	       : x[VCUDA_COMPILE_WALL] > y[VCUDA_COMPILE_WALL] ? -1
							       : 0;
}

static void print_row(FILE *out, const uint64_t *row, const char *name)
{
	static const unsigned char times[] = {
		VCUDA_COMPILE_WALL,   VCUDA_COMPILE_BACKGROUND, VCUDA_COMPILE_CPU,
		VCUDA_COMPILE_PARSE,  VCUDA_COMPILE_ANALYSIS,   VCUDA_COMPILE_LOWERING,
		VCUDA_COMPILE_PASSES, VCUDA_COMPILE_EMISSION,   VCUDA_COMPILE_LINK,
	};

	for (size_t n = 0; n < sizeof(times); n++)
		fprintf(out, "%9.1f ", (double)row[times[n]] / 1e6);
	fprintf(out, "%8ju %9ju %6ju %9ju %12ju  %s\n", (uintmax_t)row[VCUDA_COMPILE_COMPILED],
		(uintmax_t)row[VCUDA_COMPILE_OPTIMISED], (uintmax_t)row[VCUDA_COMPILE_LOADED],
		(uintmax_t)row[VCUDA_COMPILE_BYTES], (uintmax_t)row[VCUDA_COMPILE_INSTRUCTIONS], name);
}

static void print_name(FILE *out, const uint64_t *row)
{
	char name[VCUDA_COMPILE_NAME_WORDS * sizeof(*row)];

	memcpy(name, row + VCUDA_COMPILE_NAME, sizeof(name));
	name[sizeof(name) - 1] = 0;
	print_row(out, row, name);
}

void libcuda_trace_kernels_print(FILE *out, uint64_t *rows, unsigned int count)
{
	uint64_t total[VCUDA_COMPILE_WORDS] = {0};

	if (!count)
		return;
	qsort(rows, count, VCUDA_COMPILE_WORDS * sizeof(*rows), by_wall);
	fprintf(out,
		"What the software GPU compiled, in ms\n%9s %9s %9s %9s %9s %9s %9s %9s %9s %8s %9s %6s %9s %12s  %s\n",
		"wall", "behind", "CPU", "parse", "analysis", "lowering", "passes", "emission", "link", "versions",
		"optimised", "cached", "bytes", "instructions", "kernel");
	for (const uint64_t *row = rows; row < rows + (size_t)count * VCUDA_COMPILE_WORDS; row += VCUDA_COMPILE_WORDS) {
		print_name(out, row);
		for (unsigned int n = 0; n < VCUDA_COMPILE_NUMBERS; n++)
			total[n] += row[n];
	}
	print_row(out, total, "total");
}
