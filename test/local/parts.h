/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of which a test runs one part at a time, in the first device's primary context. */
#ifndef TEST_LOCAL_PARTS_H
#define TEST_LOCAL_PARTS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/cuda-functions.h"
#include "test/check.h"
#include "test/seed.h"

struct part {
	const char *name;
	void (*run)(void);
};

/* The exit status: 2 if there is no such part. A NULL name ends the list. */
static inline int run_part(int argc, char **argv, const struct part *parts)
{
	CUcontext context;

	CHECK(!cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context));
	while (parts->name && (argc != 2 || strcmp(argv[1], parts->name)))
		parts++;
	if (!parts->name)
		return 2;
	parts->run();
	printf("%s: passed\n", parts->name);
	return 0;
}

static inline uint64_t random_bits(void)
{
	static uint64_t state;

	if (!state)
		state = test_seed_state(test_seed());
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

#endif
