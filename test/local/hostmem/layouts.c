/* SPDX-License-Identifier: Apache-2.0 */
/* Several mappings in one reservation, of host memory and of device memory. */
#include "hostmem.h"

#define DEVICE CU_MEM_LOCATION_TYPE_DEVICE
#define HOST CU_MEM_LOCATION_TYPE_HOST
#define NUMA CU_MEM_LOCATION_TYPE_HOST_NUMA

/* Other calls over a border between two mappings, with one of pinned memory at the other end. */
static void cross(CUdeviceptr border)
{
	CUdeviceptr p = border - 4096, device;
	uint32_t *pinned;

	probe_begin("layout", "commands over the border");
	OK(cuMemAllocHost_v2((void **)&pinned, 8192));
	OK(cuMemAlloc_v2(&device, 8192));
	for (uint32_t i = 0; i < 2048; i++)
		pinned[i] = i;
	OK(cuMemcpyHtoDAsync_v2(p, pinned, 8192, NULL));
	OK(cuMemcpyDtoDAsync_v2(device, p, 8192, NULL));
	OK(cuMemcpyDtoH_v2(pinned, device, 8192));
	EXPECT(words(p)[0] == 0 && words(p)[1024] == 1024 && words(p)[2047] == 2047 && pinned[2047] == 2047);
	pinned[5] = 7;
	OK(cuMemcpyDtoHAsync_v2(pinned, p, 8192, NULL));
	OK(cuCtxSynchronize());
	EXPECT(pinned[5] == 5 && pinned[2047] == 2047);
	GIVES(cuMemsetD16Async(p + 2, 0x0505, 4095, NULL), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemsetD2D32_v2(p, 1024, 6, 250, 8), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemsetD2D32_v2(p, 1024, 6, 250, 4));
	EXPECT(words(p)[0] == 6 && words(p)[250] == 250 && words(p)[1024] == 1024);
	OK(cuMemFree_v2(device));
	OK(cuMemFreeHost(pinned));
}

/* Rows that one box has on both sides of a border. */
static void cross_with_rows(CUdeviceptr border)
{
	CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
			   .srcPitch = 1024,
			   .dstPitch = 1200,
			   .Height = 6,
			   .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			   .dstDevice = border - 3000,
			   .WidthInBytes = 1000};
	uint32_t *pinned;

	probe_begin("layout", "rows over the border");
	OK(cuMemAllocHost_v2((void **)&pinned, 8192));
	for (uint32_t i = 0; i < 2048; i++)
		pinned[i] = i;
	c.srcDevice = (uintptr_t)pinned;
	OK(cuMemcpy2D_v2(&c));
	for (uint32_t row = 0; row < 6; row++)
		EXPECT(words(c.dstDevice + row * 1200)[249] == row * 256 + 249);
	OK(cuMemFreeHost(pinned));
}

/* Side by side, and copied over the border. */
static void host_beside_host(void)
{
	CUmemGenericAllocationHandle a = create(HOST, 1), b = create(NUMA, 2);
	size_t bytes = 3 * granule;
	uint32_t n = (uint32_t)(bytes / 4), wrong = 0, value = 0;
	CUdeviceptr p, device;

	probe_begin("layout", "two of the host");
	OK(cuMemAddressReserve(&p, bytes, 0, 0, 0));
	OK(cuMemMap(p + granule, 2 * granule, 0, b, 0));
	GIVES(give(p, bytes, DEVICE, 0, RW), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemMap(p, granule, 0, a, 0));
	OK(give(p, bytes, DEVICE, 0, RW));
	OK(give(p, bytes, HOST, 0, RW));
	for (uint32_t i = 0; i < n; i++)
		words(p)[i] = i;
	step(p, 2, n);
	for (uint32_t i = 0; i < n; i++)
		wrong += words(p)[i] != 2 * i + 1;
	EXPECT(!wrong);

	probe_begin("layout", "a copy over the border");
	OK(cuMemAlloc_v2(&device, granule));
	OK(cuMemsetD32_v2(device, 9, granule / 4));
	OK(cuMemcpyDtoH_v2((void *)(uintptr_t)(p + granule / 2), device, granule));
	EXPECT(*words(p + granule / 2) == 9 && *words(p + granule) == 9 && *words(p + granule * 3 / 2 - 4) == 9);
	*words(p + granule) = 8;
	OK(cuMemcpyHtoD_v2(device, (void *)(uintptr_t)(p + granule / 2), granule));
	OK(cuMemcpyDtoH_v2(&value, device + granule / 2, 4));
	EXPECT(value == 8);
	OK(cuMemFree_v2(device));
	cross(p + granule);
	cross_with_rows(p + granule);
	*words(p + granule) = 2 * (uint32_t)(granule / 4) + 1;

	probe_begin("layout", "one of two is unmapped");
	OK(cuMemUnmap(p, granule));
	EXPECT(read_faults(p) && !read_faults(p + granule));
	GIVES(cuMemAddressFree(p, bytes), CUDA_ERROR_INVALID_VALUE);
	step(p + granule, 1, 1);
	EXPECT(*words(p + granule) == 2 * (uint32_t)(granule / 4) + 2);
	OK(cuMemMap(p, granule, 0, a, 0));
	EXPECT(read_faults(p));
	OK(give(p, granule, HOST, 0, RW));
	EXPECT(words(p)[5] == 11);

	probe_begin("layout", "both are unmapped at once");
	OK(cuMemUnmap(p, bytes));
	EXPECT(read_faults(p) && read_faults(p + granule));
	OK(cuMemAddressFree(p, bytes));
	OK(cuMemRelease(a));
	OK(cuMemRelease(b));
}

static void host_beside_device(void)
{
	CUmemAllocationProp prop = properties(DEVICE, 0, CU_MEM_HANDLE_TYPE_NONE);
	CUmemGenericAllocationHandle host = create(HOST, 1), device = 0, more = create(NUMA, 1);
	size_t bytes = 3 * granule;
	uint32_t border[2] = {0};
	CUdeviceptr p;

	probe_begin("layout", "host, device, host");
	OK(cuMemCreate(&device, granule, &prop, 0));
	OK(cuMemAddressReserve(&p, bytes, 0, 0, 0));
	OK(cuMemMap(p, granule, 0, host, 0));
	GIVES(cuMemMap(p + granule, granule, 0, device, 0), has_places ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
	OK(cuMemMap(p + 2 * granule, granule, 0, more, 0));
	if (has_places) {
		OK(give(p, bytes, DEVICE, 0, RW));
		GIVES(give(p, bytes, HOST, 0, RW), CUDA_ERROR_NOT_SUPPORTED);
		OK(give(p, granule, HOST, 0, RW));
		OK(give(p + 2 * granule, granule, NUMA, 0, RW));
		for (size_t i = 0; i < 3; i++)
			OK(cuMemsetD32_v2(p + i * granule, 4, granule / 4));
		step(p, 3, (uint32_t)(bytes / 4));
		EXPECT(*words(p) == 13 && *words(p + 2 * granule) == 13 && read_faults(p + granule));
		OK(cuMemcpyDtoH_v2(border, p + granule - 4, 8));
		EXPECT(border[0] == 13 && border[1] == 13);
		OK(cuMemUnmap(p + granule, granule));
		OK(cuMemMap(p + granule, granule, 0, device, 0));
		OK(cuMemUnmap(p, bytes));
		EXPECT(read_faults(p) && read_faults(p + 2 * granule));
	} else {
		OK(cuMemUnmap(p, granule));
		OK(cuMemUnmap(p + 2 * granule, granule));
	}
	OK(cuMemAddressFree(p, bytes));
	OK(cuMemRelease(host));
	OK(cuMemRelease(device));
	OK(cuMemRelease(more));
}

/* The place of host memory is device memory's next. */
static void take_turns(void)
{
	CUmemAllocationProp prop = properties(DEVICE, 0, CU_MEM_HANDLE_TYPE_NONE);
	CUmemGenericAllocationHandle host, device;
	CUdeviceptr p;

	probe_begin("layout", "addresses that were reserved before");
	OK(cuMemAddressReserve(&p, granule, 0, 0, 0));
	OK(cuMemCreate(&device, granule, &prop, 0));
	host = create(HOST, 1);
	for (int i = 0; i < 3; i++) {
		GIVES(cuMemMap(p, granule, 0, host, 0), has_places ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
		if (has_places) {
			OK(give(p, granule, HOST, 0, RW));
			EXPECT(*words(p) == (uint32_t)i);
			*words(p) = (uint32_t)i + 1;
			OK(cuMemUnmap(p, granule));
		}
		OK(cuMemMap(p, granule, 0, device, 0));
		OK(give(p, granule, DEVICE, 0, RW));
		step(p, 1, 1);
		EXPECT(read_faults(p));
		OK(cuMemUnmap(p, granule));
	}
	OK(cuMemAddressFree(p, granule));
	OK(cuMemRelease(host));
	OK(cuMemRelease(device));
}

static void align(void)
{
	CUmemGenericAllocationHandle handle = create(HOST, 1);
	CUdeviceptr p;

	probe_begin("layout", "alignment");
	GIVES(cuMemAddressReserve(&p, granule + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAddressReserve(&p, granule, 3 * granule, 0, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAddressReserve(&p, granule, 16 * granule, 0, 0));
	EXPECT(p % (16 * granule) == 0);
	GIVES(cuMemAddressFree(p, 2 * granule), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemMap(p, granule, 0, handle, 0));
	OK(give(p, granule, HOST, 0, RW));
	EXPECT(!write_faults(p));
	unmap(p, granule);
	OK(cuMemRelease(handle));
}

void probe_layouts(void)
{
	host_beside_host();
	host_beside_device();
	take_turns();
	align();
}
