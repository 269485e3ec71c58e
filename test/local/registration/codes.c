/* SPDX-License-Identifier: Apache-2.0 */
/* Probes: result codes and what is asked about registered memory. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "registration.h"

static uint8_t *memory;

static void interior(void)
{
	probe_begin("unregister", "an interior address");
	GIVES(cuMemHostRegister_v2(memory, 5000, 0), 0);
	GIVES(cuMemHostUnregister(memory + 1), 1);
	GIVES(cuMemHostUnregister(memory + 4096), 1);
	GIVES(cuMemHostUnregister(memory + 4999), 1);
	probe_use(memory, 5000);
	GIVES(cuMemHostUnregister(memory), 0);
}

static void allocated(void)
{
	void *p;

	probe_begin("unregister", "allocated memory");
	GIVES(cuMemHostAlloc(&p, 4096, 0), 0);
	GIVES(cuMemHostUnregister(p), 1);
	probe_use(p, 4096);
	GIVES(cuMemFreeHost(p), 0);
}

static void twice(void)
{
	probe_begin("unregister", "twice");
	GIVES(cuMemHostUnregister(memory), 713);
	GIVES(cuMemHostRegister_v2(memory, 100, 0), 0);
	GIVES(cuMemHostUnregister(memory), 0);
	GIVES(cuMemHostUnregister(memory), 713);
	probe_begin("unregister", "beside a registration");
	GIVES(cuMemHostRegister_v2(memory, 100, 0), 0);
	GIVES(cuMemHostUnregister(memory + 100), 713);
	GIVES(cuMemHostUnregister(memory), 0);
}

static void flags(void)
{
	unsigned int f = 99;

	probe_begin("flags", "of registered memory");
	GIVES(cuMemHostRegister_v2(memory + 10, 100, 0), 0);
	GIVES(cuMemHostGetFlags(&f, memory + 10), 0);
	EXPECT(f == 2);
	probe_begin("flags", "at an interior address");
	GIVES(cuMemHostGetFlags(&f, memory + 50), 0);
	EXPECT(f == 2);
	GIVES(cuMemHostGetFlags(&f, memory + 110), 1);
	GIVES(cuMemHostUnregister(memory + 10), 0);
	probe_begin("flags", "of nothing");
	GIVES(cuMemHostGetFlags(&f, memory + 10), 1);
	probe_begin("flags", "unknown ones");
	GIVES(cuMemHostRegister_v2(memory, 100, 1u << 20), 1);
}

static void sizes(void)
{
	void *p = memory;

	probe_begin("size 0", "allocated");
	GIVES(cuMemHostAlloc(&p, 0, 0), 0);
	EXPECT(!p);
	probe_begin("size 0", "registered");
	GIVES(cuMemHostRegister_v2(memory, 0, 0), 1);
	GIVES(cuMemHostRegister_v2(NULL, 100, 0), 1);
	GIVES(cuMemHostUnregister(memory), 713);
	probe_begin("size", "beyond the address space");
	GIVES(cuMemHostRegister_v2(memory, ~(size_t)0 - 10, 0), 1);
}

static void freed_as_allocated(void)
{
	probe_begin("free", "registered memory");
	GIVES(cuMemHostRegister_v2(memory, 100, 0), 0);
	GIVES(cuMemFreeHost(memory), 1);
	probe_use(memory, 100);
	GIVES(cuMemHostUnregister(memory), 0);
}

static void attributes(void)
{
	uint64_t start = 0, size = 0, pointer = 0;

	probe_begin("attributes", "of two on one page");
	GIVES(cuMemHostRegister_v2(memory + 8, 100, 0), 0);
	GIVES(cuMemHostRegister_v2(memory + 108, 60, 0), 0);
	GIVES(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
				    (CUdeviceptr)(uintptr_t)memory + 120),
	      0);
	GIVES(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, (CUdeviceptr)(uintptr_t)memory + 120), 0);
	GIVES(cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER, (CUdeviceptr)(uintptr_t)memory + 120),
	      0);
	EXPECT(start == (uintptr_t)memory + 108 && size == 60 && pointer == (uintptr_t)memory + 120);
	GIVES(cuMemHostUnregister(memory + 8), 0);
	GIVES(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, (CUdeviceptr)(uintptr_t)memory + 8), 1);
	GIVES(cuMemHostUnregister(memory + 108), 0);
}

static void read_only(void)
{
	unsigned int flag = CU_MEMHOSTREGISTER_READ_ONLY;
	CUdeviceptr d;

	probe_begin("read-only", "beside writable");
	GIVES(cuMemAlloc_v2(&d, 4096), 0);
	GIVES(cuMemHostRegister_v2(memory, 100, flag), 0);
	GIVES(cuMemHostRegister_v2(memory + 100, 100, 0), 1);
	GIVES(cuMemHostRegister_v2(memory + 300, 100, flag), 0);
	GIVES(cuMemHostRegister_v2(memory + 4096, 100, 0), 0);
	GIVES(cuMemHostUnregister(memory + 4096), 0);
	memset(memory, 5, 100);
	GIVES(cuMemcpyHtoDAsync_v2(d, memory, 100, NULL), 0);
	GIVES(cuStreamSynchronize(NULL), 0);
	GIVES(cuMemHostUnregister(memory), 0);
	GIVES(cuMemHostRegister_v2(memory + 100, 100, 0), 1);
	GIVES(cuMemHostUnregister(memory + 300), 0);
	GIVES(cuMemHostRegister_v2(memory + 100, 100, 0), 0);
	GIVES(cuMemHostRegister_v2(memory + 300, 50, flag), 1);
	probe_use(memory + 100, 100);
	GIVES(cuMemHostUnregister(memory + 100), 0);
	GIVES(cuMemFree_v2(d), 0);
}

static void not_there(void)
{
	uint8_t *p = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	probe_begin("memory", "that ends too early");
	munmap(p + 8192, 4096);
	EXPECT(cuMemHostRegister_v2(p + 100, 10000, 0) != CUDA_SUCCESS);
	GIVES(cuMemHostRegister_v2(p + 100, 8000, 0), 0);
	probe_use(p + 100, 8000);
	GIVES(cuMemHostUnregister(p + 100), 0);
	munmap(p, 8192);
}

void probe_codes(void)
{
	memory = aligned_alloc(4096, 8 * 4096);
	memset(memory, 0, 8 * 4096);
	interior();
	allocated();
	twice();
	flags();
	sizes();
	freed_as_allocated();
	attributes();
	read_only();
	not_there();
	free(memory);
}
