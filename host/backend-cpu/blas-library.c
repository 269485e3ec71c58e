/* SPDX-License-Identifier: Apache-2.0 */
#include "blas-library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "blas-call.h"
#include "log.h"

#define LIBRARY "libopenblas.so.0"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool tried;
static void *library;

void cpu_blas_prepare(void)
{
	setenv("OPENBLAS_NUM_THREADS", "1", 1);
}

CUresult cpu_blas_open(void)
{
	void *found;

	pthread_mutex_lock(&lock);
	if (!tried) {
		library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
		if (!library)
			cpu_log("no cuBLAS for programs: %s (Debian: libopenblas0-pthread)", dlerror());
	}
	tried = true;
	found = library;
	pthread_mutex_unlock(&lock);
	return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

void (*cpu_blas_function(uint32_t number))(void)
{
	static void *_Atomic found[VCUDA_BLAS_LIMIT];
	void *function = found[number];

	if (!function) {
		function = dlsym(library, cpu_blas_calls[number].symbol);
		found[number] = function;
	}
	return (void (*)(void))function;
}
