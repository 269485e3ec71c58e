/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How code gets to the host, without what is done with it there: images that no GPU takes, since their only entry is
 * for one of 2012, which the driver sees at once. New ones, and one that the host may have from before, in this process
 * or an earlier one.
 */
#include "driver-bench.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define MIB (1u << 20)

/* A container of one entry, as compilers make it: machine code, not packed. */
struct head {
	uint32_t magic;
	uint16_t version, header_bytes;
	uint64_t bytes;
	uint16_t kind, one;
	uint32_t entry_header_bytes;
	uint64_t entry_bytes;
	uint32_t compressed, options;
	uint16_t minor, major;
	uint32_t architecture, name, name_bytes;
	uint64_t flags, zero, raw_bytes;
};

struct image {
	char *data;
	size_t bytes;
	uint32_t number;
};

/* For what is kept in the background: a program that loads one does not load the next at once. */
static void wait_until_kept(const struct image *i)
{
	usleep((useconds_t)(10000 + i->bytes / 300));
}

static void write_head(struct image *i)
{
	struct head h = {
		.magic = 0xba55ed50,
		.version = 1,
		.header_bytes = 16,
		.bytes = i->bytes - 16,
		.kind = 2,
		.one = 1,
		.entry_header_bytes = sizeof(h) - 16,
		.entry_bytes = i->bytes - sizeof(h),
		.minor = 7,
		.major = 1,
		.architecture = 30,
		.flags = 0x11,
	};

	memcpy(i->data, &h, sizeof(h));
}

static void load(void *argument)
{
	struct image *i = argument;
	CUmodule module;

	if (cuModuleLoadData(&module, i->data) == CUDA_SUCCESS)
		check(1, "a GPU that takes code of 2012: cuModuleLoadData");
}

/* Of a length that none has had, which the host can tell without looking at it. */
static void renew(void *argument)
{
	struct image *i = argument;

	wait_until_kept(i);
	i->bytes -= 64;
	i->number++;
	write_head(i);
	memcpy(i->data + sizeof(struct head), &i->number, sizeof(i->number));
}

static void measure(const char *size, size_t bytes)
{
	struct image i = {.data = malloc(bytes), .bytes = bytes};
	uint32_t x = (uint32_t)getpid();
	char name[64];

	if (!i.data)
		check(1, "malloc");
	for (size_t at = 0; at + 4 <= bytes; at += 4, x = x * 1664525 + 1013904223)
		memcpy(i.data + at, &x, 4);
	write_head(&i);
	snprintf(name, sizeof(name), "image_%s_new", size);
	report(name, time_call(load, renew, &i) * 1e-3, "ms");
	load(&i);
	wait_until_kept(&i);
	snprintf(name, sizeof(name), "image_%s_again", size);
	report(name, time_call(load, NULL, &i) * 1e-3, "ms");
	free(i.data);
}

void bench_images(void)
{
	measure("1M", MIB);
	measure("5M", 5 * MIB);
	measure("20M", 20 * MIB);
	if (settings.max_bytes >= 100 * (size_t)MIB)
		measure("100M", 100 * MIB);
}
