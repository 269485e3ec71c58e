/* SPDX-License-Identifier: Apache-2.0 */
/* A line for each call that computes or asks, where the program wants such: level 5, and level 1 where it fails. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "lt.h"

enum { OFF = 0, ERRORS = 1, CALLS = 5 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int mask; /* bit LEVEL - 1: that level */
static bool disabled;
static FILE *file, *opened;
static void (*callback)(int level, const char *function, const char *message);

BLAS_API int cublasLtLoggerSetCallback(void (*function)(int level, const char *function, const char *message))
{
	pthread_mutex_lock(&lock);
	callback = function;
	pthread_mutex_unlock(&lock);
	return BLAS_SUCCESS;
}

static void use(FILE *to, FILE *own)
{
	pthread_mutex_lock(&lock);
	if (opened)
		fclose(opened);
	opened = own;
	file = to;
	pthread_mutex_unlock(&lock);
}

BLAS_API int cublasLtLoggerSetFile(FILE *to)
{
	use(to, NULL);
	return BLAS_SUCCESS;
}

BLAS_API int cublasLtLoggerOpenFile(const char *name)
{
	FILE *own = name ? fopen(name, "we") : NULL;

	if (!own)
		return BLAS_INVALID_VALUE;
	use(own, own);
	return BLAS_SUCCESS;
}

BLAS_API int cublasLtLoggerSetMask(int wanted)
{
	if (wanted < 0 || wanted >= 1 << CALLS)
		return BLAS_INVALID_VALUE;
	atomic_store(&mask, wanted);
	return BLAS_SUCCESS;
}

/* All levels up to this one. */
BLAS_API int cublasLtLoggerSetLevel(int level)
{
	return level < OFF || level > CALLS ? BLAS_INVALID_VALUE : cublasLtLoggerSetMask((1 << level) - 1);
}

BLAS_API int cublasLtLoggerForceDisable(void)
{
	pthread_mutex_lock(&lock);
	disabled = true;
	pthread_mutex_unlock(&lock);
	return BLAS_SUCCESS;
}

void lt_log_call(const char *name, int status)
{
	void (*call)(int level, const char *function, const char *message) = NULL;
	int wanted = atomic_load_explicit(&mask, memory_order_relaxed), level = status ? ERRORS : CALLS;
	char line[40];

	if (!(wanted >> (level - 1) & 1) && !(wanted >> (CALLS - 1) & 1))
		return;
	snprintf(line, sizeof(line), "status %d", status);
	pthread_mutex_lock(&lock);
	if (!disabled) {
		call = callback;
		fprintf(file ? file : stdout, "cuBLASLt: %s: %s\n", name, line);
		fflush(file ? file : stdout);
	}
	pthread_mutex_unlock(&lock);
	if (call)
		call(level, name, line);
}
