/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs instruction tests on whatever libcuda.so.1 it finds, and compares with what a real GPU computed.
 *
 * usage: run-cases [--record | --dump] [--all] FILE.ptxt...
 *
 * The expectations of NAME.ptxt stand in NAME.expect beside it. --record, on a real GPU, writes them instead.
 * --dump prints the kernels and runs nothing. --all: the expectations stand in NAME.all and hold every value.
 * Exit status 0: all are as recorded; 1: some are not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "expect.h"
#include "kernel-text.h"

#define BATCH 16

enum mode { CHECK, RECORD, DUMP };

struct run {
	enum mode mode;
	const char *path;
	struct case_file file;
	struct expect_file expected;
	struct inputs inputs;
	FILE *record;
	unsigned right, wrong, refused, newer; /* newer: the assembler's target does not have it */
};

static void fail(struct run *r, const struct ptx_case *c, const char *text)
{
	printf("%s:%u: %s\n\t%s\n", r->path, c->line, c->text, text);
	r->wrong++;
}

static void check_one(struct run *r, const struct ptx_case *c, const uint64_t *results)
{
	const struct expectation *e = expect_find(&r->expected, c->key);
	char text[512];

	if (r->mode == RECORD) {
		size_t size;
		uint8_t *bytes = expect_pack(c, results, &size);

		expect_print(r->record, c->key, bytes, size);
		free(bytes);
		r->right++;
	} else if (!e) {
		fail(r, c, "nothing is recorded for it");
	} else if (expect_differs(c, results, e, text, sizeof(text))) {
		fail(r, c, text);
	} else {
		r->right++;
	}
}

/* Returns an error of the driver; *step says where. */
static CUresult compute(struct run *r, const char *text, uint64_t *results, size_t bytes, const char **step)
{
	struct cuda_shape shape = {{TUPLES / THREADS, 1, 1}, {0}};
	CUdeviceptr pointers[3] = {cuda_allocate(bytes), cuda_allocate(r->inputs.count * TUPLES * 8 + 8),
				   cuda_allocate(TUPLES * OWN_BYTES)};
	CUresult error;

	memcpy(shape.threads, r->file.threads, sizeof(shape.threads));
	cuda_write(pointers[0], results, bytes);
	cuda_write(pointers[1], r->inputs.values, r->inputs.count * TUPLES * 8);
	error = cuda_run(text, &shape, pointers, 3, step);
	if (!error)
		error = cuda_read(results, pointers[0], bytes);
	for (unsigned n = 0; n < 3; n++)
		cuda_free(pointers[n]);
	return error;
}

/* Where several do not run together, each half does alone. */
static void run_batch(struct run *r, const struct ptx_case *cases, unsigned count)
{
	char *text = kernel_text(&r->file, cases, count, &r->inputs), reason[1024];
	unsigned columns = 0;
	uint64_t *results;
	const char *step = "";
	CUresult error;

	if (r->mode == DUMP) {
		fputs(text, stdout);
		free(text);
		return;
	}
	for (unsigned n = 0; n < count; n++)
		columns += cases[n].result_count;
	results = calloc(columns, TUPLES * 8);
	error = compute(r, text, results, columns * TUPLES * 8ul, &step);
	if (error)
		cuda_reopen();
	if (error && count > 1) {
		run_batch(r, cases, count / 2);
		run_batch(r, cases + count / 2, count - count / 2);
	} else if (error == CUDA_ERROR_NOT_SUPPORTED && cases->may_refuse) {
		r->refused++;
	} else if (error == CUDA_ERROR_NO_BINARY_FOR_GPU && getenv("PTX_ASSEMBLER")) {
		r->newer++;
	} else if (error) {
		snprintf(reason, sizeof(reason), "%s: CUDA error %d %.900s", step, (int)error, cuda_log());
		fail(r, cases, reason);
	} else {
		uint64_t *at = results;

		for (unsigned n = 0; n < count; at += cases[n++].result_count * TUPLES)
			check_one(r, &cases[n], at);
	}
	free(results);
	free(text);
}

static bool run_file(const char *path, enum mode mode)
{
	struct run r = {.mode = mode, .path = path};
	char *expected = strdup(path), *dot = strrchr(expected, '.');

	if (!dot || strcmp(dot, ".ptxt") || !case_file_read(path, &r.file))
		return false;
	expected = realloc(expected, strlen(path) + 16);
	strcpy(strrchr(expected, '.'), expect_all ? ".all" : ".expect");
	if (mode == CHECK && !expect_read(expected, &r.expected))
		return false;
	if (mode == RECORD && !(r.record = fopen(expected, "w")))
		return false;
	for (unsigned n = 0; n < r.file.count; n += BATCH)
		run_batch(&r, &r.file.cases[n], r.file.count - n < BATCH ? r.file.count - n : BATCH);
	if (mode != DUMP)
		printf("%s: %u %s, %u refused, %u not, %u for newer devices\n", path, r.right,
		       mode == RECORD ? "recorded" : "as recorded", r.refused, r.wrong, r.newer);
	if (r.record)
		fclose(r.record);
	fflush(stdout);
	/* An assembler that refuses all, or ends, shows nothing. */
	return !r.wrong && (r.right || r.refused || mode == DUMP);
}

int main(int argc, char **argv)
{
	enum mode mode = CHECK;
	int first, status = 0;

	for (first = 1; first < argc && argv[first][0] == '-'; first++)
		if (!strcmp(argv[first], "--record"))
			mode = RECORD;
		else if (!strcmp(argv[first], "--dump"))
			mode = DUMP;
		else
			expect_all = true;
	if (mode != DUMP)
		cuda_open();
	for (int n = first; n < argc; n++)
		if (!run_file(argv[n], mode))
			status = 1;
	return status;
}
