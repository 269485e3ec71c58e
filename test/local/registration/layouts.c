/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes: several registrations in one piece of memory, of each kind, unregistered in each order. Memory beside a
 * registration keeps its contents, and each one can be used until its own end.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "registration.h"

#define PAGE 4096u
#define BYTES (8 * PAGE)
#define MOST 4

struct part {
	size_t offset, bytes;
	int expected; /* of its registration */
};

static const struct layout {
	const char *name;
	struct part parts[MOST];
} layouts[] = {
	{"neighbours", {{0, 80, 0}, {80, 20, 0}, {3000, 2000, 0}, {90, 4, 712}}},
	{"two-vectors", {{16, 2000, 0}, {2032, 2000, 0}}},
	{"same-twice", {{64, 100, 0}, {64, 100, 712}, {64, 10, 712}, {164, 36, 0}}},
	{"inside", {{100, 5000, 0}, {4000, 200, 712}, {100, 1, 712}, {5099, 1, 712}}},
	{"around", {{5000, 50, 0}, {4096, 4096, 712}, {0, 5001, 712}, {5049, 9000, 712}}},
	{"whole-pages", {{0, PAGE, 0}, {PAGE, PAGE, 0}, {2 * PAGE, 3 * PAGE, 0}}},
	{"over-borders", {{4000, 200, 0}, {4200, 100, 0}, {3900, 100, 0}}},
	{"large-and-small", {{100, 20000, 0}, {20100, 30, 0}, {50, 50, 0}, {20130, 9000, 0}}},
	{"bytes", {{5, 1, 0}, {6, 1, 0}, {4095, 1, 0}, {4096, 1, 0}}},
	{"ends-with-page", {{1000, 3096, 0}, {4096, 100, 0}, {0, 1000, 0}}},
	{"begins-with-page", {{4096, 10000, 0}, {14096, 400, 0}, {14496, 4000, 0}}},
};

static bool fits(const struct part *p)
{
	return p->bytes && !p->expected;
}

static void use_all(uint8_t *at, const struct layout *l, unsigned int there)
{
	for (unsigned int i = 0; i < MOST; i++)
		if (there & 1u << i)
			probe_use(at + l->parts[i].offset, l->parts[i].bytes);
}

/* Bytes that no part has, which are 0xee. */
static bool beside_is_whole(const uint8_t *at, const struct layout *l)
{
	static uint8_t part[BYTES];

	memset(part, 0, sizeof(part));
	for (unsigned int i = 0; i < MOST; i++)
		if (fits(&l->parts[i]))
			memset(part + l->parts[i].offset, 1, l->parts[i].bytes);
	for (size_t i = 0; i < BYTES; i++)
		if (!part[i] && at[i] != 0xee)
			return false;
	return true;
}

/* The parts begin with `first` and go on with each `step`th one. */
static void register_and_back(uint8_t *at, const struct layout *l, unsigned int first, unsigned int step)
{
	unsigned int there = 0;

	memset(at, 0xee, BYTES);
	for (unsigned int i = 0; i < MOST; i++) {
		const struct part *p = &l->parts[i];

		if (!p->bytes)
			continue;
		GIVES(cuMemHostRegister_v2(at + p->offset, p->bytes, 0), p->expected);
		if (fits(p))
			there |= 1u << i;
		use_all(at, l, there);
	}
	for (unsigned int k = 0, i = first; k < MOST; k++, i = (i + step) % MOST) {
		if (!(there & 1u << i))
			continue;
		GIVES(cuMemHostUnregister(at + l->parts[i].offset), CUDA_SUCCESS);
		there &= ~(1u << i);
		use_all(at, l, there);
	}
	EXPECT(beside_is_whole(at, l));
}

static void try_all(uint8_t *at, const char *kind)
{
	for (size_t n = 0; n < sizeof(layouts) / sizeof(layouts[0]); n++) {
		probe_begin(layouts[n].name, kind);
		register_and_back(at, &layouts[n], 0, 1);
		register_and_back(at, &layouts[n], 3, 3);
		register_and_back(at, &layouts[n], 2, 1);
	}
}

/* The frames beside the array are used all the while. */
static void __attribute__((noinline)) on_stack(const char *kind)
{
	uint8_t array[BYTES + PAGE], *aligned = array + (PAGE - (uintptr_t)array % PAGE) % PAGE;

	try_all(aligned, kind);
	/* at the array's own address */
	try_all(array, kind);
}

static void *on_other_stack(void *context)
{
	GIVES(cuCtxSetCurrent(context), CUDA_SUCCESS);
	on_stack("thread's-stack");
	return NULL;
}

static uint8_t zeroed[BYTES] __attribute__((aligned(PAGE)));
static uint8_t initialised[BYTES] __attribute__((aligned(PAGE))) = {1};

static uint8_t *shared(void)
{
	int fd = memfd_create("shared", 0);
	uint8_t *p;

	EXPECT(ftruncate(fd, BYTES) == 0);
	p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return p;
}

/* The file ends within its last page, as NCCL's do. */
static void partial_page(void)
{
	const size_t bytes = BYTES - PAGE + 4;
	int fd = memfd_create("partial", 0);
	uint8_t *p;

	probe_begin("layout", "file that ends within a page");
	EXPECT(ftruncate(fd, (off_t)bytes) == 0);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	for (unsigned int flags = 0; flags < 4; flags++) {
		OK(cuMemHostRegister_v2(p, bytes, flags));
		probe_use(p, bytes);
		OK(cuMemHostUnregister(p));
	}
	OK(cuMemHostRegister_v2(p + BYTES - 2 * PAGE, PAGE + 4, 0));
	probe_use(p + BYTES - 2 * PAGE, PAGE + 4);
	OK(cuMemHostUnregister(p + BYTES - 2 * PAGE));
	munmap(p, bytes);
}

void probe_layouts(void)
{
	uint8_t *heap = malloc(BYTES);
	pthread_t thread;
	CUcontext context;

	GIVES(cuCtxGetCurrent(&context), CUDA_SUCCESS);
	try_all(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), "mapped");
	try_all(heap, "heap");
	free(heap);
	try_all(shared(), "shared");
	try_all(zeroed, "zeroed");
	try_all(initialised, "initialised");
	partial_page();
	on_stack("stack");
	EXPECT(pthread_create(&thread, NULL, on_other_stack, context) == 0 && pthread_join(thread, NULL) == 0);
}
