/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's images: a guest's threads may destroy one that others of them have calls at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "host/worker/session/dispatch.h"
#include "protocol/handlers.h"
#include "host/worker/images/image.h"
#include "host/worker/session/command.h"
#include "host/worker/session/session.h"
#include "host/worker/process/worker.h"
#include "fake-host-memory.h"

#define BYTES 100000u
#define MOST ((1ull << 30) - (40u << 10)) /* of all images together, whose headers count */

struct worker_backend worker_loaded;

static uint8_t stage[4096];
static sem_t loading, go_on;
static uint64_t sum; /* of what the back end saw */

/* ---- what the handlers call ---- */

void *worker_command_stage(struct worker_session *s, uint32_t block, uint64_t bytes)
{
	return !block && bytes <= sizeof(stage) ? stage : NULL;
}

CUresult worker_unsupported(struct worker_session *s, unsigned int op)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

static void set_image_bound(size_t bytes)
{
	assert_int_equal(bytes, BYTES);
}

/* Takes as long as the test wants, and only then looks. */
static CUresult load(CUmodule *module, const void *image, unsigned int count, CUjit_option *options, void **values)
{
	const uint8_t *p = image;

	sem_post(&loading);
	sem_wait(&go_on);
	sum = 0;
	for (size_t n = 0; n < BYTES; n++)
		sum += p[n];
	*module = (CUmodule)stage;
	return CUDA_SUCCESS;
}

static const struct vcuda_backend_ops ops = {.cuModuleLoadDataEx = load};
static struct worker_session session = {.ops = &ops};

static CUresult create(uint64_t bytes, vcuda_image *image)
{
	struct vcuda_args_vcudaImageCreate a = {.total = bytes};
	CUresult result = vcuda_handle_vcudaImageCreate(&session, &a);

	*image = a.image;
	return result;
}

static CUresult destroy(vcuda_image image)
{
	return vcuda_handle_vcudaImageDestroy(&session, &(struct vcuda_args_vcudaImageDestroy){.image = image});
}

static CUresult write_to(vcuda_image image, uint64_t offset, uint64_t bytes)
{
	struct vcuda_args_vcudaImageWrite a = {.image = image, .offset = offset, .bytes = bytes};

	return vcuda_handle_vcudaImageWrite(&session, &a);
}

static void *run_load(void *image)
{
	struct vcuda_args_cuModuleLoadData a = {.image = (vcuda_image)image};

	return (void *)(uintptr_t)vcuda_handle_cuModuleLoadData(&session, &a);
}

static void expect_unknown(vcuda_image image)
{
	assert_int_equal(write_to(image, 0, 1), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(destroy(image), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal((uintptr_t)run_load((void *)image), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(vcuda_handle_vcudaImageOption(&session, &(struct vcuda_args_vcudaImageOption){.image = image}),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(vcuda_handle_vcudaImageLog(&session, &(struct vcuda_args_vcudaImageLog){.image = image}),
			 CUDA_ERROR_INVALID_HANDLE);
}

/* A call that uses the image still has all of it, and its bytes count until the call ends; no other call finds it. */
static void test_destroyed_while_loading(void **state)
{
	vcuda_image image, other;
	pthread_t thread;
	void *result;

	assert_int_equal(create(BYTES, &image), CUDA_SUCCESS);
	memset(stage, 1, sizeof(stage));
	assert_int_equal(write_to(image, 10, 3000), CUDA_SUCCESS);
	assert_int_equal(write_to(image, BYTES - 10, 10), CUDA_SUCCESS);
	assert_int_equal(write_to(image, BYTES - 10, 11), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(write_to(image, UINT64_MAX, 2), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(pthread_create(&thread, NULL, run_load, (void *)image), 0);
	sem_wait(&loading);
	assert_int_equal(destroy(image), CUDA_SUCCESS);
	expect_unknown(image);
	assert_int_equal(create(MOST, &other), CUDA_ERROR_OUT_OF_MEMORY);
	sem_post(&go_on);
	pthread_join(thread, &result);
	assert_int_equal((uintptr_t)result, CUDA_SUCCESS);
	assert_int_equal(sum, 3010);
	assert_int_equal(create(MOST, &other), CUDA_SUCCESS);
	assert_int_equal(destroy(other), CUDA_SUCCESS);
}

static void test_no_image(void **state)
{
	expect_unknown((vcuda_image)0);
	expect_unknown((vcuda_image)(uintptr_t)8);
	expect_unknown((vcuda_image)(uintptr_t)stage);
}

/* A new one with its first bytes, and zeroes behind them. */
static void test_staged(void **state)
{
	struct vcuda_args_vcudaImageStaged a = {.total = BYTES, .bytes = 4000};
	struct vcuda_args_vcudaImageStaged bad[] = {
		{.total = BYTES, .block = 1, .bytes = 1},
		{.total = BYTES, .bytes = sizeof(stage) + 1},
		{.total = 3999, .bytes = 4000},
		{.total = 0, .bytes = 0},
	};
	pthread_t thread;
	void *result;

	memset(stage, 1, sizeof(stage));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(vcuda_handle_vcudaImageStaged(&session, &bad[i]), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(vcuda_handle_vcudaImageStaged(&session, &a), CUDA_SUCCESS);
	memset(stage, 2, sizeof(stage));
	assert_int_equal(write_to(a.image, 90000, 3), CUDA_SUCCESS);
	assert_int_equal(pthread_create(&thread, NULL, run_load, (void *)a.image), 0);
	sem_wait(&loading);
	sem_post(&go_on);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_int_equal((uintptr_t)result, CUDA_SUCCESS);
	assert_int_equal(sum, 4000 + 2 * 3);
	assert_int_equal(destroy(a.image), CUDA_SUCCESS);
}

/* The next one finds nothing of the last, not of its logs either. */
static void test_cleared(void **state)
{
	struct vcuda_args_vcudaImageRead all = {.bytes = 4096};
	struct vcuda_args_vcudaImageLog log = {.option = CU_JIT_ERROR_LOG_BUFFER, .bytes = 100};
	vcuda_image image;

	for (int round = 0; round < 3; round++) {
		assert_int_equal(create(4096, &image), CUDA_SUCCESS);
		all.image = log.image = image;
		memset(stage, 1, sizeof(stage));
		assert_int_equal(vcuda_handle_vcudaImageRead(&session, &all), CUDA_SUCCESS);
		for (size_t i = 0; i < sizeof(stage); i++)
			assert_int_equal(stage[i], 0);
		assert_int_equal(worker_image_options((struct worker_image *)image).count, 0);
		assert_int_equal(vcuda_handle_vcudaImageLog(&session, &log), CUDA_SUCCESS);
		assert_int_equal(log.length, 0);
		memset(stage, 1, sizeof(stage));
		assert_int_equal(write_to(image, 0, 4096), CUDA_SUCCESS);
		if (round == 1) {
			struct vcuda_args_vcudaImageOption o = {.image = image, .option = CU_JIT_ERROR_LOG_BUFFER};

			assert_int_equal(vcuda_handle_vcudaImageOption(&session, &o), CUDA_SUCCESS);
			strcpy(((struct worker_image *)image)->jit.errors, "wrong");
		}
		assert_int_equal(destroy(image), CUDA_SUCCESS);
	}
}

/* The smallest ones count for what they may come to. */
static void test_many(void **state)
{
	vcuda_image *all = calloc(1 << 18, sizeof(*all));
	size_t n = 0;

	assert_non_null(all);
	while (n < 1 << 18 && create(1, &all[n]) == CUDA_SUCCESS)
		n++;
	assert_in_range(n, 1000, (1 << 30) / sizeof(struct worker_image));
	assert_int_equal(create(1, &all[n]), CUDA_ERROR_OUT_OF_MEMORY);
	while (n)
		assert_int_equal(destroy(all[--n]), CUDA_SUCCESS);
	free(all);
}

/* A guest that looks for a kept image ships its own, and hears nothing of an image that it offers. */
static void test_older_guest(void **state)
{
	struct vcuda_args_vcudaImageLook look = {.bytes = 1 << 20, .look = 1};
	vcuda_image image;

	assert_int_equal(vcuda_handle_vcudaImageLook(&session, &look), CUDA_SUCCESS);
	assert_int_equal(look.look, VCUDA_IMAGE_NEVER);
	assert_int_equal(vcuda_handle_vcudaImageFind(&session, &(struct vcuda_args_vcudaImageFind){.bytes = 1 << 20}),
			 CUDA_ERROR_NOT_FOUND);
	assert_int_equal(create(BYTES, &image), CUDA_SUCCESS);
	assert_int_equal(vcuda_handle_vcudaImageOffer(&session, &(struct vcuda_args_vcudaImageOffer){.image = image}),
			 CUDA_SUCCESS);
	assert_int_equal(write_to(image, 0, 1), CUDA_SUCCESS);
	assert_int_equal(destroy(image), CUDA_SUCCESS);
}

static void test_no_host_memory(void **state)
{
	vcuda_image image;

	host_is_full = true;
	assert_int_equal(create(BYTES, &image), CUDA_ERROR_OUT_OF_MEMORY);
	host_is_full = false;
	assert_int_equal(host_held, 0);
	assert_int_equal(create(BYTES, &image), CUDA_SUCCESS);
	assert_true(host_held >= BYTES);
	assert_int_equal(destroy(image), CUDA_SUCCESS);
	assert_int_equal(host_held, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_destroyed_while_loading),
		cmocka_unit_test(test_no_image),
		cmocka_unit_test(test_staged),
		cmocka_unit_test(test_cleared),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_older_guest),
		cmocka_unit_test(test_no_host_memory),
	};

	sem_init(&loading, 0, 0);
	sem_init(&go_on, 0, 0);
	worker_loaded.set_image_bound = set_image_bound;
	return cmocka_run_group_tests(tests, NULL, no_host_memory_is_held);
}
