/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks of a guest process with registered memory. Each case ends in an error or in correct data. No case may change
 * memory that the process cannot write itself, and the next process must work.
 *
 * usage: hostile-pins CASE (alone: prints the cases) exit status 0: as it should be; 1: not
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <unistd.h>

#include "protocol/cuda-abi.h"
#include "ring/ring.h"
#include "guest/driver/uapi.h"
#include "protocol/wire.h"
#include "test/check.h"

#define BYTES (1ul << 20)
#define COUNT (BYTES / sizeof(uint32_t))

static const char ptx[] =
	".version 6.3\n.target sm_50\n.address_size 64\n"
	".visible .entry add_seven(.param .u64 data)\n{\n"
	".reg .b32 %r<6>;\n.reg .b64 %rd<4>;\n"
	"ld.param.u64 %rd1, [data];\n"
	"mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\nmad.lo.s32 %r5, %r2, %r3, %r4;\n"
	"mul.wide.u32 %rd2, %r5, 4;\nadd.s64 %rd3, %rd1, %rd2;\n"
	"ld.global.u32 %r1, [%rd3];\nadd.s32 %r1, %r1, 7;\nst.global.u32 [%rd3], %r1;\nret;\n}\n";

#define DRIVER(X)                                                                                                      \
	X(cuInit, unsigned int)                                                                                        \
	X(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice)                                                             \
	X(cuCtxSetCurrent, CUcontext)                                                                                  \
	X(cuCtxSynchronize, void)                                                                                      \
	X(cuModuleLoadData, CUmodule *, const void *)                                                                  \
	X(cuModuleGetFunction, CUfunction *, CUmodule, const char *)                                                   \
	X(cuMemAlloc_v2, CUdeviceptr *, size_t)                                                                        \
	X(cuMemcpyHtoD_v2, CUdeviceptr, const void *, size_t)                                                          \
	X(cuMemcpyDtoH_v2, void *, CUdeviceptr, size_t)                                                                \
	X(cuMemHostRegister_v2, void *, size_t, unsigned int)                                                          \
	X(cuMemHostUnregister, void *)                                                                                 \
	X(cuLaunchKernel, CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,            \
	  unsigned int, unsigned int, CUstream, void **, void **)
#define DECLARE(name, ...) static CUresult (*name)(__VA_ARGS__);
DRIVER(DECLARE)

static CUfunction add_seven;

static void start_cuda(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	CUcontext context;
	CUmodule module;

	CHECK(library != NULL);
#define LOOK_UP(name, ...) CHECK((name = (CUresult(*)(__VA_ARGS__))dlsym(library, #name)) != NULL);
	DRIVER(LOOK_UP)
	CHECK(!cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context));
	CHECK(!cuModuleLoadData(&module, ptx) && !cuModuleGetFunction(&add_seven, module, "add_seven"));
}

/* Adds seven to each of the COUNT words at an address. */
static CUresult run_kernel(uint64_t address)
{
	void *params[] = {&address};
	CUresult result = cuLaunchKernel(add_seven, COUNT / 256, 1, 1, 256, 1, 1, 0, NULL, params, NULL);

	return result ? result : cuCtxSynchronize();
}

static void fill(uint32_t *words, uint32_t value)
{
	for (size_t i = 0; i < COUNT; i++)
		words[i] = value;
}

static bool all_are(const uint32_t *words, uint32_t value)
{
	for (size_t i = 0; i < COUNT; i++)
		if (words[i] != value)
			return false;
	return true;
}

static void *map(void *where, int protection, int flags, int fd)
{
	void *p = mmap(where, BYTES, protection, flags, fd, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* The device still computes correctly on memory of its own. */
static void compute(void)
{
	static uint32_t words[COUNT];
	CUdeviceptr device;

	fill(words, 5);
	CHECK(!cuMemAlloc_v2(&device, BYTES) && !cuMemcpyHtoD_v2(device, words, BYTES));
	CHECK(!run_kernel(device) && !cuMemcpyDtoH_v2(words, device, BYTES));
	CHECK(all_are(words, 12));
}

/* A file that the process can only read, mapped shared and privately, registered as it may be and as it may not. */
static void read_only_file(int flags, unsigned int register_flags)
{
	char path[] = "/tmp/hostile-XXXXXX";
	int fd = mkstemp(path), reader = open(path, O_RDONLY);
	static uint32_t words[COUNT];
	void *view;
	CUresult result;

	fill(words, 1);
	CHECK(fd >= 0 && reader >= 0 && write(fd, words, BYTES) == (ssize_t)BYTES);
	start_cuda();
	view = map(NULL, PROT_READ, flags, reader);
	result = cuMemHostRegister_v2(view, BYTES, register_flags);
	printf("register: CUDA error %d\n", (int)result);
	if (!result) {
		result = run_kernel((uintptr_t)view);
		printf("kernel: CUDA error %d\n", (int)result);
		CHECK(result != CUDA_SUCCESS);
	} else {
		compute();
	}
	CHECK(all_are(view, 1));
	CHECK(pread(fd, words, BYTES, 0) == (ssize_t)BYTES && all_are(words, 1));
}

static void shared_file(void)
{
	read_only_file(MAP_SHARED, 0);
}

static void shared_file_read(void)
{
	read_only_file(MAP_SHARED, CU_MEMHOSTREGISTER_READ_ONLY);
}

static void private_file(void)
{
	read_only_file(MAP_PRIVATE, 0);
}

static void private_file_read(void)
{
	read_only_file(MAP_PRIVATE, CU_MEMHOSTREGISTER_READ_ONLY);
}

/* The page of zeros that all processes share must stay so. */
static void zero_page(void)
{
	uint32_t *view = map(NULL, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1), *other;
	CUresult result;

	start_cuda();
	CHECK(all_are(view, 0));
	result = cuMemHostRegister_v2(view, BYTES, CU_MEMHOSTREGISTER_READ_ONLY);
	printf("register: CUDA error %d\n", (int)result);
	if (!result)
		CHECK(run_kernel((uintptr_t)view) != CUDA_SUCCESS);
	other = map(NULL, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	CHECK(all_are(view, 0) && all_are(other, 0));
}

/*
 * Other memory comes to the addresses of a registered range. The device keeps the pages that were registered: what it
 * reads is what was there, and what it writes never shows in the new memory, nor anywhere else.
 */
static void remapped(void)
{
	uint32_t *view = map(NULL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1), *others[16];
	static uint32_t words[COUNT];
	CUdeviceptr device;
	CUresult result;

	start_cuda();
	fill(view, 1);
	CHECK(!cuMemAlloc_v2(&device, BYTES) && !cuMemHostRegister_v2(view, BYTES, 0));
	CHECK(!munmap(view, BYTES));
	CHECK(map(view, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1) == view);
	fill(view, 100);
	for (int i = 0; i < 16; i++) {
		others[i] = map(NULL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		fill(others[i], 3);
	}
	result = run_kernel((uintptr_t)view);
	printf("kernel: CUDA error %d, new memory has %u\n", (int)result, view[0]);
	CHECK(all_are(view, 100) || (!result && all_are(view, 107)));
	if (!result) {
		result = cuMemcpyHtoD_v2(device, view, BYTES);
		CHECK(result || !cuMemcpyDtoH_v2(words, device, BYTES));
		printf("copy: CUDA error %d, the device has %u\n", (int)result, words[0]);
		CHECK(result || all_are(words, 8) || all_are(words, view[0]));
		printf("unregister: CUDA error %d\n", (int)cuMemHostUnregister(view));
		compute();
		/* Registered anew, the new memory is what the device sees. */
		fill(view, 50);
		CHECK(!cuMemHostRegister_v2(view, BYTES, 0) && !run_kernel((uintptr_t)view));
		CHECK(all_are(view, 57));
	}
	for (int i = 0; i < 16; i++)
		CHECK(all_are(others[i], 3));
}

/* A registered range that is gone altogether. */
static void unmapped(void)
{
	uint32_t *view = map(NULL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	start_cuda();
	fill(view, 1);
	CHECK(!cuMemHostRegister_v2(view, BYTES, 0));
	CHECK(!munmap(view, BYTES));
	printf("kernel: CUDA error %d\n", (int)run_kernel((uintptr_t)view));
	printf("unregister: CUDA error %d\n", (int)cuMemHostUnregister(view));
	compute();
}

/* Addresses of the worker's own program, libraries, heap and stack, where no guest may map. */
static const uint64_t worker_addresses[] = {
	0x10000, 0x400000, 0x080000000000, 0x100000000000, 0x2aaaaaaab000, 0x555555554000,
	0x7ffff7000000, 0x7fffffe00000,
};

#define ADDRESSES (sizeof(worker_addresses) / sizeof(*worker_addresses))

/* NULL where this process has something itself. */
static void *map_at(uint64_t address)
{
	void *p = mmap((void *)address, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* The worker survives any answer. */
static void pin_raw(int fd, volatile uint32_t *share, uint64_t address, uint64_t bytes)
{
	struct vcuda_pin pin = {address, bytes, VCUDA_PIN_WRITABLE, 0};
	struct vcuda_wait wait = {.seen = share[VCUDA_WAKE_OFFSET / 4], .timeout_us = 100000};
	int result = ioctl(fd, VCUDA_IOC_PIN, &pin) ? errno : 0;

	printf("0x%llx: %s\n", (unsigned long long)address, result ? strerror(result) : "granted");
	CHECK(ioctl(fd, VCUDA_IOC_WAIT, &wait) == -1 && errno == ETIMEDOUT);
}

/* By the driver's own interface. */
static void mappings_raw(void)
{
	struct vcuda_open open_args = {
		.major = VCUDA_PROTOCOL_MAJOR, .shm_bytes = VCUDA_SHM_BYTES, .wake_offset = VCUDA_WAKE_OFFSET};
	int fd = open(VCUDA_DEVICE_PATH, O_RDWR | O_CLOEXEC);
	volatile uint32_t *share;

	CHECK(fd >= 0 && !ioctl(fd, VCUDA_IOC_OPEN, &open_args));
	share = mmap(NULL, VCUDA_SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(share != MAP_FAILED);
	for (size_t i = 0; i < ADDRESSES; i++)
		if (map_at(worker_addresses[i]))
			pin_raw(fd, share, worker_addresses[i], BYTES);
	pin_raw(fd, share, (uintptr_t)__builtin_frame_address(0) & ~4095ul, 4096);
}

static int pin_direct(int fd, const void *address, uint64_t bytes, uint32_t flags)
{
	struct vcuda_pin pin = {(uintptr_t)address, bytes, flags | VCUDA_PIN_DIRECT, 0};

	return ioctl(fd, VCUDA_IOC_PIN, &pin) ? errno : 0;
}

static int unpin(int fd, const void *address, uint64_t bytes)
{
	struct vcuda_unpin args = {(uintptr_t)address, bytes};

	return ioctl(fd, VCUDA_IOC_UNPIN, &args) ? errno : 0;
}

/* Direct ranges, by the driver's own interface; without the host's offer all are refused. */
static void direct_raw(void)
{
	struct vcuda_open open_args = {
		.major = VCUDA_PROTOCOL_MAJOR, .shm_bytes = VCUDA_SHM_BYTES, .wake_offset = VCUDA_WAKE_OFFSET};
	const uint64_t huge = 2 << 20;
	int fd = open(VCUDA_DEVICE_PATH, O_RDWR | O_CLOEXEC);
	char *p = mmap(NULL, 8 * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *nothing = mmap(NULL, 2 * huge, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(fd >= 0 && p != MAP_FAILED && nothing != MAP_FAILED && !ioctl(fd, VCUDA_IOC_OPEN, &open_args));
	p += -(uintptr_t)p % huge;
	CHECK(!madvise(p, 6 * huge, MADV_HUGEPAGE));
	for (uint64_t at = 0; at < 6 * huge; at += 4096)
		p[at] = 1;
	if (!(open_args.flags & VCUDA_OPEN_DIRECT)) {
		CHECK(pin_direct(fd, p, huge, 0) == EOPNOTSUPP);
		return;
	}
	CHECK(pin_direct(fd, p, huge, 4) == EINVAL && pin_direct(fd, p, huge, 1u << 31) == EINVAL);
	CHECK(pin_direct(fd, p + 1, huge, 0) == EINVAL && pin_direct(fd, p, 0, 0) == EINVAL);
	CHECK(pin_direct(fd, p, -4096ull, 0) == EINVAL && pin_direct(fd, (void *)4096, huge, 0) == EFAULT);
	/* In too many pieces: one page is one. The page of zeros, again and again, is as many. */
	CHECK(pin_direct(fd, p, 4096, 0) == E2BIG && pin_direct(fd, nothing, huge, 0) == E2BIG);
	/* No pin of either kind may overlap another one, and each is unpinned as it was pinned. */
	CHECK(!pin_direct(fd, p, 2 * huge, VCUDA_PIN_WRITABLE) && pin_direct(fd, p, 2 * huge, 0) == EEXIST);
	CHECK(pin_direct(fd, p + huge, 2 * huge, 0) == EEXIST);
	CHECK(ioctl(fd, VCUDA_IOC_PIN, &(struct vcuda_pin){(uintptr_t)p, huge, 0, 0}) && errno == EEXIST);
	CHECK(unpin(fd, p, huge) == ENOENT && unpin(fd, p + huge, huge) == ENOENT && !unpin(fd, p, 2 * huge));
	CHECK(unpin(fd, p, 2 * huge) == ENOENT);
	/* Only for reading is not for writing. */
	CHECK(!mprotect(p, huge, PROT_READ) && pin_direct(fd, p, huge, VCUDA_PIN_WRITABLE) == EFAULT);
	CHECK(!pin_direct(fd, p, huge, 0) && !unpin(fd, p, huge));
	/* Unmapped under the pin. */
	CHECK(!pin_direct(fd, p, huge, 0) && !munmap(p, huge) && !unpin(fd, p, huge));
	/* Left pinned: closing the file unpins the pages. */
	CHECK(!pin_direct(fd, p + 2 * huge, 2 * huge, VCUDA_PIN_WRITABLE));
	puts("direct ranges are as they should be");
}

/* By the library, and then the device computes: in the mapping where it was granted. */
static void mappings_cuda(void)
{
	start_cuda();
	for (size_t i = 0; i < ADDRESSES; i++) {
		uint32_t *p = map_at(worker_addresses[i]);
		CUresult result = p ? cuMemHostRegister_v2(p, BYTES, 0) : CUDA_ERROR_INVALID_VALUE;

		if (!result) {
			fill(p, 9);
			CHECK(!run_kernel((uintptr_t)p) && all_are(p, 16));
		}
		compute();
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"shared-file", shared_file},       {"shared-file-read", shared_file_read}, {"private-file", private_file},
	{"private-file-read", private_file_read}, {"zero-page", zero_page},         {"remapped", remapped},
	{"unmapped", unmapped},             {"windows-raw", mappings_raw},           {"windows-cuda", mappings_cuda},
	{"direct-raw", direct_raw},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (argc < 2) {
			puts(cases[i].name);
			continue;
		}
		/* So that our stack is where the worker has its own. */
		if (!(personality(0xffffffff) & ADDR_NO_RANDOMIZE) && personality(ADDR_NO_RANDOMIZE) >= 0)
			execv("/proc/self/exe", argv);
		if (!strcmp(argv[1], cases[i].name)) {
			setvbuf(stdout, NULL, _IOLBF, 0);
			cases[i].run();
			return 0;
		}
	}
	return argc < 2 ? 0 : 2;
}
