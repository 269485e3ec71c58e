/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-TARGET [--runs N] [--seed N]   random inputs; the seed that is printed repeats a run
 * fuzz-TARGET FILE...                 these inputs
 * fuzz-TARGET --corpus FOLDER N       writes the seeds 0 to N - 1 of the target to the folder
 *
 * VCUDA_TEST_SEED=N does what --seed N does.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/seed.h"

#define INPUT_BYTES (64u * 1024)

static uint64_t state; /* never 0 */

static uint64_t random_word(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Values that lengths and indices go wrong at. */
static uint64_t odd_word(void)
{
	static const uint64_t odd[] = {
		0,          1,          7,          8,          9,          0x7fffffff,    0x80000000,
		0xffffffff, 1ull << 32, 1ull << 62, 1ull << 63, UINT64_MAX, UINT64_MAX - 7};
	uint64_t which = random_word() % (2 * sizeof(odd) / sizeof(*odd));

	return which < sizeof(odd) / sizeof(*odd) ? odd[which] : random_word() >> random_word() % 64;
}

static size_t mutate(uint8_t *data, size_t bytes)
{
	for (uint64_t n = random_word() % 6; n && bytes; n--) {
		size_t at = random_word() % bytes;
		uint64_t word = odd_word();

		switch (random_word() % 4) {
		case 0:
			data[at] = (uint8_t)word;
			break;
		case 1:
			data[at] ^= (uint8_t)(1u << word % 8);
			break;
		case 2:
			at &= ~(size_t)7;
			memcpy(data + at, &word, bytes - at < 8 ? bytes - at : 8);
			break;
		default:
			bytes = at;
		}
	}
	return bytes;
}

/* The input ends where its memory ends, so that a sanitizer sees a read past it. */
static void run(const uint8_t *data, size_t bytes)
{
	uint8_t *exact = malloc(bytes ? bytes : 1);

	if (!exact)
		abort();
	memcpy(exact, data, bytes);
	LLVMFuzzerTestOneInput(exact, bytes);
	free(exact);
}

static void run_random(unsigned long runs)
{
	static uint8_t buffer[INPUT_BYTES];

	for (unsigned long i = 0; i < runs; i++) {
		size_t bytes = fuzz_seed((unsigned int)random_word(), buffer, sizeof(buffer));

		if (!bytes) {
			bytes = random_word() % 512;
			for (size_t at = 0; at < bytes; at++)
				buffer[at] = (uint8_t)random_word();
		}
		run(buffer, mutate(buffer, bytes));
	}
}

static int run_file(const char *path)
{
	static uint8_t buffer[1 << 20];
	FILE *f = fopen(path, "rb");

	if (!f) {
		perror(path);
		return 1;
	}
	run(buffer, fread(buffer, 1, sizeof(buffer), f));
	fclose(f);
	return 0;
}

static int write_corpus(const char *folder, unsigned int count)
{
	static uint8_t buffer[INPUT_BYTES];

	for (unsigned int i = 0; i < count; i++) {
		size_t bytes = fuzz_seed(i, buffer, sizeof(buffer));
		char path[4096];
		FILE *f;

		snprintf(path, sizeof(path), "%s/seed-%u", folder, i);
		f = fopen(path, "wb");
		if (!f || fwrite(buffer, 1, bytes, f) != bytes || fclose(f)) {
			perror(path);
			return 1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long runs = 100000;
	int failed = 0, i = 1;

	if (argc == 4 && !strcmp(argv[1], "--corpus"))
		return write_corpus(argv[2], (unsigned int)strtoul(argv[3], NULL, 10));
	for (; i + 1 < argc && !strncmp(argv[i], "--", 2); i += 2)
		if (!strcmp(argv[i], "--runs"))
			runs = strtoul(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "--seed"))
			setenv("VCUDA_TEST_SEED", argv[i + 1], 1);
		else
			break;
	if (i == argc) {
		state = test_seed_state(test_seed());
		run_random(runs);
	}
	for (; i < argc; i++)
		failed |= run_file(argv[i]);
	return failed;
}
