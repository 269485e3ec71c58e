/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of directions and constants that programs give to their own kernels. */
#include "generator.h"

#include <pthread.h>
#include <stdlib.h>

#include "random/sobol-data.h"

/* cuRAND's numbers of the tables are those of the types, less this. */
#define TYPE_OF_SET 100

struct table_32 {
	unsigned int directions[VCUDA_RANDOM_DIMENSIONS][32], constants[VCUDA_RANDOM_DIMENSIONS];
};

struct table_64 {
	unsigned long long directions[VCUDA_RANDOM_DIMENSIONS][64], constants[VCUDA_RANDOM_DIMENSIONS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* By type; made when they are first asked for, and kept, since programs hold pointers. */
static struct table_32 *tables_32[2];
static struct table_64 *tables_64[2];

static void make_32(uint32_t type, const uint64_t *scrambles)
{
	struct table_32 *table = malloc(sizeof(*table));
	uint64_t directions[64];

	for (unsigned int i = 0; i < VCUDA_RANDOM_DIMENSIONS && table; i++) {
		table->constants[i] = (unsigned int)rng_load_sobol(type, scrambles, i, directions);
		for (unsigned int k = 0; k < 32; k++)
			table->directions[i][k] = (unsigned int)directions[k];
	}
	tables_32[vcuda_random_is_scrambled(type)] = table;
}

static void make_64(uint32_t type, const uint64_t *scrambles)
{
	struct table_64 *table = malloc(sizeof(*table));
	uint64_t directions[64];

	for (unsigned int i = 0; i < VCUDA_RANDOM_DIMENSIONS && table; i++) {
		table->constants[i] = rng_load_sobol(type, scrambles, i, directions);
		for (unsigned int k = 0; k < 64; k++)
			table->directions[i][k] = directions[k];
	}
	tables_64[vcuda_random_is_scrambled(type)] = table;
}

static bool is_there(uint32_t type)
{
	bool scrambled = vcuda_random_is_scrambled(type);

	return vcuda_random_is_long(type) ? tables_64[scrambled] != NULL : tables_32[scrambled] != NULL;
}

static int need(uint32_t type)
{
	const uint64_t *scrambles = NULL;
	int status = RAND_SUCCESS;

	pthread_mutex_lock(&lock);
	if (!is_there(type) && vcuda_random_is_scrambled(type))
		status = rand_scrambles(type, &scrambles);
	if (!is_there(type) && !status)
		(vcuda_random_is_long(type) ? make_64 : make_32)(type, scrambles);
	if (!is_there(type) && !status)
		status = RAND_ALLOCATION_FAILED;
	pthread_mutex_unlock(&lock);
	return status;
}

RAND_API int curandGetDirectionVectors32(unsigned int (**vectors)[32], int set)
{
	uint32_t type = (uint32_t)set + TYPE_OF_SET;
	int status;

	if (!vcuda_random_is_quasi(type) || vcuda_random_is_long(type) || !vectors)
		return RAND_OUT_OF_RANGE;
	status = need(type);
	if (!status)
		*vectors = tables_32[vcuda_random_is_scrambled(type)]->directions;
	return status;
}

RAND_API int curandGetDirectionVectors64(unsigned long long (**vectors)[64], int set)
{
	uint32_t type = (uint32_t)set + TYPE_OF_SET;
	int status;

	if (!vcuda_random_is_long(type) || !vectors)
		return RAND_OUT_OF_RANGE;
	status = need(type);
	if (!status)
		*vectors = tables_64[vcuda_random_is_scrambled(type)]->directions;
	return status;
}

RAND_API int curandGetScrambleConstants32(unsigned int **constants)
{
	int status;

	if (!constants)
		return RAND_OUT_OF_RANGE;
	status = need(VCUDA_RANDOM_SCRAMBLED_SOBOL32);
	if (!status)
		*constants = tables_32[true]->constants;
	return status;
}

RAND_API int curandGetScrambleConstants64(unsigned long long **constants)
{
	int status;

	if (!constants)
		return RAND_OUT_OF_RANGE;
	status = need(VCUDA_RANDOM_SCRAMBLED_SOBOL64);
	if (!status)
		*constants = tables_64[true]->constants;
	return status;
}
