/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile fatbin containers. The seed is two containers, each with one PTX text raw, as LZ4 and as zstd. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include <lz4.h>
#include <zstd.h>

#include "common/fatbin.h"

#define CONTAINERS 2
#define LZ4_FLAG 0x2000u
#define ZSTD_FLAG 0x8000u

/* Reads all of it; returns how many entries could be unpacked. */
static unsigned int read_all(const uint8_t *data, size_t bytes)
{
	struct fatbin_reader reader;
	struct fatbin_entry entry;
	unsigned int unpacked = 0;

	if (fatbin_open(&reader, data, bytes))
		return 0;
	do {
		while (fatbin_next(&reader, &entry) == 1) {
			size_t size;
			char *text;

			if (entry.payload < data || entry.payload > data + bytes ||
			    entry.stored_bytes > (size_t)(data + bytes - entry.payload))
				abort();
			if (fatbin_unpack(&entry, &text, &size))
				continue;
			if (text[size] != '\0')
				abort();
			free(text);
			unpacked++;
		}
	} while (fatbin_next_container(&reader));
	return unpacked;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	read_all(data, bytes);
	return 0;
}

static void put(uint8_t *at, uint64_t value, size_t bytes)
{
	memcpy(at, &value, bytes);
}

/* Writes an entry and returns where the next one goes. */
static uint8_t *add_entry(uint8_t *at, uint64_t flags, const void *payload, size_t stored, size_t unpacked)
{
	static const char options[] = "--compile-only  ";
	size_t header = 64 + 8 + 24, padded = (stored + 7) / 8 * 8;
	uint64_t packed = flags & (LZ4_FLAG | ZSTD_FLAG);

	memset(at, 0, header + padded);
	put(at, 1 | 0x101 << 16, 4);
	put(at + 4, header, 4);
	put(at + 8, padded, 8);
	put(at + 16, packed ? stored : 0, 4);
	put(at + 20, 64, 4);
	put(at + 24, 9 << 16, 4);
	put(at + 28, 75, 4);
	put(at + 40, flags, 8);
	put(at + 56, packed ? unpacked : 0, 8);
	put(at + 64, 72, 4);
	put(at + 68, sizeof(options) - 1, 4);
	memcpy(at + 72, options, sizeof(options));
	memcpy(at + header, payload, stored);
	return at + header + padded;
}

static uint8_t *add_container(uint8_t *start)
{
	static const char text[] = ".version 9.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n"
				   ".visible .entry l()\n{\n\tret;\n}\n.visible .entry m()\n{\n\tret;\n}\n";
	uint8_t *at = start + FATBIN_HEADER_BYTES;
	char packed[1024];
	size_t stored;

	at = add_entry(at, 0x11, text, sizeof(text), sizeof(text));
	stored = (size_t)LZ4_compress_default(text, packed, sizeof(text), sizeof(packed));
	at = add_entry(at, 0x11 | LZ4_FLAG, packed, stored, sizeof(text));
	stored = ZSTD_compress(packed, sizeof(packed), text, sizeof(text), 3);
	at = add_entry(at, 0x11 | ZSTD_FLAG, packed, stored, sizeof(text));
	put(start, FATBIN_MAGIC, 4);
	put(start + 4, 1 | FATBIN_HEADER_BYTES << 16, 4);
	put(start + 8, (uint64_t)(at - start) - FATBIN_HEADER_BYTES, 8);
	return at;
}

size_t fuzz_seed(unsigned int number, uint8_t *buffer, size_t room)
{
	static uint8_t seed[4096];
	static size_t bytes;

	(void)number;
	if (!bytes) {
		uint8_t *at = seed;

		for (int i = 0; i < CONTAINERS; i++)
			at = add_container(at);
		bytes = (size_t)(at - seed);
		/* The seed must be read to its end, as a good container is. */
		if (read_all(seed, bytes) != CONTAINERS * 3)
			abort();
	}
	if (bytes > room)
		return 0;
	memcpy(buffer, seed, bytes);
	return bytes;
}
