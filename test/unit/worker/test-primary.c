/* SPDX-License-Identifier: Apache-2.0 */
/* Primary contexts: one made before there is a guest process, who gets it and what the guest sees; and their end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "protocol/backend.h"
#include "host/worker/session/dispatch.h"
#include "protocol/handlers.h"
#include "protocol/ipc/channel.h"
#include "host/worker/session/command.h"
#include "host/worker/handle/link.h"
#include "common/log.h"
#include "host/worker/session/destroy.h"
#include "host/worker/session/release.h"
#include "ring/ring.h"
#include "host/worker/session/session.h"
#include "host/worker/queue/stage-pin.h"
#include "host/worker/process/warm.h"
#include "host/worker/process/worker.h"

/* The lane's. */
uint64_t worker_command_context(void)
{
	return 0;
}

#define DEVICES 3

/* A driver with primary contexts and nothing else. */
static struct {
	bool loads;
	_Atomic unsigned int retained[DEVICES];
	unsigned int flags[DEVICES], made[DEVICES], created;
	useconds_t ending; /* duration of the end of a context */
	CUresult state;    /* of its contexts */
	CUcontext current;
	unsigned int pins;
	CUresult pinned;    /* result of pinning */
	CUcontext unlinked; /* the context whose links ended last, while it existed */
} driver;

static CUcontext context_of(CUdevice dev)
{
	return (CUcontext)&driver.retained[dev];
}

static CUresult retain(CUcontext *context, CUdevice dev)
{
	if (dev < 0 || dev >= DEVICES)
		return CUDA_ERROR_INVALID_DEVICE;
	driver.made[dev] += !driver.retained[dev]++;
	*context = context_of(dev);
	return CUDA_SUCCESS;
}

static CUresult release(CUdevice dev)
{
	if (!driver.retained[dev])
		return CUDA_ERROR_INVALID_CONTEXT;
	if (driver.retained[dev] == 1)
		usleep(driver.ending);
	driver.retained[dev]--;
	return CUDA_SUCCESS;
}

static CUresult reset(CUdevice dev)
{
	driver.retained[dev] = 0;
	return CUDA_SUCCESS;
}

static CUresult get_state(CUdevice dev, unsigned int *flags, int *active)
{
	if (dev < 0 || dev >= DEVICES)
		return CUDA_ERROR_INVALID_DEVICE;
	/* NVIDIA's driver, too, adds a flag that was not set while the context is active. */
	*flags = driver.flags[dev] | (driver.retained[dev] ? 8 : 0);
	*active = driver.retained[dev] > 0;
	return CUDA_SUCCESS;
}

static CUresult set_flags(CUdevice dev, unsigned int flags)
{
	driver.flags[dev] = flags;
	return CUDA_SUCCESS;
}

static CUresult create(CUcontext *context, unsigned int flags, CUdevice dev)
{
	driver.created++;
	*context = (CUcontext)&driver.created;
	return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context)
{
	return CUDA_SUCCESS;
}

static CUresult set_current(CUcontext context)
{
	driver.current = context;
	return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *context)
{
	*context = driver.current;
	return CUDA_SUCCESS;
}

static CUresult destroy(CUcontext context)
{
	driver.created = 0;
	return CUDA_SUCCESS;
}

static CUresult pin(void *memory, size_t bytes, unsigned int flags)
{
	driver.pins++;
	return driver.pinned;
}

static CUresult synchronize(void)
{
	return driver.state;
}

static const struct vcuda_backend_ops ops = {
	.name = "fake",
	.cuDevicePrimaryCtxRetain = retain,
	.cuDevicePrimaryCtxRelease_v2 = release,
	.cuDevicePrimaryCtxReset_v2 = reset,
	.cuDevicePrimaryCtxGetState = get_state,
	.cuDevicePrimaryCtxSetFlags_v2 = set_flags,
	.cuCtxCreate_v2 = create,
	.cuCtxPopCurrent_v2 = pop,
	.cuCtxSetCurrent = set_current,
	.cuCtxGetCurrent = get_current,
	.cuCtxDestroy_v2 = destroy,
	.cuMemHostRegister_v2 = pin,
	.cuCtxSynchronize = synchronize,
};

bool worker_backend_load(struct worker_backend *backend, struct worker_mappings *mappings, const char *which)
{
	usleep(20000);
	backend->ops = driver.loads ? &ops : NULL;
	return driver.loads;
}

/* Replacements of functions that the handlers call. */
CUresult worker_publish(struct worker_session *s, enum vcuda_kind kind, bool shared, uint64_t parent, void **handle)
{
	*handle = (void *)(uintptr_t)worker_handle_add(s->handles, kind, shared, *handle, parent, 0);
	return CUDA_SUCCESS;
}

CUresult worker_unsupported(struct worker_session *s, unsigned int op)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

void worker_destroy_ready(struct worker_session *s)
{
}

/* Access of the device to host memory, which comes with the context and ends before it. */
static struct {
	unsigned int closed, reopened, retained;
	bool active, is_late; /* the context was not there any more */
} host_access;

void worker_host_access_close(struct worker_session *s, int dev)
{
	host_access.closed++;
	host_access.is_late |= !driver.retained[dev];
}

void worker_host_access_reopen(struct worker_session *s, int dev, bool active)
{
	host_access.reopened++;
	host_access.active = active;
}

void worker_host_access_retained(struct worker_session *s, int dev)
{
	host_access.retained++;
	host_access.is_late |= !driver.retained[dev];
}

void worker_links_end(struct worker_session *s, CUcontext context)
{
	for (CUdevice dev = 0; dev < DEVICES; dev++)
		if (context == context_of(dev) && driver.retained[dev])
			driver.unlinked = context;
	if (context == (CUcontext)&driver.created && driver.created)
		driver.unlinked = context;
}

static struct worker_session session;

/* A message on the worker's channel, as a guest process sends it. */
static void send_first_message(void)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) || write(ends[1], "", 1) != 1 ||
	    dup2(ends[0], VCUDA_CHANNEL_FD) < 0)
		_exit(101);
}

/*
 * In a process of its own, since a worker is warm once: 0 is success. `device`: -2: not warm. `claimed`: a guest
 * process comes early.
 */
static int in_worker(int device, bool claimed, int (*part)(void))
{
	pid_t child = fork();
	int status;

	if (!child) {
		close(VCUDA_CHANNEL_FD);
		if (claimed)
			send_first_message();
		if (device > -2)
			worker_warm_start(device);
		if (claimed)
			worker_warm_claim();
		if (!part)
			for (;;)
				pause();
		if (!worker_warm_backend())
			_exit(100);
		session.ops = worker_loaded.ops;
		session.handles = worker_handles_create();
		_exit(part());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 200;
}

#define NEED(condition)                                                                                                \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			return __LINE__ % 90 + 1;                                                                      \
	} while (0)

static unsigned int state(CUdevice dev, unsigned int *flags)
{
	struct vcuda_args_cuDevicePrimaryCtxGetState a = {.dev = dev, .flags = 77, .active = 77};

	if (vcuda_handle_cuDevicePrimaryCtxGetState(&session, &a) != CUDA_SUCCESS)
		return 99;
	*flags = a.flags;
	return (unsigned int)a.active;
}

static int take_it(void)
{
	struct vcuda_args_cuDevicePrimaryCtxRetain a = {.dev = 1};
	unsigned int flags;

	NEED(state(1, &flags) == 0 && flags == 0);
	NEED(vcuda_handle_cuDevicePrimaryCtxRelease_v2(&session, &(struct vcuda_args_cuDevicePrimaryCtxRelease_v2){
									 .dev = 1}) == CUDA_ERROR_INVALID_CONTEXT);
	NEED(driver.retained[1] == 1);
	NEED(vcuda_handle_cuDevicePrimaryCtxRetain(&session, &a) == CUDA_SUCCESS && a.pctx == context_of(1));
	NEED(driver.retained[1] == 1 && driver.made[1] == 1);
	NEED(state(1, &flags) == 1 && flags == 8);
	/* Nothing is left to be dropped. */
	a.dev = 2;
	NEED(vcuda_handle_cuDevicePrimaryCtxRetain(&session, &a) == CUDA_SUCCESS && driver.retained[1] == 1);
	NEED(vcuda_handle_cuDevicePrimaryCtxRelease_v2(
		     &session, &(struct vcuda_args_cuDevicePrimaryCtxRelease_v2){.dev = 1}) == CUDA_SUCCESS);
	worker_release_wait();
	NEED(driver.retained[1] == 0 && driver.unlinked == context_of(1));
	return 0;
}

static int take_another(void)
{
	struct vcuda_args_cuDevicePrimaryCtxRetain a = {.dev = 0};

	NEED(vcuda_handle_cuDevicePrimaryCtxRetain(&session, &a) == CUDA_SUCCESS && a.pctx == context_of(0));
	NEED(driver.retained[0] == 1 && driver.retained[1] == 0);
	return 0;
}

static int make_own(void)
{
	struct vcuda_args_cuCtxCreate_v2 a = {.dev = 1};

	NEED(vcuda_handle_cuCtxCreate_v2(&session, &a) == CUDA_SUCCESS && driver.created == 1);
	NEED(driver.retained[1] == 0);
	NEED(vcuda_handle_cuCtxDestroy_v2(&session, &(struct vcuda_args_cuCtxDestroy_v2){.ctx = a.pctx}) ==
		     CUDA_SUCCESS &&
	     driver.unlinked == a.pctx);
	return 0;
}

static int other_flags(void)
{
	struct vcuda_args_cuDevicePrimaryCtxSetFlags_v2 a = {.dev = 1};
	unsigned int flags;

	NEED(vcuda_handle_cuDevicePrimaryCtxSetFlags_v2(&session, &a) == CUDA_SUCCESS && driver.retained[1] == 1);
	a.flags = 4;
	NEED(vcuda_handle_cuDevicePrimaryCtxSetFlags_v2(&session, &a) == CUDA_SUCCESS && driver.retained[1] == 0);
	NEED(state(1, &flags) == 0 && flags == 4);
	NEED(vcuda_handle_cuDevicePrimaryCtxRetain(&session, &(struct vcuda_args_cuDevicePrimaryCtxRetain){.dev = 1}) ==
	     CUDA_SUCCESS);
	NEED(driver.made[1] == 2);
	return 0;
}

static int reset_it(void)
{
	NEED(vcuda_handle_cuDevicePrimaryCtxReset_v2(
		     &session, &(struct vcuda_args_cuDevicePrimaryCtxReset_v2){.dev = 1}) == CUDA_SUCCESS);
	NEED(driver.retained[1] == 0);
	NEED(vcuda_handle_cuDevicePrimaryCtxRetain(&session, &(struct vcuda_args_cuDevicePrimaryCtxRetain){.dev = 1}) ==
	     CUDA_SUCCESS);
	NEED(vcuda_handle_cuDevicePrimaryCtxReset_v2(
		     &session, &(struct vcuda_args_cuDevicePrimaryCtxReset_v2){.dev = 1}) == CUDA_SUCCESS);
	NEED(driver.unlinked == context_of(1));
	NEED(host_access.retained == 1 && host_access.closed == 2 && host_access.reopened == 2 && !host_access.active);
	NEED(!worker_warm_take(1, &(CUcontext){NULL}));
	return 0;
}

/* The releasing call returns at once. The next command waits, and so does a release that has to report an error. */
static int release_it(void)
{
	struct vcuda_args_cuDevicePrimaryCtxRetain retained = {.dev = 0};
	struct vcuda_args_cuDevicePrimaryCtxRelease_v2 a = {.dev = 0};
	unsigned int flags;

	driver.ending = 300000;
	NEED(vcuda_handle_cuDevicePrimaryCtxRetain(&session, &retained) == CUDA_SUCCESS);
	NEED(vcuda_handle_cuDevicePrimaryCtxRelease_v2(&session, &a) == CUDA_SUCCESS && driver.retained[0] > 0);
	worker_release_wait();
	NEED(driver.retained[0] == 0 && state(0, &flags) == 0);
	NEED(host_access.retained == 1 && host_access.closed == 1 && host_access.reopened == 1);
	NEED(!host_access.active && !host_access.is_late);
	NEED(vcuda_handle_cuDevicePrimaryCtxRetain(&session, &retained) == CUDA_SUCCESS);
	driver.state = CUDA_ERROR_ILLEGAL_ADDRESS;
	NEED(vcuda_handle_cuDevicePrimaryCtxRelease_v2(&session, &a) == CUDA_SUCCESS && driver.retained[0] == 0);
	NEED(vcuda_handle_cuDevicePrimaryCtxRelease_v2(&session, &a) == CUDA_ERROR_INVALID_CONTEXT);
	return 0;
}

struct reset {
	pthread_t thread;
	_Atomic bool done;
};

static void *run_reset(void *argument)
{
	struct reset *r = argument;

	vcuda_handle_cuDevicePrimaryCtxReset_v2(&session, &(struct vcuda_args_cuDevicePrimaryCtxReset_v2){.dev = 0});
	r->done = true;
	return NULL;
}

/* A command uses a stream of the context: a reset and the last release let none in, and wait. Another release does not.
 */
static int used_context(void)
{
	struct vcuda_args_cuDevicePrimaryCtxRetain retained = {.dev = 0};
	void *context = context_of(0);
	struct reset r = {.done = false};
	uint64_t stream;

	NEED(vcuda_handle_cuDevicePrimaryCtxRetain(&session, &retained) == CUDA_SUCCESS);
	NEED(vcuda_handle_cuDevicePrimaryCtxRetain(&session, &retained) == CUDA_SUCCESS);
	worker_publish(&session, VCUDA_KIND_CONTEXT, true, 0, &context);
	stream = worker_handle_add(session.handles, VCUDA_KIND_STREAM, false, &r, 0, (uint64_t)(uintptr_t)context);
	NEED(worker_handle_get(session.handles, stream, ~0u));
	NEED(vcuda_handle_cuDevicePrimaryCtxRelease_v2(
		     &session, &(struct vcuda_args_cuDevicePrimaryCtxRelease_v2){.dev = 0}) == CUDA_SUCCESS);
	worker_release_wait();
	NEED(driver.retained[0] == 1 && !host_access.closed);
	NEED(!pthread_create(&r.thread, NULL, run_reset, &r));
	while (worker_handle_get(session.handles, (uint64_t)(uintptr_t)context, ~0u))
		worker_handle_put(session.handles, (uint64_t)(uintptr_t)context);
	NEED(!r.done && driver.retained[0] == 1);
	worker_handle_put(session.handles, stream);
	pthread_join(r.thread, NULL);
	NEED(driver.retained[0] == 0);
	NEED(worker_handle_get(session.handles, (uint64_t)(uintptr_t)context, ~0u) == context_of(0));
	NEED(!worker_handle_get(session.handles, stream, ~0u));
	return 0;
}

/* How often the staging blocks have been pinned once they are to be in that context. */
static unsigned int pins(CUcontext context)
{
	driver.current = context;
	worker_stage_pin(&session, 4096);
	worker_stage_pin(&session, 4096);
	return driver.pins;
}

static CUresult release_primary(void)
{
	CUresult result = vcuda_handle_cuDevicePrimaryCtxRelease_v2(
		&session, &(struct vcuda_args_cuDevicePrimaryCtxRelease_v2){.dev = 0});

	worker_release_wait();
	return result;
}

/* With the context in which they are pinned that ends, and with no other. */
static int pin_again(void)
{
	struct vcuda_args_cuDevicePrimaryCtxRetain retained = {.dev = 0};
	CUcontext first = context_of(0), own = (CUcontext)&driver.created;

	session.shm = calloc(1, VCUDA_SHM_BYTES);
	NEED(session.shm);
	NEED(vcuda_handle_cuDevicePrimaryCtxRetain(&session, &retained) == CUDA_SUCCESS);
	NEED(vcuda_handle_cuDevicePrimaryCtxRetain(&session, &retained) == CUDA_SUCCESS);
	/* not for a few copies, but for many small ones or one large one */
	NEED(pins(first) == 0);
	for (int n = 0; n < 500; n++)
		worker_stage_pin(&session, 4);
	NEED(driver.pins == 0);
	worker_stage_pin(&session, 1 << 20);
	NEED(pins(first) == 1 && pins(own) == 1);
	NEED(vcuda_handle_cuCtxDestroy_v2(&session, &(struct vcuda_args_cuCtxDestroy_v2){.ctx = own}) == CUDA_SUCCESS);
	NEED(pins(first) == 1);
	NEED(release_primary() == CUDA_SUCCESS && pins(own) == 1);
	NEED(release_primary() == CUDA_SUCCESS && driver.retained[0] == 0 && pins(own) == 2);
	NEED(vcuda_handle_cuDevicePrimaryCtxRetain(&session, &retained) == CUDA_SUCCESS);
	NEED(vcuda_handle_cuDevicePrimaryCtxReset_v2(
		     &session, &(struct vcuda_args_cuDevicePrimaryCtxReset_v2){.dev = 0}) == CUDA_SUCCESS);
	NEED(pins(first) == 2);
	NEED(vcuda_handle_cuCtxDestroy_v2(&session, &(struct vcuda_args_cuCtxDestroy_v2){.ctx = own}) == CUDA_SUCCESS);
	NEED(vcuda_handle_cuDevicePrimaryCtxRetain(&session, &retained) == CUDA_SUCCESS && pins(first) == 3);
	/* Pinning that has failed is not tried again with each copy. */
	driver.pinned = CUDA_ERROR_OUT_OF_MEMORY;
	NEED(vcuda_handle_cuDevicePrimaryCtxReset_v2(
		     &session, &(struct vcuda_args_cuDevicePrimaryCtxReset_v2){.dev = 0}) == CUDA_SUCCESS);
	NEED(pins(first) == 4 && pins(own) == 4);
	free(session.shm);
	return 0;
}

static int failed_meanwhile(void)
{
	unsigned int flags;

	worker_warm_hides(1, &flags); /* waits until it is there */
	NEED(worker_warm_is_sound());
	driver.state = CUDA_ERROR_ECC_UNCORRECTABLE;
	NEED(!worker_warm_is_sound());
	return 0;
}

static int has_none(void)
{
	unsigned int flags;

	NEED(!worker_warm_hides(0, &flags) && !worker_warm_take(0, &(CUcontext){NULL}) && worker_warm_is_sound());
	worker_warm_drop();
	NEED(driver.made[0] == 0 && driver.made[1] == 0);
	return 0;
}

static void test_context(void **unused)
{
	driver.loads = true;
	assert_int_equal(in_worker(1, true, take_it), 0);
	assert_int_equal(in_worker(1, true, take_another), 0);
	assert_int_equal(in_worker(1, true, make_own), 0);
	assert_int_equal(in_worker(1, true, other_flags), 0);
	assert_int_equal(in_worker(1, true, reset_it), 0);
	assert_int_equal(in_worker(1, true, failed_meanwhile), 0);
}

static void test_without(void **unused)
{
	driver.loads = true;
	assert_int_equal(in_worker(-2, true, has_none), 0);
	assert_int_equal(in_worker(-1, true, has_none), 0);
	assert_int_equal(in_worker(DEVICES, true, has_none), 0);
}

static void test_used_context(void **unused)
{
	assert_int_equal(in_worker(-2, true, used_context), 0);
}

static void test_release(void **unused)
{
	driver.loads = true;
	assert_int_equal(in_worker(-2, true, release_it), 0);
	assert_int_equal(in_worker(1, true, release_it), 0);
}

static void test_pins(void **unused)
{
	driver.loads = true;
	assert_int_equal(in_worker(-2, true, pin_again), 0);
}

static void test_failures(void **unused)
{
	driver.loads = true;
	assert_int_equal(in_worker(DEVICES, false, NULL), 1);
	driver.loads = false;
	assert_int_equal(in_worker(1, false, NULL), 1);
	assert_int_equal(in_worker(1, true, has_none), 100);
	assert_int_equal(in_worker(-2, true, has_none), 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_context), cmocka_unit_test(test_without),
					   cmocka_unit_test(test_release), cmocka_unit_test(test_used_context),
					   cmocka_unit_test(test_pins),    cmocka_unit_test(test_failures)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
