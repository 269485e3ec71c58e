/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a registration in the worker, on the software GPU: threads of a guest that end the same one at once. */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softgpu/test/backend-cpu-test.h"
#include "protocol/handlers.h"
#include "host/worker/session/session.h"
#include "host/worker/memory/mapping.h"

#define THREADS 4

static _Atomic int holds; /* of the one window */
static enum vcuda_hold_owner holder = VCUDA_HOLD_REGISTER;

bool vcuda_mapping_hold(struct worker_mappings *w, const void *p, uint64_t bytes, bool writable,
			enum vcuda_hold_owner owner)
{
	holds++;
	return true;
}

void vcuda_mapping_release(struct worker_mappings *w, const void *p, enum vcuda_hold_owner owner)
{
	holds--;
}

enum vcuda_hold_owner vcuda_mapping_holder(struct worker_mappings *w, const void *p)
{
	return holder;
}

struct end {
	struct worker_session *session;
	void *memory;
	CUcontext context;
	CUresult result;
};

static void *end(void *argument)
{
	struct end *e = argument;

	if (cuda->cuCtxSetCurrent(e->context) == CUDA_SUCCESS)
		e->result = vcuda_handle_cuMemHostUnregister(e->session,
							     &(struct vcuda_args_cuMemHostUnregister){.p = e->memory});
	return NULL;
}

/* All wait for the same kernel, then one has done it: the other registration in that window must keep it. */
static void test_at_once(void **state)
{
	uint32_t *gate = shared_word(),
		 *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct worker_session session = {.ops = cuda};
	struct end ends[THREADS];
	pthread_t threads[THREADS];
	CUmodule module = load();
	unsigned int done = 0;

	for (int i = 0; i < 2; i++)
		assert_int_equal(
			vcuda_handle_cuMemHostRegister_v2(
				&session, &(struct vcuda_args_cuMemHostRegister_v2){memory + 1024 * i, 4096, 0}),
			CUDA_SUCCESS);
	assert_int_equal(holds, 2);
	assert_int_equal(launch_spin(function(module, "spin"), NULL, gate), CUDA_SUCCESS);
	for (int i = 0; i < THREADS; i++) {
		ends[i] = (struct end){&session, memory, *state, CUDA_ERROR_UNKNOWN};
		assert_int_equal(pthread_create(&threads[i], NULL, end, &ends[i]), 0);
	}
	usleep(100000);
	open_gate(gate);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		if (ends[i].result == CUDA_SUCCESS)
			done++;
		else
			assert_int_equal(ends[i].result, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	}
	assert_int_equal(done, 1);
	assert_int_equal(holds, 1);
	ends[0].memory = memory + 1024;
	end(&ends[0]);
	assert_int_equal(ends[0].result, CUDA_SUCCESS);
	assert_int_equal(holds, 0);
	assert_int_equal(cuda->cuMemHostUnregister(gate), CUDA_SUCCESS);
	munmap(gate, 4096);
	munmap(memory, 8192);
}

/* A failed context returns its error, and releases the memory nevertheless. */
static void test_failed(void **state)
{
	uint32_t *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct worker_session session = {.ops = cuda};
	struct end e = {&session, memory, *state, CUDA_SUCCESS};

	holds = 0;
	assert_int_equal(
		vcuda_handle_cuMemHostRegister_v2(&session, &(struct vcuda_args_cuMemHostRegister_v2){memory, 4096, 0}),
		CUDA_SUCCESS);
	assert_int_equal(launch_store(function(load(), "store"), NULL, 16, 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	end(&e);
	assert_int_equal(e.result, CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(holds, 0);
	end(&e);
	assert_int_equal(e.result, CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(holds, 0);
	munmap(memory, 4096);
}

/* Memory that vcudaMemHostAccess has registered is not ended by another call. */
static void test_of_another(void **state)
{
	uint32_t *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct worker_session session = {.ops = cuda};
	struct end e = {&session, memory, *state, CUDA_SUCCESS};

	holds = 0;
	assert_int_equal(cuda->cuMemHostRegister_v2(memory, 4096, 0), CUDA_SUCCESS);
	holder = VCUDA_HOLD_ACCESS;
	end(&e);
	assert_int_equal(e.result, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	holder = VCUDA_HOLD_REGISTER;
	assert_int_equal(holds, 0);
	assert_int_equal(cuda->cuMemHostUnregister(memory), CUDA_SUCCESS);
	munmap(memory, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {IN_CONTEXT(test_at_once), IN_CONTEXT(test_failed),
					   IN_CONTEXT(test_of_another)};

	init_device();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
