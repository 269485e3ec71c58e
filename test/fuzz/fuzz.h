/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzz target is one function with libFuzzer's name and one file per target. `fuzz-main.c` runs it with random inputs
 * or with the files named on the command line. It prints the seed of the inputs; --seed N or VCUDA_TEST_SEED=N repeats
 * them. In a build with -Dfuzz=true libFuzzer runs it (run.sh).
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* libFuzzer keeps the input of a process that aborts. */
#define CHECK_END() abort()
#include "test/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/*
 * Writes a seed, which is mutated: a target has a few that reach deep code. Returns the number of bytes written, 0:
 * random.
 */
size_t fuzz_seed(unsigned int number, uint8_t *buffer, size_t room);

#endif
