/* SPDX-License-Identifier: Apache-2.0 */
/* A fat binary of one PTX, as start-up code has it in a program: IMAGE(name, "...") and
 * __cudaRegisterFatBinary(&name_wrapper). */
#ifndef TEST_LOCAL_IMAGE_H
#define TEST_LOCAL_IMAGE_H

#include <stdint.h>

#define IMAGE_ENTRY_BYTES 80
#define IMAGE_OPTIONS 64
#define IMAGE_PTX_BYTES 4096

struct image {
	struct {
		uint32_t magic;
		uint16_t version, header_bytes;
		uint64_t bytes;
	} header;
	struct {
		uint16_t kind, one;
		uint32_t header_bytes;
		uint64_t bytes;
		uint32_t compressed, options;
		uint16_t minor, major;
		uint32_t architecture, name, name_bytes;
		uint64_t flags, zero, raw_bytes;
		/* At `options`: where the compiler's options are, and how long. NVIDIA's driver looks there in any
		 * case. */
		uint32_t text, text_bytes;
		uint64_t no_text;
	} entry;
	char ptx[IMAGE_PTX_BYTES];
};

_Static_assert(sizeof(((struct image *)0)->entry) == IMAGE_ENTRY_BYTES, "as nvcc has it");

struct image_wrapper {
	uint32_t magic, version;
	const void *data;
	void *unused;
};

#define IMAGE(name, text)                                                                                              \
	static struct image name = {                                                                                   \
		.header = {0xba55ed50, 1, 16, IMAGE_ENTRY_BYTES + IMAGE_PTX_BYTES},                                    \
		.entry = {1, 0x101, IMAGE_ENTRY_BYTES, IMAGE_PTX_BYTES, 0, IMAGE_OPTIONS, 0, 6, 30, 0, 0, 0x11, 0, 0,  \
			  IMAGE_OPTIONS + 8, 0, 0},                                                                    \
		.ptx = text,                                                                                           \
	};                                                                                                             \
	static struct image_wrapper name##_wrapper = {0x466243b1, 1, &name, 0}

#endif
