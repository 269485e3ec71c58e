/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers on the wire, as both sides know them. The numbers of types and orderings are cuRAND's. */
#ifndef VCUDA_RANDOM_ABI_H
#define VCUDA_RANDOM_ABI_H

#include <stdbool.h>
#include <stdint.h>

enum vcuda_random_type {
	VCUDA_RANDOM_XORWOW = 101,
	VCUDA_RANDOM_MRG32K3A = 121,
	VCUDA_RANDOM_MTGP32 = 141,
	VCUDA_RANDOM_MT19937 = 142,
	VCUDA_RANDOM_PHILOX = 161,
	VCUDA_RANDOM_SOBOL32 = 201,
	VCUDA_RANDOM_SCRAMBLED_SOBOL32 = 202,
	VCUDA_RANDOM_SOBOL64 = 203,
	VCUDA_RANDOM_SCRAMBLED_SOBOL64 = 204,
};

enum vcuda_random_ordering {
	VCUDA_ORDERING_BEST = 100,
	VCUDA_ORDERING_DEFAULT = 101,
	VCUDA_ORDERING_SEEDED = 102,
	VCUDA_ORDERING_LEGACY = 103,
	VCUDA_ORDERING_DYNAMIC = 104,
	VCUDA_ORDERING_QUASI = 201,
};

/* The kinds of numbers; `a` and `b`: mean and standard deviation, or lambda. */
enum vcuda_random_kind {
	VCUDA_RANDOM_BITS,
	VCUDA_RANDOM_LONG_BITS,
	VCUDA_RANDOM_UNIFORM,
	VCUDA_RANDOM_UNIFORM_DOUBLE,
	VCUDA_RANDOM_NORMAL,
	VCUDA_RANDOM_NORMAL_DOUBLE,
	VCUDA_RANDOM_LOG_NORMAL,
	VCUDA_RANDOM_LOG_NORMAL_DOUBLE,
	VCUDA_RANDOM_POISSON,
	VCUDA_RANDOM_KINDS
};

#define VCUDA_RANDOM_DIMENSIONS 20000
#define VCUDA_RANDOM_MOST_LAMBDA 400000

/* The settings of a generator, and one generation. */
typedef struct vcuda_random {
	uint32_t type, ordering;
	uint32_t dimensions; /* 1 of pseudo-random types */
	uint32_t fresh;      /* 1: the sequence begins with these settings; 0: it continues */
	uint64_t seed, offset;
	uint32_t kind, reserved;
	uint64_t address, count;
	double a, b;
} vcuda_random;

enum vcuda_random_fault { VCUDA_RANDOM_SOUND, VCUDA_RANDOM_TYPE, VCUDA_RANDOM_RANGE, VCUDA_RANDOM_LENGTH };

bool vcuda_random_is_type(uint32_t type);
bool vcuda_random_is_quasi(uint32_t type);
bool vcuda_random_is_scrambled(uint32_t type);
/* Quasi-random numbers of 64 bits. */
bool vcuda_random_is_long(uint32_t type);

/* Whether a generator of that type supports the ordering. */
bool vcuda_random_orders(uint32_t type, uint32_t ordering);

/* Bytes of one number. */
unsigned int vcuda_random_bytes(uint32_t kind);

/* The number of numbers of that kind that are made at once, from one place of the sequence. */
unsigned int vcuda_random_pair(uint32_t type, uint32_t kind);

/* Checks a request. A back end may only get a request that has passed. Thread-safe. */
enum vcuda_random_fault vcuda_random_check(const vcuda_random *r);

#endif
