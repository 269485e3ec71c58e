/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs random kernels on whatever libcuda.so.1 it finds, and prints a hash of each one's results.
 *
 * usage: run-random FIRST LAST             one line "SEED HASH" a kernel
 *        run-random --check FILE [EVERY [FIRST]]
 *                                          compares with such lines of a real GPU: of EVERY (1) of them the FIRSTth (0)
 *        run-random --text SEED [N,...]    the PTX, without the statements N,...
 *        run-random --list                 reads lines "SEED N,..." and prints a hash for each
 *        run-random --results SEED [N,...] what the hash is of
 *
 * PTX_ASSEMBLER_AGAIN: each kernel runs a second time, with this for PTX_ASSEMBLER (cuda.c). Both hashes have to be the
 * same. They may differ from the recorded one, because the assembler's optimiser has mistakes.
 *
 * PTX_OPTIMISE=0 in the environment turns the driver's optimiser off, which tells its mistakes from others'.
 * Exit status 0: all kernels ran, and are as the file says.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "random-kernel.h"
#include "value.h"

static CUdeviceptr memory[2];
static uint32_t input[RANDOM_IN / 4];
static union {
	uint32_t words[RANDOM_OUT / 4];
	uint64_t pairs[RANDOM_OUT / 8];
} output;

static void open_memory(void)
{
	memory[0] = cuda_allocate(RANDOM_OUT);
	memory[1] = cuda_allocate(RANDOM_IN);
	for (unsigned n = 0; n < RANDOM_IN / 4; n++)
		input[n] = (uint32_t)value_input(value_type(n % 3 ? "b32" : "f32"), 0, n);
	cuda_write(memory[1], input, RANDOM_IN);
}

/* The bits of a NaN are unspecified: one number replaces all NaNs. */
static void settle_nans(const struct random_kernel *k)
{
	for (unsigned n = 0; n < k->threads * k->blocks; n++) {
		uint32_t *f = output.words + (RANDOM_RESULTS + n * RANDOM_THREAD + RANDOM_SINGLES) / 4;
		uint64_t *d = output.pairs + (RANDOM_RESULTS + n * RANDOM_THREAD + RANDOM_DOUBLES) / 8;

		for (unsigned i = 0; i < 5; i++)
			f[i] = (uint32_t)value_canonical(value_type("f32"), f[i]);
		for (unsigned i = 0; i < 3; i++)
			d[i] = value_canonical(value_type("f64"), d[i]);
	}
}

/* The hash as text, or what went wrong. */
static bool hash_of(const char *text, const struct random_kernel *k, char *hash, size_t size)
{
	struct cuda_shape shape = {{k->blocks, 1, 1}, {k->threads, 1, 1}};
	const char *step = "";
	uint64_t sum = 0;
	CUresult error;

	memset(&output, 0, sizeof(output));
	cuda_write(memory[0], &output, sizeof(output));
	error = cuda_run(text, &shape, memory, 2, &step);
	if (!error)
		error = cuda_read(&output, memory[0], sizeof(output));
	if (error) {
		snprintf(hash, size, "%s-error-%d", step, (int)error);
		cuda_reopen();
		open_memory();
		return false;
	}
	settle_nans(k);
	for (unsigned n = 0; n < RANDOM_OUT / 8; n++)
		sum = value_mix(sum ^ output.pairs[n]);
	snprintf(hash, size, "%016" PRIx64, sum);
	return true;
}

static bool *parse_skip(const char *list, unsigned count)
{
	bool *skip = calloc(count, sizeof(*skip));
	char *end;

	while (list && *list >= '0' && *list <= '9') {
		unsigned long n = strtoul(list, &end, 10);

		if (n < count)
			skip[n] = true;
		list = *end == ',' ? end + 1 : end;
	}
	return skip;
}

/* "SEED N,..." */
static bool run_line(const char *line, char *hash, size_t size)
{
	struct random_kernel k;
	char *end, *text;
	bool *skip, ok;

	random_kernel_make(&k, strtoull(line, &end, 0));
	skip = parse_skip(*end ? end + 1 : end, k.count);
	text = random_kernel_text(&k, skip);
	ok = hash_of(text, &k, hash, size);
	free(text);
	free(skip);
	random_kernel_free(&k);
	return ok;
}

/* The same with the other assembler. */
static void run_again(const char *line, const char *again, char *hash, size_t size)
{
	char first[4096];

	snprintf(first, sizeof(first), "%s", getenv("PTX_ASSEMBLER"));
	setenv("PTX_ASSEMBLER", again, 1);
	run_line(line, hash, size);
	setenv("PTX_ASSEMBLER", first, 1);
}

static int check(const char *path, unsigned every, unsigned first)
{
	const char *again = getenv("PTX_ASSEMBLER") ? getenv("PTX_ASSEMBLER_AGAIN") : NULL;
	char *line = NULL, want[64], hash[64], other[64];
	FILE *file = fopen(path, "r");
	unsigned right = 0, wrong = 0, newer = 0, unlike = 0;
	size_t room = 0;
	uint64_t seed;

	if (!file) {
		perror(path);
		return 1;
	}
	for (unsigned n = 0; getline(&line, &room, file) > 0;) {
		if (sscanf(line, "%" SCNu64 " %63s", &seed, want) != 2 || n++ % every != first)
			continue;
		*strchr(line, ' ') = 0;
		run_line(line, hash, sizeof(hash));
		strcpy(other, hash);
		if (again)
			run_again(line, again, other, sizeof(other));
		if (strcmp(other, hash)) {
			printf("kernel %" PRIu64 ": %s, and %s again\n", seed, hash, other);
			unlike++;
		}
		if (!strcmp(want, hash)) {
			right++;
			continue;
		}
		/* the assembler's target does not have it */
		if (!strcmp(hash, "load-error-209") && getenv("PTX_ASSEMBLER")) {
			newer++;
			continue;
		}
		printf("kernel %" PRIu64 ": %s, not %s\n", seed, hash, want);
		wrong++;
	}
	free(line);
	fclose(file);
	printf("%u kernels as recorded, %u not, %u for newer devices\n", right, wrong, newer);
	if (again)
		printf("%u kernels differ the second time\n", unlike);
	return (again ? unlike : wrong) || !right;
}

static int show(int argc, char **argv)
{
	struct random_kernel k;
	bool *skip;

	random_kernel_make(&k, strtoull(argv[2], NULL, 0));
	skip = parse_skip(argc > 3 ? argv[3] : NULL, k.count);
	printf("// %u threads, %u blocks, %u statements\n%s", k.threads, k.blocks, k.count,
	       random_kernel_text(&k, skip));
	return 0;
}

int main(int argc, char **argv)
{
	char line[65536], hash[64];
	bool all = true;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 2 && !strcmp(argv[1], "--text"))
		return show(argc, argv);
	cuda_open();
	open_memory();
	if (argc > 2 && !strcmp(argv[1], "--check")) {
		unsigned every = argc > 3 ? (unsigned)atoi(argv[3]) : 1, first = argc > 4 ? (unsigned)atoi(argv[4]) : 0;

		return first < every ? check(argv[2], every, first) : 2;
	}
	if (argc > 2 && !strcmp(argv[1], "--results")) {
		snprintf(line, sizeof(line), "%s %s", argv[2], argc > 3 ? argv[3] : "");
		return !run_line(line, hash, sizeof(hash)) || fwrite(&output, sizeof(output), 1, stdout) != 1;
	}
	if (argc > 1 && !strcmp(argv[1], "--list")) {
		while (fgets(line, sizeof(line), stdin)) {
			all &= run_line(line, hash, sizeof(hash));
			puts(hash);
		}
		return !all;
	}
	if (argc < 3)
		return 2;
	for (uint64_t seed = strtoull(argv[1], NULL, 0), last = strtoull(argv[2], NULL, 0); seed <= last; seed++) {
		snprintf(line, sizeof(line), "%" PRIu64, seed);
		all &= run_line(line, hash, sizeof(hash));
		printf("%" PRIu64 " %s\n", seed, hash);
	}
	return !all;
}
