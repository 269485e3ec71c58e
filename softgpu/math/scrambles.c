/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's scrambles are tables of its library, which needs no GPU to give them. The library is opened by its usual
 * paths only: by its name the loader might find this project's own, which asks the worker.
 */
#include "math/scrambles.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "ops.h"
#include "protocol/random-abi.h"

enum { SCRAMBLED_32 = 102, SCRAMBLED_64 = 104 }; /* cuRAND's numbers of the tables */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t *tables[2]; /* tables of 32-bit and of 64-bit numbers */

static void *open_library(void)
{
	static const char *const paths[] = {
		"/usr/local/cuda/lib64/libcurand.so.10",
		"/opt/cuda/lib64/libcurand.so.10",
		"/usr/lib/x86_64-linux-gnu/libcurand.so.10",
		"/usr/lib64/libcurand.so.10",
	};
	void *library = NULL;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]) && !library; i++)
		library = dlopen(paths[i], RTLD_NOW | RTLD_LOCAL);
	return library;
}

static uint64_t *join_32(unsigned int (*directions)[32], const unsigned int *constants)
{
	uint64_t *words = malloc(sizeof(*words) * 33 * VCUDA_RANDOM_DIMENSIONS), *to = words;

	for (unsigned int i = 0; i < VCUDA_RANDOM_DIMENSIONS && words; i++) {
		for (unsigned int k = 0; k < 32; k++)
			*to++ = directions[i][k];
		*to++ = constants[i];
	}
	return words;
}

static uint64_t *join_64(unsigned long long (*directions)[64], const unsigned long long *constants)
{
	uint64_t *words = malloc(sizeof(*words) * 65 * VCUDA_RANDOM_DIMENSIONS), *to = words;

	for (unsigned int i = 0; i < VCUDA_RANDOM_DIMENSIONS && words; i++) {
		memcpy(to, directions[i], 64 * sizeof(*to));
		to[64] = constants[i];
		to += 65;
	}
	return words;
}

static void read_32(void *library)
{
	int (*get)(unsigned int(**)[32], int) =
		(int (*)(unsigned int(**)[32], int))dlsym(library, "curandGetDirectionVectors32");
	int (*more)(unsigned int **) = (int (*)(unsigned int **))dlsym(library, "curandGetScrambleConstants32");
	unsigned int(*directions)[32], *constants;

	if (get && more && !get(&directions, SCRAMBLED_32) && !more(&constants))
		tables[0] = join_32(directions, constants);
}

static void read_64(void *library)
{
	int (*get)(unsigned long long(**)[64], int) =
		(int (*)(unsigned long long(**)[64], int))dlsym(library, "curandGetDirectionVectors64");
	int (*more)(unsigned long long **) =
		(int (*)(unsigned long long **))dlsym(library, "curandGetScrambleConstants64");
	unsigned long long(*directions)[64], *constants;

	if (get && more && !get(&directions, SCRAMBLED_64) && !more(&constants))
		tables[1] = join_64(directions, constants);
}

static void load(void)
{
	void *library = open_library();

	if (library) {
		read_32(library);
		read_64(library);
		dlclose(library);
	}
	/* of one sequence both, or none */
	if (tables[0] && tables[1])
		return;
	free(tables[0]);
	free(tables[1]);
	tables[0] = tables[1] = NULL;
	vcuda_log("scrambled Sobol sequences are not NVIDIA's: the host has no libcurand.so.10 in a usual place (any "
		  "toolkit of NVIDIA's, or its package libcurand)");
}

const uint64_t *softgpu_scrambles(uint32_t type)
{
	if (!vcuda_random_is_scrambled(type))
		return NULL;
	pthread_once(&once, load);
	return tables[vcuda_random_is_long(type)];
}

/* Logs nothing beyond the line of load(): the caller has numbers of its own. */
CUresult softgpu_randomScrambles(uint32_t bits, uint32_t first, uint32_t dimensions, void *words)
{
	const uint64_t *table =
		softgpu_scrambles(bits == 32 ? VCUDA_RANDOM_SCRAMBLED_SOBOL32 : VCUDA_RANDOM_SCRAMBLED_SOBOL64);
	size_t each = bits + 1;

	if (!table)
		return CUDA_ERROR_NOT_SUPPORTED;
	memcpy(words, table + first * each, dimensions * each * sizeof(*table));
	return CUDA_SUCCESS;
}
