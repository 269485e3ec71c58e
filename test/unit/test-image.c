/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's images: a guest's threads may destroy one that others of them have calls at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch.h"
#include "handlers.h"
#include "lane.h"
#include "session.h"
#include "worker.h"

#define BYTES 100000u
#define MOST (1ull << 30) /* of all images together */

struct vcuda_backend vcuda_worker_loaded;

static uint8_t stage[4096];
static sem_t loading, go_on;
static uint64_t sum; /* of what the back end saw */

/* ---- what the handlers call ---- */

void *vcuda_lane_stage(struct vcuda_session *s, uint32_t block, uint64_t bytes)
{
	return !block && bytes <= sizeof(stage) ? stage : NULL;
}

CUresult vcuda_unsupported(struct vcuda_session *s, unsigned int op)
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

/* A linker whose product is "TYPE:NAME=TEXT;" for each part. */
static struct {
	char product[256];
	size_t bytes; /* of a long product, all zeroes; 0: the one above */
	int live;
} linker;

static void *zeroes;

static CUresult link_create(unsigned int count, void *options, void *values, void *state)
{
	linker.product[0] = 0;
	linker.live++;
	*(void **)state = &linker;
	return CUDA_SUCCESS;
}

static CUresult link_add(void *state, int type, void *data, size_t size, void *name, unsigned int count, void *options, void *values)
{
	size_t length = strlen(linker.product);

	assert_ptr_equal(state, &linker);
	snprintf(linker.product + length, sizeof(linker.product) - length, "%d:%s=%.*s;", type, (char *)name, (int)size, (char *)data);
	return CUDA_SUCCESS;
}

static CUresult link_complete(void *state, void *cubin, void *size)
{
	*(void **)cubin = linker.bytes ? zeroes : linker.product;
	*(size_t *)size = linker.bytes ? linker.bytes : strlen(linker.product);
	return linker.product[0] ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult link_destroy(void *state)
{
	linker.live--;
	return CUDA_SUCCESS;
}

static const struct vcuda_backend_ops ops = {.cuModuleLoadDataEx = load,
					     .cuLinkCreate_v2 = link_create,
					     .cuLinkAddData_v2 = link_add,
					     .cuLinkComplete = link_complete,
					     .cuLinkDestroy = link_destroy};
static struct vcuda_session session = {.ops = &ops};

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

/* The call that was at it finds all of it, and its bytes count until then; nobody else finds it. */
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

static size_t put_part(size_t at, uint32_t type, const char *name, const char *text, uint64_t bytes)
{
	struct vcuda_link_part part = {.type = type, .bytes = bytes};

	memset(part.name, 'n', sizeof(part.name)); /* no end, unless the name has one */
	memcpy(part.name, name, strlen(name) + 1);
	memcpy(stage + at, &part, sizeof(part));
	memcpy(stage + at + sizeof(part), text, strlen(text));
	at += sizeof(part) + strlen(text);
	return (at / VCUDA_LINK_ALIGN + 1) * VCUDA_LINK_ALIGN;
}

/* Links what stage[0, bytes) has, and puts the product there. */
static CUresult link_stage(size_t bytes)
{
	struct vcuda_args_vcudaImageLink a = {0};
	CUresult result;

	assert_int_equal(create(bytes, &a.image), CUDA_SUCCESS);
	assert_int_equal(vcuda_handle_vcudaImageWrite(&session, &(struct vcuda_args_vcudaImageWrite){.image = a.image, .bytes = bytes}),
			 CUDA_SUCCESS);
	memset(stage, 0, sizeof(stage));
	result = vcuda_handle_vcudaImageLink(&session, &a);
	assert_int_equal(destroy(a.image), CUDA_SUCCESS);
	assert_int_equal(linker.live, 0);
	if (result != CUDA_SUCCESS)
		return result;
	assert_int_equal(vcuda_handle_vcudaImageRead(
				 &session, &(struct vcuda_args_vcudaImageRead){.image = a.linked, .offset = 1, .bytes = a.bytes}),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		vcuda_handle_vcudaImageRead(&session, &(struct vcuda_args_vcudaImageRead){.image = a.linked, .bytes = a.bytes}),
		CUDA_SUCCESS);
	assert_int_equal(destroy(a.linked), CUDA_SUCCESS);
	return CUDA_SUCCESS;
}

static void test_links(void **state)
{
	size_t second = put_part(0, CU_JIT_INPUT_PTX, "one", "0123456789abcdef", 16),
	       end = put_part(second, CU_JIT_INPUT_CUBIN, "two", "second", 6);

	assert_int_equal(link_stage(end), CUDA_SUCCESS);
	assert_string_equal(stage, "1:one=0123456789abcdef;0:two=second;");
	/* a part that is longer than the image, and one of which not even the head is whole */
	end = put_part(0, CU_JIT_INPUT_PTX, "one", "first", 5);
	put_part(end, CU_JIT_INPUT_PTX, "two", "second", 1u << 20);
	assert_int_equal(link_stage(2 * end), CUDA_ERROR_INVALID_VALUE);
	end = put_part(0, CU_JIT_INPUT_PTX, "one", "first", UINT64_MAX - 8);
	assert_int_equal(link_stage(end), CUDA_ERROR_INVALID_VALUE);
	end = put_part(0, CU_JIT_INPUT_PTX, "one", "first", 5);
	assert_int_equal(link_stage(end + 8), CUDA_ERROR_INVALID_VALUE);
}

#define LONG_PRODUCT (64u << 20)

static _Atomic bool stop;

static void *destroy_guessed(void *image)
{
	while (!stop)
		destroy((vcuda_image)image);
	return NULL;
}

/* What is linked may be destroyed by who guesses its handle before the call that links returns it. */
static void test_destroyed_while_linked(void **state)
{
	struct vcuda_args_vcudaImageLink a = {0};
	pthread_t thread;

	zeroes = calloc(1, LONG_PRODUCT);
	assert_non_null(zeroes);
	linker.bytes = LONG_PRODUCT;
	assert_int_equal(create(4096, &a.image), CUDA_SUCCESS);
	memset(stage, 0, sizeof(stage));
	put_part(0, CU_JIT_INPUT_PTX, "one", "", 4096 - sizeof(struct vcuda_link_part));
	assert_int_equal(write_to(a.image, 0, 4096), CUDA_SUCCESS);
	assert_int_equal(vcuda_handle_vcudaImageLink(&session, &a), CUDA_SUCCESS);
	assert_int_equal(destroy(a.linked), CUDA_SUCCESS);
	/* the next one lies where this one was */
	assert_int_equal(pthread_create(&thread, NULL, destroy_guessed, (void *)a.linked), 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(vcuda_handle_vcudaImageLink(&session, &a), CUDA_SUCCESS);
		destroy(a.linked);
	}
	stop = true;
	pthread_join(thread, NULL);
	linker.bytes = 0;
	free(zeroes);
	assert_int_equal(destroy(a.image), CUDA_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_destroyed_while_loading),
		cmocka_unit_test(test_no_image),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_destroyed_while_linked),
	};

	sem_init(&loading, 0, 0);
	sem_init(&go_on, 0, 0);
	vcuda_worker_loaded.set_image_bound = set_image_bound;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
