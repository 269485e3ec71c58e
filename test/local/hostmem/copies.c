/* SPDX-License-Identifier: Apache-2.0 */
/* Copies from and to the memory, in every direction, of several sizes. */
#include "hostmem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The location of the other end. */
enum end { DEVICE, PAGEABLE, PINNED, SAME };

enum how { TYPED, ANY, TYPED_LATER, ANY_LATER };

static const char *const end_names[] = {"device", "pageable", "pinned", "such"};
static const char *const how_names[] = {"typed", "any", "typed, later", "any, later"};

static struct {
	CUdeviceptr memory, same, device, busy;
	uint8_t *pageable, *pinned;
	uint8_t value;
} has;

static CUdeviceptr end_of(enum end end)
{
	switch (end) {
	case DEVICE:
		return has.device;
	case PAGEABLE:
		return (uintptr_t)has.pageable;
	case PINNED:
		return (uintptr_t)has.pinned;
	default:
		return has.same;
	}
}

/* In the calls that name the ends, the memory is on the host where the other end is on the device, else on the device.
 */
static CUresult copy(CUdeviceptr to, CUdeviceptr from, enum end other, bool into, size_t bytes, enum how how)
{
	bool later = how == TYPED_LATER || how == ANY_LATER;

	if (how == ANY || how == ANY_LATER)
		return later ? cuMemcpyAsync(to, from, bytes, NULL) : cuMemcpy(to, from, bytes);
	if (other == SAME)
		return later ? cuMemcpyDtoDAsync_v2(to, from, bytes, NULL) : cuMemcpyDtoD_v2(to, from, bytes);
	/* From the device to the host. */
	if (into == (other == DEVICE))
		return later ? cuMemcpyDtoHAsync_v2((void *)(uintptr_t)to, from, bytes, NULL)
			     : cuMemcpyDtoH_v2((void *)(uintptr_t)to, from, bytes);
	return later ? cuMemcpyHtoDAsync_v2(to, (void *)(uintptr_t)from, bytes, NULL)
		     : cuMemcpyHtoD_v2(to, (void *)(uintptr_t)from, bytes);
}

static bool has_only(CUdeviceptr p, size_t bytes, uint8_t value)
{
	uint8_t *copy = malloc(bytes);
	bool has_it;

	OK(cuMemcpy((uintptr_t)copy, p, bytes));
	has_it = copy[0] == value && !memcmp(copy, copy + 1, bytes - 1);
	free(copy);
	return has_it;
}

static void copy_one(enum end other, bool into, size_t bytes, enum how how)
{
	CUdeviceptr to = into ? has.memory : end_of(other), from = into ? end_of(other) : has.memory;
	uint8_t value = ++has.value, before = ++has.value;
	char variant[96];

	snprintf(variant, sizeof(variant), "%s %s, %zu bytes, %s", into ? "from" : "to", end_names[other], bytes,
		 how_names[how]);
	probe_begin("copy", variant);
	memset(has.pageable, into ? value : before, bytes);
	memset(has.pinned, into ? value : before, bytes);
	OK(cuMemsetD8_v2(has.device, into ? value : before, bytes));
	memset((void *)(uintptr_t)has.same, into ? value : before, bytes);
	OK(cuCtxSynchronize());
	memset((void *)(uintptr_t)has.memory, into ? before : value, bytes + 1);
	OK(copy(to, from, other, into, bytes, how));
	/* A synchronous copy into host memory is over; of others only a wait says so. */
	if (how == TYPED_LATER || how == ANY_LATER || other == SAME)
		OK(cuCtxSynchronize());
	if (into)
		EXPECT(*(volatile uint8_t *)(uintptr_t)has.memory == value &&
		       ((volatile uint8_t *)(uintptr_t)has.memory)[bytes - 1] == value &&
		       ((volatile uint8_t *)(uintptr_t)has.memory)[bytes] == before);
	EXPECT(has_only(to, bytes, value));
}

/* The stream is busy for some time. */
static void keep_busy(void)
{
	count(has.busy, 3000);
}

/* Where processors only read, the device's writes are complete nevertheless when the call returns. */
static void into_readable(void)
{
	CUDA_MEMCPY2D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			     .srcDevice = has.device,
			     .srcPitch = 256,
			     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			     .dstDevice = has.memory,
			     .dstPitch = 512,
			     .WidthInBytes = 256,
			     .Height = 4};

	OK(give(has.memory, granule, CU_MEM_LOCATION_TYPE_HOST, 0, CU_MEM_ACCESS_FLAGS_PROT_READ));
	probe_begin("copy", "memset into what processors read");
	keep_busy();
	OK(cuMemsetD32_v2(has.memory, 0x11111111, 1000));
	EXPECT(words(has.memory)[0] == 0x11111111 && words(has.memory)[999] == 0x11111111);
	keep_busy();
	OK(cuMemsetD2D32_v2(has.memory, 512, 0x22222222, 4, 10));
	EXPECT(words(has.memory)[0] == 0x22222222 && words(has.memory)[9 * 128 + 3] == 0x22222222);

	OK(cuMemsetD32_v2(has.device, 0x33333333, 1000));
	probe_begin("copy", "from the device into what processors read");
	keep_busy();
	OK(cuMemcpyDtoD_v2(has.memory, has.device, 4000));
	EXPECT(words(has.memory)[0] == 0x33333333 && words(has.memory)[999] == 0x33333333);
	OK(cuMemsetD32_v2(has.device, 0x44444444, 1000));
	keep_busy();
	OK(cuMemcpy2D_v2(&box));
	EXPECT(words(has.memory)[0] == 0x44444444 && words(has.memory)[3 * 128 + 63] == 0x44444444);

	probe_begin("copy", "from processors into what processors read");
	memset(has.pageable, 0x55, 4000);
	keep_busy();
	OK(cuMemcpyHtoD_v2(has.memory, has.pageable, 4000));
	EXPECT(words(has.memory)[0] == 0x55555555 && words(has.memory)[999] == 0x55555555);
	OK(give(has.memory, granule, CU_MEM_LOCATION_TYPE_HOST, 0, RW));
}

static void set_and_box(void)
{
	CUDA_MEMCPY2D box = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			     .srcHost = (void *)(uintptr_t)has.memory,
			     .srcPitch = 512,
			     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			     .dstDevice = has.device,
			     .dstPitch = 256,
			     .WidthInBytes = 256,
			     .Height = 100};

	probe_begin("copy", "memset");
	keep_busy();
	OK(cuMemsetD32_v2(has.memory, 0x01020304, 1000));
	EXPECT(words(has.memory)[0] == 0x01020304 && words(has.memory)[999] == 0x01020304);
	keep_busy();
	OK(cuMemsetD2D8_v2(has.memory, 512, 7, 256, 100));
	EXPECT(words(has.memory)[63] == 0x07070707 && words(has.memory)[64] == 0x01020304);

	probe_begin("copy", "boxes");
	OK(cuMemcpy2D_v2(&box));
	EXPECT(has_only(has.device, 25600, 7));
	box = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .srcDevice = has.device,
			      .srcPitch = 256,
			      .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
			      .dstDevice = has.memory + 100000,
			      .dstPitch = 300,
			      .WidthInBytes = 256,
			      .Height = 50};
	keep_busy();
	OK(cuMemcpy2D_v2(&box));
	EXPECT(words(has.memory + 100000 + 49 * 300)[0] == 0x07070707);
	EXPECT(has_only(has.memory + 100000 + 300, 256, 7));
}

void probe_copies(void)
{
	static const size_t sizes[] = {5, 70000, 1500000};
	CUmemGenericAllocationHandle a = create(CU_MEM_LOCATION_TYPE_HOST, 1), b;

	has.memory = map(a, granule);
	b = create(CU_MEM_LOCATION_TYPE_HOST_NUMA, 1);
	has.same = map(b, granule);
	OK(cuMemAlloc_v2(&has.device, granule));
	OK(cuMemAlloc_v2(&has.busy, 4));
	OK(cuMemHostAlloc((void **)&has.pinned, granule, 0));
	has.pageable = malloc(granule);
	for (enum end end = DEVICE; end <= SAME; end++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			for (enum how how = TYPED; how <= ANY_LATER; how++) {
				copy_one(end, true, sizes[i], how);
				copy_one(end, false, sizes[i], how);
			}
	set_and_box();
	into_readable();
	free(has.pageable);
	OK(cuMemFreeHost(has.pinned));
	OK(cuMemFree_v2(has.device));
	OK(cuMemFree_v2(has.busy));
	unmap(has.memory, granule);
	unmap(has.same, granule);
	OK(cuMemRelease(a));
	OK(cuMemRelease(b));
}
