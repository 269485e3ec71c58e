/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generators of cuRAND. Their settings lie in the guest; a generation on the device is one queued command with all of
 * them, one of a host generator is done at once by the same code that the software GPU has. Programs have the types of
 * NVIDIA's header; here a generator is a pointer and an enumeration an int.
 */
#ifndef CURAND_GENERATOR_H
#define CURAND_GENERATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/cuda-functions.h"
#include "random/rng.h"

#define RAND_API __attribute__((visibility("default")))

enum rand_status {
	RAND_SUCCESS = 0,
	RAND_NOT_INITIALIZED = 101,
	RAND_ALLOCATION_FAILED = 102,
	RAND_TYPE_ERROR = 103,
	RAND_OUT_OF_RANGE = 104,
	RAND_LENGTH_NOT_MULTIPLE = 105,
	RAND_LAUNCH_FAILURE = 201,
	RAND_PREEXISTING_FAILURE = 202,
	RAND_INITIALIZATION_FAILED = 203,
	RAND_ARCH_MISMATCH = 204,
	RAND_INTERNAL_ERROR = 999,
};

struct rand_generator {
	vcuda_random now; /* the type and settings; fresh: the next generation begins the sequence anew, at its place */
	uint64_t moved;   /* from now.offset on: the places that were generated; of Philox turns of four numbers */
	uint64_t within;  /* the turn: Philox only */
	struct rng *rng;  /* for a host generator; else NULL */
	vcuda_generator device;
	CUcontext context;
	CUstream stream;
};

/* By dimension, the directions and the constant of a scrambled type, for rng_set_scrambles(). NULL: those of random/.
 */
int rand_scrambles(uint32_t type, const uint64_t **words);

/* The driver's result in cuRAND's words; `otherwise`: for errors that have none of their own. */
int rand_status_of(CUresult result, int otherwise);

/* The context that is current, or the first device's primary one, which is it then. */
CUresult rand_current_context(CUcontext *context);

/* Generated: what curandGetVersion() says. */
extern const int curand_version;

#endif
