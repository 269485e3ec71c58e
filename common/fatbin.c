/* SPDX-License-Identifier: Apache-2.0 */
#include "fatbin.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <lz4.h>
#include <zstd.h>

#define MAX_BYTES (256u << 20)
#define MAX_REGISTERS 255

#define FLAG_LZ4 0x2000u
#define FLAG_ZSTD 0x8000u
#define FLAG_ARCH 0x100000u
#define FLAG_FAMILY 0x200000u

struct container {
	uint32_t magic;
	uint16_t version, header_bytes;
	uint64_t bytes; /* of all entries */
};

struct header {
	uint16_t kind, version;
	uint32_t header_bytes;
	uint64_t payload_bytes;    /* padded to 8 */
	uint32_t compressed_bytes; /* 0: not compressed */
	uint32_t options;          /* offset of {u32 offset, u32 length} of the compiler's options; 0: none */
	uint16_t minor, major;
	uint32_t sm;
	uint32_t name, name_bytes;
	uint64_t flags;
	uint64_t reserved;
	uint64_t unpacked_bytes; /* 0: not compressed */
};

_Static_assert(sizeof(struct container) == FATBIN_HEADER_BYTES, "as on disk");
_Static_assert(sizeof(struct header) == 64, "as on disk");

size_t fatbin_size(const void *image)
{
	struct container c;

	memcpy(&c, image, sizeof(c));
	if (c.magic != FATBIN_MAGIC || c.header_bytes < sizeof(c) || c.bytes > SIZE_MAX / 2)
		return 0;
	return c.header_bytes + (size_t)c.bytes;
}

int fatbin_open(struct fatbin_reader *reader, const void *image, size_t bytes)
{
	struct container c;
	size_t size;

	if (bytes < sizeof(c))
		return -EINVAL;
	memcpy(&c, image, sizeof(c));
	/* checks the copy, since a guest may change the image meanwhile */
	size = fatbin_size(&c);
	if (size == 0 || size > bytes || c.version != 1)
		return -EINVAL;
	reader->at = (const uint8_t *)image + c.header_bytes;
	reader->end = (const uint8_t *)image + size;
	reader->limit = (const uint8_t *)image + bytes;
	return 0;
}

bool fatbin_next_container(struct fatbin_reader *reader)
{
	return fatbin_open(reader, reader->end, (size_t)(reader->limit - reader->end)) == 0;
}

/* An option among the compiler's options of an entry, and in `left` the bytes behind it. NULL: it is not there. */
static const uint8_t *find_option(const uint8_t *entry, const struct header *h, const char *option, size_t *left)
{
	const uint8_t *found;
	uint32_t where[2];

	if (h->options == 0 || h->options > h->header_bytes - sizeof(where))
		return NULL;
	memcpy(where, entry + h->options, sizeof(where));
	if (where[0] > h->header_bytes || where[1] > h->header_bytes - where[0])
		return NULL;
	found = memmem(entry + where[0], where[1], option, strlen(option));
	if (!found)
		return NULL;
	found += strlen(option);
	*left = (size_t)(entry + where[0] + where[1] - found);
	return found;
}

/* Whether the entry waits for a device linker. */
static bool has_compile_only(const uint8_t *entry, const struct header *h)
{
	size_t left;

	return find_option(entry, h, "--compile-only", &left) != NULL;
}

/* nvcc's -maxrregcount. A number that no compiler takes counts as no bound. */
static unsigned int register_bound(const uint8_t *entry, const struct header *h)
{
	const uint8_t *at;
	unsigned int bound = 0;
	size_t left;

	at = find_option(entry, h, "-maxrregcount=", &left);
	for (size_t n = 0; at && n < left && at[n] >= '0' && at[n] <= '9' && bound <= MAX_REGISTERS; n++)
		bound = bound * 10 + (at[n] - '0');
	return bound <= MAX_REGISTERS ? bound : 0;
}

int fatbin_next(struct fatbin_reader *reader, struct fatbin_entry *entry)
{
	size_t left = (size_t)(reader->end - reader->at);
	struct header h;

	if (left == 0)
		return 0;
	if (left < sizeof(h))
		return -EINVAL;
	memcpy(&h, reader->at, sizeof(h));
	if (h.header_bytes < sizeof(h) || h.header_bytes > left || h.payload_bytes > left - h.header_bytes)
		return -EINVAL;
	*entry = (struct fatbin_entry){
		.kind = h.kind,
		.sm = h.sm,
		.arch_specific = h.flags & FLAG_ARCH,
		.family_specific = h.flags & FLAG_FAMILY,
		.relocatable = has_compile_only(reader->at, &h),
		.max_registers = register_bound(reader->at, &h),
		.lz4 = h.flags & FLAG_LZ4,
		.zstd = h.flags & FLAG_ZSTD,
		.payload = reader->at + h.header_bytes,
		.stored_bytes = h.payload_bytes,
		.bytes = h.payload_bytes,
	};
	if (entry->lz4 || entry->zstd) {
		if (h.compressed_bytes > h.payload_bytes || h.unpacked_bytes > SIZE_MAX / 2)
			return -EINVAL;
		entry->stored_bytes = h.compressed_bytes;
		entry->bytes = (size_t)h.unpacked_bytes;
	}
	reader->at += h.header_bytes + h.payload_bytes;
	return 1;
}

int fatbin_unpack(const struct fatbin_entry *entry, char **data, size_t *bytes)
{
	char *out;
	bool ok;

	if (entry->bytes > MAX_BYTES || entry->stored_bytes > MAX_BYTES || (entry->lz4 && entry->zstd))
		return -EINVAL;
	out = malloc(entry->bytes + 1);
	if (!out)
		return -ENOMEM;
	if (entry->lz4) {
		ok = LZ4_decompress_safe((const char *)entry->payload, out, (int)entry->stored_bytes,
					 (int)entry->bytes) == (int)entry->bytes;
	} else if (entry->zstd) {
		ok = ZSTD_decompress(out, entry->bytes, entry->payload, entry->stored_bytes) == entry->bytes;
	} else {
		memcpy(out, entry->payload, entry->bytes);
		ok = true;
	}
	if (!ok) {
		free(out);
		return -EINVAL;
	}
	out[entry->bytes] = '\0';
	*data = out;
	*bytes = entry->bytes;
	return 0;
}
