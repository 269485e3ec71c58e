/* SPDX-License-Identifier: Apache-2.0 */
/* A line for each routine that is called, where the program asks for it. */
#include "handle.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool on;
static bool to_stdout, to_stderr;
static FILE *file;
static void (*callback)(const char *message);

static void update(bool wanted)
{
	atomic_store(&on, callback || (wanted && (to_stdout || to_stderr || file)));
}

BLAS_API int cublasLoggerConfigure(int is_on, int out, int error, const char *name)
{
	FILE *opened = name && is_on ? fopen(name, "ae") : NULL;

	if (name && is_on && !opened)
		return BLAS_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (file)
		fclose(file);
	file = opened;
	to_stdout = is_on && out;
	to_stderr = is_on && error;
	update(is_on);
	pthread_mutex_unlock(&lock);
	return BLAS_SUCCESS;
}

BLAS_API int cublasSetLoggerCallback(void (*function)(const char *message))
{
	pthread_mutex_lock(&lock);
	callback = function;
	update(to_stdout || to_stderr || file);
	pthread_mutex_unlock(&lock);
	return BLAS_SUCCESS;
}

BLAS_API int cublasGetLoggerCallback(void (**function)(const char *message))
{
	if (!function)
		return BLAS_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	*function = callback;
	pthread_mutex_unlock(&lock);
	return BLAS_SUCCESS;
}

void blas_log_call(const char *name, int status)
{
	void (*call)(const char *message);
	char line[120];

	if (!atomic_load_explicit(&on, memory_order_relaxed))
		return;
	snprintf(line, sizeof(line), "cuBLAS: %s: status %d\n", name, status);
	pthread_mutex_lock(&lock);
	if (to_stdout)
		fputs(line, stdout);
	if (to_stderr)
		fputs(line, stderr);
	if (file && fputs(line, file) >= 0)
		fflush(file);
	call = callback;
	pthread_mutex_unlock(&lock);
	if (call)
		call(line);
}
