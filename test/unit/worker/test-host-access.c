/* SPDX-License-Identifier: Apache-2.0 */
/* Devices' access to guest memory: who can end it, and what becomes of it with the primary context. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "protocol/backend.h"
#include "protocol/handlers.h"
#include "host/worker/handle/handle-host-access.h"
#include "host/worker/memory/mapping.h"
#include "host/worker/session/dispatch.h"
#include "host/worker/session/session.h"

#define PAGE 4096ull
#define AT ((void *)WORKER_ARENA_START)
#define NONE CU_MEM_ACCESS_FLAGS_PROT_NONE
#define READ CU_MEM_ACCESS_FLAGS_PROT_READ
#define RW CU_MEM_ACCESS_FLAGS_PROT_READWRITE

/* A driver with three devices, their primary contexts, and room for one registration. */
static struct {
	unsigned int retained, of[3]; /* in all, and of each device */
	unsigned int registrations, flags;
	CUcontext current, home; /* `home`: the one that it is registered in */
	void *registered;
	CUresult registers, unregisters; /* results of these calls */
} driver;

static CUcontext primary(CUdevice dev)
{
	return (CUcontext)&driver.of[dev];
}

static CUresult retain(CUcontext *context, CUdevice dev)
{
	driver.retained++;
	driver.of[dev]++;
	*context = primary(dev);
	return CUDA_SUCCESS;
}

static CUresult release(CUdevice dev)
{
	assert_true(driver.of[dev] > 0);
	driver.retained--;
	driver.of[dev]--;
	return CUDA_SUCCESS;
}

static CUresult get_state(CUdevice dev, unsigned int *flags, int *active)
{
	*flags = 0;
	*active = driver.of[dev] > 0;
	return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *context)
{
	*context = driver.current;
	return CUDA_SUCCESS;
}

static CUresult set_current(CUcontext context)
{
	driver.current = context;
	return CUDA_SUCCESS;
}

static CUresult register_memory(void *p, size_t bytes, unsigned int flags)
{
	if (driver.registers != CUDA_SUCCESS)
		return driver.registers;
	if (driver.registered)
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	driver.registered = p;
	driver.home = driver.current;
	driver.registrations++;
	driver.flags = flags;
	return CUDA_SUCCESS;
}

static CUresult unregister_memory(void *p)
{
	if (driver.unregisters != CUDA_SUCCESS)
		return driver.unregisters;
	if (!driver.registered || driver.registered != p)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	assert_ptr_equal(driver.current, driver.home);
	driver.registered = NULL;
	driver.home = NULL;
	return CUDA_SUCCESS;
}

static const struct vcuda_backend_ops ops = {
	.name = "fake",
	.cuDevicePrimaryCtxRetain = retain,
	.cuDevicePrimaryCtxRelease_v2 = release,
	.cuDevicePrimaryCtxGetState = get_state,
	.cuCtxGetCurrent = get_current,
	.cuCtxSetCurrent = set_current,
	.cuMemHostRegister_v2 = register_memory,
	.cuMemHostUnregister = unregister_memory,
};

CUresult worker_unsupported(struct worker_session *s, unsigned int op)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

static struct worker_session session;
static int memory;

/* With one page of the guest's. */
static int setup(void **state)
{
	session = (struct worker_session){.ops = &ops, .mappings = worker_mappings_create()};
	memory = memfd_create("test", 0);
	memset(&driver, 0, sizeof(driver));
	return !session.mappings || memory < 0 || ftruncate(memory, (off_t)PAGE) ||
	       worker_mapping_add(session.mappings, WORKER_ARENA_START, PAGE, 0, true, true,
				  &(struct worker_mapping_extent){memory, 0, PAGE}, 1);
}

static int teardown(void **state)
{
	worker_mappings_destroy(session.mappings);
	close(memory);
	return 0;
}

static CUresult set_access_of(CUdevice dev, CUmemAccess_flags flags)
{
	return vcuda_handle_vcudaMemHostAccess(
		&session,
		&(struct vcuda_args_vcudaMemHostAccess){.p = AT, .size = PAGE, .dev = dev, .flags = (int)flags});
}

static CUresult set_access(CUmemAccess_flags flags)
{
	return set_access_of(0, flags);
}

static CUresult guest_registers(void)
{
	return vcuda_handle_cuMemHostRegister_v2(&session,
						 &(struct vcuda_args_cuMemHostRegister_v2){.p = AT, .bytesize = PAGE});
}

static CUresult guest_unregisters(void)
{
	return vcuda_handle_cuMemHostUnregister(&session, &(struct vcuda_args_cuMemHostUnregister){.p = AT});
}

static int remove_pages(void)
{
	return worker_mapping_remove(session.mappings, WORKER_ARENA_START, PAGE);
}

static void access_comes_and_goes(void **state)
{
	assert_int_equal(set_access(NONE), CUDA_SUCCESS);
	assert_int_equal(set_access(READ), CUDA_SUCCESS);
	assert_true(driver.flags & CU_MEMHOSTREGISTER_READ_ONLY);
	assert_int_equal(set_access(RW), CUDA_SUCCESS);
	assert_false(driver.flags & CU_MEMHOSTREGISTER_READ_ONLY);
	assert_ptr_equal(driver.registered, AT);
	assert_int_equal(driver.retained, 1);
	assert_null(driver.current);
	assert_int_equal(remove_pages(), -EBUSY);
	assert_int_equal(set_access(NONE), CUDA_SUCCESS);
	assert_null(driver.registered);
	assert_int_equal(driver.retained, 0);
	assert_int_equal(remove_pages(), 0);
}

/* Neither does a call for registrations end it, nor the other way round. */
static void access_is_not_a_registration(void **state)
{
	assert_int_equal(set_access(RW), CUDA_SUCCESS);
	assert_int_equal(guest_unregisters(), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	assert_ptr_equal(driver.registered, AT);
	assert_int_equal(guest_registers(), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(set_access(NONE), CUDA_SUCCESS);
	assert_int_equal(guest_registers(), CUDA_SUCCESS);
	assert_int_equal(set_access(NONE), CUDA_SUCCESS);
	assert_int_equal(set_access(RW), CUDA_ERROR_INVALID_VALUE);
	assert_ptr_equal(driver.registered, AT);
	assert_int_equal(driver.retained, 0);
	assert_int_equal(remove_pages(), -EBUSY);
	assert_int_equal(guest_unregisters(), CUDA_SUCCESS);
	assert_int_equal(remove_pages(), 0);
}

/* A registration that the driver keeps holds its pages. */
static void failures_keep_the_pages(void **state)
{
	driver.registers = CUDA_ERROR_OUT_OF_MEMORY;
	assert_int_equal(set_access(RW), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(driver.retained, 0);
	driver.registers = CUDA_SUCCESS;
	assert_int_equal(set_access(RW), CUDA_SUCCESS);
	driver.unregisters = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	assert_int_equal(set_access(NONE), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	assert_int_equal(remove_pages(), -EBUSY);
	/* the context stays */
	worker_host_access_close(&session, 0);
	worker_host_access_reopen(&session, 0, true);
	assert_int_equal(driver.retained, 1);
	assert_int_equal(remove_pages(), -EBUSY);
	driver.unregisters = CUDA_SUCCESS;
	assert_int_equal(set_access(NONE), CUDA_SUCCESS);
	assert_int_equal(remove_pages(), 0);
}

/* A context in which nothing can be unregistered ends with its registrations, and access returns with the next one. */
static void failed_context_ends(void **state)
{
	assert_int_equal(set_access(RW), CUDA_SUCCESS);
	driver.unregisters = CUDA_ERROR_LAUNCH_FAILED;
	worker_host_access_close(&session, 0);
	assert_int_equal(driver.retained, 0);
	driver.registered = NULL;
	driver.unregisters = CUDA_SUCCESS;
	worker_host_access_reopen(&session, 0, false);
	assert_int_equal(remove_pages(), -EBUSY);
	worker_host_access_retained(&session, 0);
	assert_ptr_equal(driver.registered, AT);
	assert_int_equal(driver.retained, 1);
	assert_int_equal(set_access(NONE), CUDA_SUCCESS);
	assert_int_equal(driver.retained, 0);
	assert_int_equal(remove_pages(), 0);
}

/* Access ends with the context, and the application's own references stay. */
static void context_ends(void **state)
{
	assert_int_equal(set_access(RW), CUDA_SUCCESS);
	worker_host_access_close(&session, 1);
	worker_host_access_reopen(&session, 1, false);
	assert_ptr_equal(driver.registered, AT);
	worker_host_access_close(&session, 0);
	assert_null(driver.registered);
	assert_int_equal(driver.retained, 0);
	worker_host_access_reopen(&session, 0, false);
	assert_int_equal(remove_pages(), -EBUSY);
	assert_int_equal(driver.registrations, 1);
	driver.retained = driver.of[0] = 1; /* the application's */
	worker_host_access_retained(&session, 0);
	assert_ptr_equal(driver.registered, AT);
	assert_int_equal(driver.retained, 2);
	worker_host_access_retained(&session, 0);
	assert_int_equal(driver.registrations, 2);
	/* a release that was not the last */
	worker_host_access_close(&session, 0);
	assert_int_equal(driver.retained, 1);
	worker_host_access_reopen(&session, 0, true);
	assert_ptr_equal(driver.registered, AT);
	worker_host_access_close(&session, 0);
	worker_host_access_reopen(&session, 0, false);
	assert_int_equal(set_access(NONE), CUDA_SUCCESS);
	assert_int_equal(driver.retained, 1);
	assert_int_equal(remove_pages(), 0);
}

/* The end of one device's primary context takes the access of no other device. */
static void other_devices_keep_access(void **state)
{
	driver.retained = driver.of[1] = 1; /* the application's */
	assert_int_equal(set_access(RW), CUDA_SUCCESS);
	assert_ptr_equal(driver.home, primary(0));
	assert_int_equal(set_access_of(1, RW), CUDA_SUCCESS);
	assert_int_equal(driver.registrations, 1);
	worker_host_access_close(&session, 0);
	assert_ptr_equal(driver.home, primary(1));
	assert_int_equal(driver.of[0], 0);
	worker_host_access_reopen(&session, 0, false);
	assert_ptr_equal(driver.registered, AT);
	assert_int_equal(remove_pages(), -EBUSY);
	/* the call is undone: only the first device's context exists */
	worker_host_access_close(&session, 1);
	assert_null(driver.registered);
	driver.retained = driver.of[1] = 0;
	worker_host_access_reopen(&session, 1, false);
	assert_null(driver.registered);
	assert_int_equal(driver.retained, 0);
	driver.retained = driver.of[0] = 1;
	worker_host_access_retained(&session, 0);
	assert_ptr_equal(driver.home, primary(0));
	worker_host_access_retained(&session, 2);
	assert_int_equal(set_access_of(1, NONE), CUDA_SUCCESS);
	assert_ptr_equal(driver.home, primary(0));
	assert_int_equal(set_access(NONE), CUDA_SUCCESS);
	assert_null(driver.registered);
	assert_int_equal(driver.retained, 1);
	assert_int_equal(remove_pages(), 0);
}

/* A registration is for the devices that have access, and as wide as their widest. */
static void access_of_each_device(void **state)
{
	assert_int_equal(set_access_of(1, READ), CUDA_SUCCESS);
	assert_true(driver.flags & CU_MEMHOSTREGISTER_READ_ONLY);
	assert_int_equal(set_access_of(0, RW), CUDA_SUCCESS);
	assert_false(driver.flags & CU_MEMHOSTREGISTER_READ_ONLY);
	assert_ptr_equal(driver.home, primary(1));
	assert_int_equal(set_access_of(1, NONE), CUDA_SUCCESS);
	assert_ptr_equal(driver.home, primary(0));
	assert_int_equal(driver.of[1], 0);
	assert_int_equal(set_access_of(1, READ), CUDA_SUCCESS);
	assert_int_equal(set_access_of(0, READ), CUDA_SUCCESS);
	assert_true(driver.flags & CU_MEMHOSTREGISTER_READ_ONLY);
	assert_int_equal(set_access_of(64, RW), CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(set_access_of(-2, NONE), CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(set_access_of(-1, RW), CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(set_access_of(-1, NONE), CUDA_SUCCESS);
	assert_null(driver.registered);
	assert_int_equal(driver.retained, 0);
	assert_int_equal(remove_pages(), 0);
}

/* A call that the driver refuses changes no access. */
static void failures_change_no_access(void **state)
{
	assert_int_equal(set_access(READ), CUDA_SUCCESS);
	driver.unregisters = CUDA_ERROR_UNKNOWN;
	assert_int_equal(set_access_of(1, RW), CUDA_ERROR_UNKNOWN);
	assert_ptr_equal(driver.home, primary(0));
	driver.unregisters = CUDA_SUCCESS;
	assert_int_equal(set_access_of(1, READ), CUDA_SUCCESS);
	assert_int_equal(driver.registrations, 1);
	driver.registers = CUDA_ERROR_OUT_OF_MEMORY;
	assert_int_equal(set_access(RW), CUDA_ERROR_OUT_OF_MEMORY);
	assert_null(driver.registered);
	assert_int_equal(driver.retained, 0);
	assert_int_equal(remove_pages(), -EBUSY);
	driver.registers = CUDA_SUCCESS;
	assert_int_equal(set_access(READ), CUDA_SUCCESS);
	assert_ptr_equal(driver.registered, AT);
	assert_true(driver.flags & CU_MEMHOSTREGISTER_READ_ONLY);
	assert_int_equal(set_access(NONE), CUDA_SUCCESS);
	assert_ptr_equal(driver.home, primary(1));
	assert_int_equal(set_access_of(1, NONE), CUDA_SUCCESS);
	assert_int_equal(driver.retained, 0);
	assert_int_equal(remove_pages(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(access_comes_and_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(access_is_not_a_registration, setup, teardown),
		cmocka_unit_test_setup_teardown(failures_keep_the_pages, setup, teardown),
		cmocka_unit_test_setup_teardown(failed_context_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(context_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(other_devices_keep_access, setup, teardown),
		cmocka_unit_test_setup_teardown(access_of_each_device, setup, teardown),
		cmocka_unit_test_setup_teardown(failures_change_no_access, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
