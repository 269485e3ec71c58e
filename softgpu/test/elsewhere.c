/* SPDX-License-Identifier: Apache-2.0 */
/* Linked to a test of the compiler, it has the test's kernels compiled as another process does. */
#include <pthread.h>

#include "softgpu/backend-cpu.h"

static enum vcuda_compile_end run(const struct vcuda_compile_job *job, void **result, size_t *bytes, char *why,
				  size_t size)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	bool ok;

	(void)why, (void)size;
	pthread_mutex_lock(&lock);
	ok = vcuda_cpu_compile(job->module, job->order, job->order_bytes, result, bytes);
	pthread_mutex_unlock(&lock);
	return ok ? VCUDA_COMPILE_DONE : VCUDA_COMPILE_NO_MEMORY;
}

static void expect(void)
{
}

__attribute__((constructor)) static void use(void)
{
	static const struct vcuda_compiler compiler = {.run = run, .expect = expect};

	vcuda_cpu_compile_with(&compiler);
}
