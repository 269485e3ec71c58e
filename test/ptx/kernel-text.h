/* SPDX-License-Identifier: Apache-2.0 */
/* The PTX of a kernel that runs several tests, one after another, each on one tuple of inputs a thread. */
#ifndef TEST_PTX_KERNEL_TEXT_H
#define TEST_PTX_KERNEL_TEXT_H

#include "case.h"

#define TUPLES 1024
#define THREADS 128
#define OWN_BYTES 64

/* Columns of inputs: one a type and position, made when first asked for. */
struct inputs {
	struct {
		const struct value_type *type;
		unsigned position;
	} columns[128];
	unsigned count;
	uint64_t *values; /* [column][TUPLES] */
};

unsigned inputs_column(struct inputs *in, const struct value_type *type, unsigned position);

/*
 * Kernel `test`(results, inputs, memory of the threads' own). Results are columns of TUPLES 64-bit numbers in the order
 * of the tests. For free().
 */
char *kernel_text(const struct case_file *file, const struct ptx_case *cases, unsigned count, struct inputs *in);

#endif
