/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The results of a real GPU: for each result of a test the first tuples' values, and a hash of each 32 of the others.
 * Tests whose results have bounds keep more values and no hashes. A file has one line a test: its key, and these
 * results in base 64.
 */
#ifndef TEST_PTX_EXPECT_H
#define TEST_PTX_EXPECT_H

#include <stdio.h>

#include "case.h"

#define EXPECT_GROUP 32

/* Keep all values and no hashes: to find out what is wrong where only a hash says that something is. */
extern bool expect_all;

struct expectation {
	uint64_t key;
	uint8_t *bytes;
	size_t size;
};

struct expect_file {
	struct expectation *lines;
	unsigned count;
};

/* No such file: empty. */
bool expect_read(const char *path, struct expect_file *file);
const struct expectation *expect_find(const struct expect_file *file, uint64_t key);

/* Results of one test (columns of TUPLES) as bytes, for free(). */
uint8_t *expect_pack(const struct ptx_case *c, const uint64_t *results, size_t *size);
void expect_print(FILE *out, uint64_t key, const uint8_t *bytes, size_t size);

/* The first difference between results and what was recorded, as text; false: there is none. */
bool expect_differs(const struct ptx_case *c, const uint64_t *results, const struct expectation *e, char *text,
		    size_t size);

#endif
