/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scrambles of this process's sequences. On a GPU those are of the host's library: they are brought here once, so
 * that generators of the host and kernels have the same sequence as generators of the device. Where the host has no
 * such library, and without any device, those of random/ serve, which one line on stderr says.
 */
#include "generator.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define ROOM 1000 /* words of an answer */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The scrambles of 32 bits and of 64 bits, kept as long as the process lives. */
static struct {
	bool known;
	uint64_t *words; /* NULL: those of random/ */
} scrambles[2];

static CUresult bring(unsigned int bits, uint64_t *words)
{
	unsigned int most = ROOM / (bits + 1), count;
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 0; i < VCUDA_RANDOM_DIMENSIONS && result == CUDA_SUCCESS; i += count) {
		count = VCUDA_RANDOM_DIMENSIONS - i < most ? VCUDA_RANDOM_DIMENSIONS - i : most;
		result = cuVcudaRandomScrambles(bits, i, count * (bits + 1), words + (size_t)i * (bits + 1));
	}
	return result;
}

/* The numbers are not NVIDIA's; the back end says why in its own log. */
static int use_own(void)
{
	static bool said;

	if (!said)
		fprintf(stderr,
			"vcuda: cuRAND: the host has no libcurand.so.10 of NVIDIA's: scrambled Sobol sequences are "
			"as even as NVIDIA's, but other numbers\n");
	said = true;
	return RAND_SUCCESS;
}

static int find(unsigned int bits, uint64_t **words)
{
	uint64_t first[65];
	CUresult result;

	*words = NULL;
	if (cuInit(0) != CUDA_SUCCESS)
		return RAND_SUCCESS;
	result = cuVcudaRandomScrambles(bits, 0, bits + 1, first);
	if (result == CUDA_ERROR_NOT_SUPPORTED)
		return use_own();
	if (result != CUDA_SUCCESS)
		return rand_status_of(result, RAND_INITIALIZATION_FAILED);
	*words = malloc(sizeof(**words) * (bits + 1) * VCUDA_RANDOM_DIMENSIONS);
	if (!*words)
		return RAND_ALLOCATION_FAILED;
	result = bring(bits, *words);
	if (result != CUDA_SUCCESS)
		free(*words);
	return rand_status_of(result, RAND_INITIALIZATION_FAILED);
}

int rand_scrambles(uint32_t type, const uint64_t **words)
{
	unsigned int wide = vcuda_random_is_long(type);
	int status = RAND_SUCCESS;
	uint64_t *found;

	pthread_mutex_lock(&lock);
	if (!scrambles[wide].known) {
		status = find(wide ? 64 : 32, &found);
		if (!status) {
			scrambles[wide].words = found;
			scrambles[wide].known = true;
		}
	}
	*words = scrambles[wide].words;
	pthread_mutex_unlock(&lock);
	return status;
}
