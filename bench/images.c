/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How code gets to the host, without what is done with it there: images that no GPU takes, since their only entry is
 * for one of 2012, which the driver sees at once.
 */
#include "driver-bench.h"

#include <stdint.h>
#include <string.h>

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

static void write_head(void *data, size_t bytes)
{
	struct head h = {
		.magic = 0xba55ed50,
		.version = 1,
		.header_bytes = 16,
		.bytes = bytes - 16,
		.kind = 2,
		.one = 1,
		.entry_header_bytes = sizeof(h) - 16,
		.entry_bytes = bytes - sizeof(h),
		.minor = 7,
		.major = 1,
		.architecture = 30,
		.flags = 0x11,
	};

	memcpy(data, &h, sizeof(h));
}

static void load(void *image)
{
	CUmodule module;

	if (cuModuleLoadData(&module, image) == CUDA_SUCCESS)
		check(1, "a GPU that takes code of 2012: cuModuleLoadData");
}

static void measure(const char *size, size_t bytes)
{
	char *image = malloc(bytes), name[64];

	if (!image)
		check(1, "malloc");
	memset(image, 1, bytes);
	write_head(image, bytes);
	snprintf(name, sizeof(name), "image_%s_new", size);
	report(name, time_call(load, NULL, image) * 1e-3, "ms");
	free(image);
}

void bench_images(void)
{
	measure("1M", MIB);
	measure("5M", 5 * MIB);
	measure("20M", 20 * MIB);
	if (settings.max_bytes >= 100 * (size_t)MIB)
		measure("100M", 100 * MIB);
}
