/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unmapping host memory of cuMemCreate() where the host keeps pages: the same call can be made again, and nothing is
 * left then.
 *
 * usage: test-libcuda-host-memory places|arena
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "protocol/cuda-functions.h"
#include "protocol/types.h"
#include "test-libcuda-fake-mapped.h"
#include "test-libcuda-fake.h"

#define GRANULE ((size_t)FAKE_GRANULE)
#define RW CU_MEM_ACCESS_FLAGS_PROT_READWRITE

static int setup(void **state)
{
	setenv("VCUDA_TRANSPORT", "local", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	return cuInit(0);
}

static CUmemGenericAllocationHandle create(CUmemLocationType type)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {type, 0}};
	CUmemGenericAllocationHandle handle = 0;

	assert_int_equal(cuMemCreate(&handle, GRANULE, &prop, 0), CUDA_SUCCESS);
	return handle;
}

static void map(CUdeviceptr p, CUmemGenericAllocationHandle handle)
{
	assert_int_equal(cuMemMap(p, GRANULE, 0, handle, 0), CUDA_SUCCESS);
}

static void give_to_host(CUdeviceptr p)
{
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_HOST, 0}, RW};

	assert_int_equal(cuMemSetAccess(p, GRANULE, &access, 1), CUDA_SUCCESS);
	*(volatile int *)(uintptr_t)p = 1;
}

/* Three granules, of which the worker's mappings are left as they were before. */
struct space {
	CUmemGenericAllocationHandle host, more, device;
	CUdeviceptr p;
	uint64_t mappings;
};

static struct space begin(void)
{
	struct space s = {.host = create(CU_MEM_LOCATION_TYPE_HOST),
			  .more = create(CU_MEM_LOCATION_TYPE_HOST),
			  .mappings = fake.mappings};

	assert_int_equal(cuMemAddressReserve(&s.p, 3 * GRANULE, 0, 0, 0), CUDA_SUCCESS);
	return s;
}

static void end(const struct space *s)
{
	assert_int_equal(cuMemAddressFree(s->p, 3 * GRANULE), CUDA_SUCCESS);
	assert_int_equal(cuMemRelease(s->host), CUDA_SUCCESS);
	assert_int_equal(cuMemRelease(s->more), CUDA_SUCCESS);
	if (s->device)
		assert_int_equal(cuMemRelease(s->device), CUDA_SUCCESS);
	assert_int_equal(fake.mappings, s->mappings);
	assert_int_equal(fake_mapped_count(), 0);
}

/* The host's pages stay at the first try, once for the first mapping and once for the last. */
static void host_beside_host(void **state)
{
	for (int at = 0; at < 2; at++) {
		struct space s = begin();

		map(s.p, s.host);
		give_to_host(s.p);
		map(s.p + GRANULE, s.more);
		give_to_host(s.p + GRANULE);
		fake.releases_fail = at ? 1 : 2;
		assert_int_not_equal(cuMemUnmap(s.p, 2 * GRANULE), CUDA_SUCCESS);
		assert_int_equal(cuMemAddressFree(s.p, 3 * GRANULE), CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(cuMemUnmap(s.p, GRANULE - 4096), CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(cuMemUnmap(s.p, 2 * GRANULE), CUDA_SUCCESS);
		assert_int_equal(cuMemUnmap(s.p, 2 * GRANULE), CUDA_SUCCESS); /* of nothing */
		end(&s);
	}
}

/* The next try may have fewer mappings. */
static void one_by_one(void **state)
{
	struct space s = begin();
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_HOST, 0}, RW};

	map(s.p, s.host);
	map(s.p + GRANULE, s.more);
	fake.releases_fail = 2;
	assert_int_not_equal(cuMemUnmap(s.p, 2 * GRANULE), CUDA_SUCCESS);
	assert_int_equal(cuMemSetAccess(s.p, GRANULE, &access, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemMap(s.p, GRANULE, 0, s.host, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemUnmap(s.p + GRANULE, GRANULE), CUDA_SUCCESS);
	assert_int_equal(cuMemUnmap(s.p, GRANULE), CUDA_SUCCESS);
	map(s.p, s.host);
	assert_int_equal(cuMemUnmap(s.p, GRANULE), CUDA_SUCCESS);
	end(&s);
}

/* The device's memory is gone after the first try, and may have been mapped again by the second. */
static void host_beside_device(void **state)
{
	for (int again = 0; again < 4; again++) {
		struct space s = begin();

		s.device = create(CU_MEM_LOCATION_TYPE_DEVICE);
		map(s.p, s.device);
		map(s.p + GRANULE, s.host);
		map(s.p + 2 * GRANULE, s.device);
		fake.releases_fail = 1;
		assert_int_not_equal(cuMemUnmap(s.p, 3 * GRANULE), CUDA_SUCCESS);
		assert_int_equal(fake_mapped_count(), 0);
		if (again & 1)
			map(s.p, s.device);
		if (again & 2)
			map(s.p + 2 * GRANULE, s.more);
		assert_int_equal(cuMemUnmap(s.p, 3 * GRANULE), CUDA_SUCCESS);
		assert_int_equal(cuMemUnmap(s.p, 3 * GRANULE), CUDA_SUCCESS); /* of nothing */
		end(&s);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(host_beside_host),
		cmocka_unit_test(one_by_one),
		cmocka_unit_test(host_beside_device),
	};

	if (argc < 2)
		return 2;
	fake.features = VCUDA_FEATURE_HOST_MEMORY;
	if (!strcmp(argv[1], "places"))
		fake.features |= VCUDA_FEATURE_PLACES;
	else
		cmocka_set_skip_filter("host_beside_device");
	return cmocka_run_group_tests(tests, setup, NULL);
}
