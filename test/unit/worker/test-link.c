/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's links over a linker that writes down what it gets: each call is one of it, and a guest's threads may
 * destroy a link, or its context, that others of them have calls at.
 */
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
#include <unistd.h>

#include "host/worker/session/dispatch.h"
#include "protocol/handlers.h"
#include "host/worker/images/image.h"
#include "host/worker/images/jit.h"
#include "host/worker/session/command.h"
#include "host/worker/handle/link.h"
#include "host/worker/session/session.h"
#include "fake-host-memory.h"

#define MOST (1ull << 30) /* of the parts of all links */

static char stage[4096];

/* ---- what the handlers call ---- */

void *worker_command_stage(struct worker_session *s, uint32_t block, uint64_t bytes)
{
	return !block && bytes <= sizeof(stage) ? stage : NULL;
}

CUresult worker_unsupported(struct worker_session *s, unsigned int op)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- the back end ---- */

/* A link's product is "TYPE:NAME=TEXT;" for each part, and its log says the same, also of what is refused: "bad". */
struct fake {
	char product[256], *log;
	unsigned int parts;
	bool complete;
};

static struct {
	int live, completed;
	CUcontext context;
	unsigned int options; /* of the last link, or part */
	CUjit_option option;
	uintptr_t value;
	void *long_product; /* of LONG_PRODUCT bytes instead */
} linker;

#define LONG_PRODUCT (64u << 20)

static sem_t adding, go_on;

static CUresult get_current(CUcontext *context)
{
	*context = linker.context;
	return CUDA_SUCCESS;
}

static void note_options(unsigned int count, const CUjit_option *options, void **values)
{
	linker.options = count;
	linker.option = count ? options[0] : 0;
	linker.value = count ? (uintptr_t)values[0] : 0;
}

static CUresult link_create(unsigned int count, void *options, void *values, void *state)
{
	struct fake *f = calloc(1, sizeof(*f));

	note_options(count, options, values);
	for (unsigned int i = 0; i < count; i++)
		if (((CUjit_option *)options)[i] == CU_JIT_ERROR_LOG_BUFFER)
			f->log = ((void **)values)[i];
	linker.live++;
	*(void **)state = f;
	return CUDA_SUCCESS;
}

static CUresult link_add(void *state, int type, void *data, size_t size, void *name, unsigned int count, void *options,
			 void *values)
{
	struct fake *f = state;
	size_t length = strlen(f->product);

	assert_false(f->complete);
	note_options(count, options, values);
	if (!strcmp(name, "slow")) {
		sem_post(&adding);
		sem_wait(&go_on);
	}
	f->parts++;
	snprintf(f->product + length, sizeof(f->product) - length, "%d:%s=%.20s;", type, (char *)name, (char *)data);
	if (f->log)
		strcpy(f->log, f->product);
	return strstr(data, "bad") ? CUDA_ERROR_INVALID_PTX : CUDA_SUCCESS;
}

static CUresult link_complete(void *state, void *cubin, void *size)
{
	struct fake *f = state;

	assert_false(f->complete);
	linker.completed++;
	if (strstr(f->product, "unresolved"))
		return CUDA_ERROR_INVALID_PTX;
	f->complete = true;
	*(void **)cubin = linker.long_product ? linker.long_product : f->product;
	*(size_t *)size = linker.long_product ? LONG_PRODUCT : strlen(f->product);
	return CUDA_SUCCESS;
}

static CUresult link_destroy(void *state)
{
	linker.live--;
	free(state);
	return CUDA_SUCCESS;
}

static const struct vcuda_backend_ops ops = {.cuCtxGetCurrent = get_current,
					     .cuLinkCreate_v2 = link_create,
					     .cuLinkAddData_v2 = link_add,
					     .cuLinkComplete = link_complete,
					     .cuLinkDestroy = link_destroy};
static struct worker_session session = {.ops = &ops};

/* ---- what a guest sends ---- */

static vcuda_link create(void)
{
	struct vcuda_args_vcudaLinkCreate a = {0};

	assert_int_equal(vcuda_handle_vcudaLinkCreate(&session, &a), CUDA_SUCCESS);
	return a.link;
}

static CUresult destroy(vcuda_link link)
{
	return vcuda_handle_vcudaLinkDestroy(&session, &(struct vcuda_args_vcudaLinkDestroy){.link = link});
}

static CUresult destroy_image(vcuda_image image)
{
	return vcuda_handle_vcudaImageDestroy(&session, &(struct vcuda_args_vcudaImageDestroy){.image = image});
}

/* With its image's options. */
static CUresult add_image(vcuda_link link, uint32_t type, vcuda_image image, char *name)
{
	struct vcuda_args_vcudaLinkAdd a = {.link = link, .image = image, .type = type, .name = name};
	CUresult result = vcuda_handle_vcudaLinkAdd(&session, &a);

	assert_int_equal(destroy_image(image), CUDA_SUCCESS);
	return result;
}

static CUresult add(vcuda_link link, uint32_t type, char *name, const char *text)
{
	vcuda_image image;

	assert_int_equal(worker_image_new(strlen(text), text, strlen(text), &image), CUDA_SUCCESS);
	return add_image(link, type, image, name);
}

static CUresult complete(vcuda_link link, struct vcuda_args_vcudaLinkComplete *a)
{
	*a = (struct vcuda_args_vcudaLinkComplete){.link = link};
	return vcuda_handle_vcudaLinkComplete(&session, a);
}

static CUresult read_log(vcuda_link link, uint32_t option, size_t bytes, size_t *length)
{
	struct vcuda_args_vcudaLinkLog a = {.link = link, .option = option, .bytes = bytes};
	CUresult result = vcuda_handle_vcudaLinkLog(&session, &a);

	*length = a.length;
	return result;
}

static void expect_product(const struct vcuda_args_vcudaLinkComplete *a, const char *text)
{
	struct vcuda_args_vcudaImageRead r = {.image = a->linked, .bytes = a->bytes};

	memset(stage, 0, sizeof(stage));
	assert_int_equal(vcuda_handle_vcudaImageRead(&session, &r), CUDA_SUCCESS);
	assert_string_equal(stage, text);
	r.offset = 1;
	assert_int_equal(vcuda_handle_vcudaImageRead(&session, &r), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(destroy_image(a->linked), CUDA_SUCCESS);
}

static void expect_unknown(vcuda_link link)
{
	struct vcuda_args_vcudaLinkComplete c;
	size_t length;

	assert_int_equal(add(link, CU_JIT_INPUT_PTX, "a", "text"), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(complete(link, &c), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(read_log(link, CU_JIT_ERROR_LOG_BUFFER, 10, &length), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(destroy(link), CUDA_ERROR_INVALID_HANDLE);
}

/* ---- the tests ---- */

static void test_links(void **state)
{
	struct vcuda_args_vcudaLinkComplete c;
	vcuda_link link = create(), other = create();

	assert_int_equal(add(link, CU_JIT_INPUT_PTX, "one", "first"), CUDA_SUCCESS);
	assert_int_equal(add(other, CU_JIT_INPUT_PTX, "x", "unresolved"), CUDA_SUCCESS);
	assert_int_equal(add(link, CU_JIT_INPUT_CUBIN, "two", "second"), CUDA_SUCCESS);
	assert_int_equal(linker.completed, 0);
	assert_int_equal(complete(link, &c), CUDA_SUCCESS);
	expect_product(&c, "1:one=first;0:two=second;");
	/* once more, without the driver's help; nothing is added to it any more */
	assert_int_equal(complete(link, &c), CUDA_SUCCESS);
	assert_int_equal(linker.completed, 1);
	expect_product(&c, "1:one=first;0:two=second;");
	assert_int_equal(add(link, CU_JIT_INPUT_PTX, "three", "third"), CUDA_ERROR_INVALID_VALUE);
	/* an error in one link has no effect on another */
	assert_int_equal(complete(other, &c), CUDA_ERROR_INVALID_PTX);
	assert_int_equal(destroy(link), CUDA_SUCCESS);
	assert_int_equal(destroy(other), CUDA_SUCCESS);
	assert_int_equal(linker.live, 0);
	expect_unknown(link);
}

/* The driver's words are there after the call that fails, and stay. */
static void test_logs(void **state)
{
	uint32_t options[] = {CU_JIT_MAX_REGISTERS, CU_JIT_ERROR_LOG_BUFFER};
	uint64_t values[] = {32, 0};
	struct vcuda_args_vcudaLinkCreate a = {.count = 2, .options = options, .values = values};
	vcuda_image image;
	size_t length;

	assert_int_equal(vcuda_handle_vcudaLinkCreate(&session, &a), CUDA_SUCCESS);
	assert_true(linker.options == 5 && linker.option == CU_JIT_MAX_REGISTERS && linker.value == 32);
	assert_int_equal(read_log(a.link, CU_JIT_ERROR_LOG_BUFFER, 100, &length), CUDA_SUCCESS);
	assert_int_equal(length, 0);
	assert_int_equal(add(a.link, CU_JIT_INPUT_PTX, "one", "bad"), CUDA_ERROR_INVALID_PTX);
	assert_int_equal(linker.options, 0);
	memset(stage, 0, sizeof(stage));
	assert_int_equal(read_log(a.link, CU_JIT_ERROR_LOG_BUFFER, 100, &length), CUDA_SUCCESS);
	assert_int_equal(length, 10);
	assert_string_equal(stage, "1:one=bad;");
	assert_int_equal(read_log(a.link, CU_JIT_ERROR_LOG_BUFFER, 3, &length), CUDA_SUCCESS);
	assert_int_equal(length, 3);
	assert_int_equal(read_log(a.link, CU_JIT_INFO_LOG_BUFFER, 100, &length), CUDA_SUCCESS);
	assert_int_equal(length, 0);
	assert_int_equal(read_log(a.link, CU_JIT_ERROR_LOG_BUFFER, sizeof(stage) + 1, &length),
			 CUDA_ERROR_INVALID_VALUE);
	/* a part's numbers go along, its logs would outlive it */
	assert_int_equal(worker_image_new(4, "text", 4, &image), CUDA_SUCCESS);
	for (int i = 0; i < 2; i++)
		assert_int_equal(vcuda_handle_vcudaImageOption(
					 &session, &(struct vcuda_args_vcudaImageOption){image, options[i], values[i]}),
				 CUDA_SUCCESS);
	assert_int_equal(add_image(a.link, CU_JIT_INPUT_PTX, image, "two"), CUDA_SUCCESS);
	assert_true(linker.options == 1 && linker.option == CU_JIT_MAX_REGISTERS && linker.value == 32);
	assert_int_equal(destroy(a.link), CUDA_SUCCESS);
}

static void test_hostile(void **state)
{
	uint32_t options[40] = {0};
	uint64_t values[40] = {0};
	struct vcuda_args_vcudaLinkCreate a = {.count = 40, .options = options, .values = values};
	vcuda_link link = create(), other = create();
	vcuda_image image;

	expect_unknown((vcuda_link)0);
	expect_unknown((vcuda_link)(uintptr_t)8);
	expect_unknown((vcuda_link)stage);
	/* numbers only, and not too many */
	assert_int_equal(vcuda_handle_vcudaLinkCreate(&session, &a), CUDA_ERROR_INVALID_VALUE);
	a.count = 1;
	for (uint32_t o = 0; o < 200; o++) {
		options[0] = o;
		if (o != CU_JIT_INFO_LOG_BUFFER && o != CU_JIT_ERROR_LOG_BUFFER &&
		    (o >= CU_JIT_NUM_OPTIONS || !(VCUDA_JIT_NUMBERS >> o & 1)))
			assert_int_equal(vcuda_handle_vcudaLinkCreate(&session, &a), CUDA_ERROR_INVALID_VALUE);
	}
	assert_int_equal(linker.live, 2);
	assert_int_equal(add(link, CU_JIT_NUM_INPUT_TYPES, "a", "text"), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(add(link, UINT32_MAX, "a", "text"), CUDA_ERROR_INVALID_VALUE);
	/* all parts of all links count, but for those that were refused */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(worker_image_new(MOST / 2, "", 0, &image), CUDA_SUCCESS);
		assert_int_equal(add_image(i ? other : link, CU_JIT_INPUT_PTX, image, "half"),
				 i < 2 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
	}
	assert_int_equal(add(link, CU_JIT_INPUT_PTX, "a", "text"), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(destroy(other), CUDA_SUCCESS);
	assert_int_equal(add(link, CU_JIT_INPUT_PTX, "a", "bad"), CUDA_ERROR_INVALID_PTX);
	assert_int_equal(worker_image_new(MOST / 2, "", 0, &image), CUDA_SUCCESS);
	assert_int_equal(add_image(link, CU_JIT_INPUT_PTX, image, "half"), CUDA_SUCCESS);
	assert_int_equal(destroy(link), CUDA_SUCCESS);
	assert_int_equal(linker.live, 0);
}

/* Parts are held while the linker takes them. */
static void test_no_host_memory(void **state)
{
	vcuda_link link = create();
	vcuda_image image;

	(void)state;
	assert_int_equal(worker_image_new(5, "text", 5, &image), CUDA_SUCCESS);
	host_is_full = true;
	assert_int_equal(add_image(link, CU_JIT_INPUT_PTX, image, "part"), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(worker_image_new(5, "text", 5, &image), CUDA_ERROR_OUT_OF_MEMORY);
	host_is_full = false;
	assert_int_equal(host_held, 0);
	assert_int_equal(add(link, CU_JIT_INPUT_PTX, "part", "bad"), CUDA_ERROR_INVALID_PTX);
	assert_int_equal(add(link, CU_JIT_INPUT_PTX, "part", "text"), CUDA_SUCCESS);
	assert_int_equal(host_held, 0);
	assert_int_equal(destroy(link), CUDA_SUCCESS);
}

static void *add_slowly(void *link)
{
	return (void *)(uintptr_t)add(link, CU_JIT_INPUT_PTX, "slow", "text");
}

static void *destroy_it(void *link)
{
	return (void *)(uintptr_t)destroy(link);
}

static void *end_context(void *unused)
{
	worker_links_end(&session, linker.context);
	return NULL;
}

/* The end of a link waits for the call that uses the link. */
static void ends_beside_a_call(void *(*ends)(void *))
{
	pthread_t adds, destroys;
	vcuda_link link;
	void *result;

	linker.context = (CUcontext)&linker;
	link = create();
	assert_int_equal(pthread_create(&adds, NULL, add_slowly, link), 0);
	sem_wait(&adding);
	assert_int_equal(pthread_create(&destroys, NULL, ends, link), 0);
	usleep(50000);
	assert_int_equal(linker.live, 1);
	sem_post(&go_on);
	pthread_join(adds, &result);
	assert_int_equal((uintptr_t)result, CUDA_SUCCESS);
	pthread_join(destroys, &result);
	assert_int_equal((uintptr_t)result, CUDA_SUCCESS);
	assert_int_equal(linker.live, 0);
	expect_unknown(link);
	linker.context = NULL;
}

static void test_destroyed_while_adding(void **state)
{
	ends_beside_a_call(destroy_it);
}

static void test_context_ends(void **state)
{
	vcuda_link of_another, first, second;

	linker.context = (CUcontext)stage;
	of_another = create();
	linker.context = (CUcontext)&linker;
	first = create();
	second = create();
	worker_links_end(&session, NULL);
	assert_int_equal(linker.live, 3);
	end_context(NULL);
	assert_int_equal(linker.live, 1);
	expect_unknown(first);
	expect_unknown(second);
	assert_int_equal(destroy(of_another), CUDA_SUCCESS);
	ends_beside_a_call(end_context);
}

static _Atomic bool stop;

static void *destroy_guessed(void *image)
{
	while (!stop)
		destroy_image(image);
	return NULL;
}

/* A thread that guesses the handle of a linked image may destroy the image before the linking call returns it. */
static void test_product_is_guessed(void **state)
{
	struct vcuda_args_vcudaLinkComplete c;
	vcuda_link link = create();
	pthread_t thread;

	linker.long_product = calloc(1, LONG_PRODUCT);
	assert_non_null(linker.long_product);
	assert_int_equal(add(link, CU_JIT_INPUT_PTX, "one", "text"), CUDA_SUCCESS);
	assert_int_equal(complete(link, &c), CUDA_SUCCESS);
	assert_int_equal(destroy_image(c.linked), CUDA_SUCCESS);
	/* the next image has this one's address */
	assert_int_equal(pthread_create(&thread, NULL, destroy_guessed, c.linked), 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(complete(link, &c), CUDA_SUCCESS);
		destroy_image(c.linked);
	}
	stop = true;
	pthread_join(thread, NULL);
	free(linker.long_product);
	linker.long_product = NULL;
	assert_int_equal(destroy(link), CUDA_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_links),        cmocka_unit_test(test_logs),
		cmocka_unit_test(test_hostile),      cmocka_unit_test(test_no_host_memory),
		cmocka_unit_test(test_destroyed_while_adding),
		cmocka_unit_test(test_context_ends), cmocka_unit_test(test_product_is_guessed),
	};

	sem_init(&adding, 0, 0);
	sem_init(&go_on, 0, 0);
	return cmocka_run_group_tests(tests, NULL, no_host_memory_is_held);
}
