/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of directions that programs give to their own kernels. */
#include "generator.h"

#include <pthread.h>
#include <stdlib.h>

#include "sobol-data.h"

enum { DIRECTIONS_32 = 101, SCRAMBLED_32 = 102, DIRECTIONS_64 = 103, SCRAMBLED_64 = 104 };

__attribute__((weak)) void vcuda_log(const char *format, ...);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int (*table_32)[32];
static unsigned long long (*table_64)[64];

/* Made when they are first asked for, and kept: programs hold pointers. */
static void make_32(void)
{
	uint64_t directions[64];

	table_32 = malloc(sizeof(*table_32) * VCUDA_RANDOM_DIMENSIONS);
	for (unsigned int i = 0; i < VCUDA_RANDOM_DIMENSIONS && table_32; i++) {
		rng_directions(i, 32, directions);
		for (unsigned int k = 0; k < 32; k++)
			table_32[i][k] = (unsigned int)directions[k];
	}
}

static void make_64(void)
{
	uint64_t directions[64];

	table_64 = malloc(sizeof(*table_64) * VCUDA_RANDOM_DIMENSIONS);
	for (unsigned int i = 0; i < VCUDA_RANDOM_DIMENSIONS && table_64; i++) {
		rng_directions(i, 64, directions);
		for (unsigned int k = 0; k < 64; k++)
			table_64[i][k] = directions[k];
	}
}

static int refuse(const char *name)
{
	if (vcuda_log)
		vcuda_log("%s: scrambled directions are not supported", name);
	return RAND_ARCH_MISMATCH;
}

RAND_API int curandGetDirectionVectors32(unsigned int (**vectors)[32], int set)
{
	if (set == SCRAMBLED_32)
		return refuse("curandGetDirectionVectors32");
	if (set != DIRECTIONS_32 || !vectors)
		return RAND_OUT_OF_RANGE;
	pthread_mutex_lock(&lock);
	if (!table_32)
		make_32();
	*vectors = table_32;
	pthread_mutex_unlock(&lock);
	return *vectors ? RAND_SUCCESS : RAND_ALLOCATION_FAILED;
}

RAND_API int curandGetDirectionVectors64(unsigned long long (**vectors)[64], int set)
{
	if (set == SCRAMBLED_64)
		return refuse("curandGetDirectionVectors64");
	if (set != DIRECTIONS_64 || !vectors)
		return RAND_OUT_OF_RANGE;
	pthread_mutex_lock(&lock);
	if (!table_64)
		make_64();
	*vectors = table_64;
	pthread_mutex_unlock(&lock);
	return *vectors ? RAND_SUCCESS : RAND_ALLOCATION_FAILED;
}
