/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the fatbin containers that nvcc makes, and unpacks the text of entries. Every read is checked against the bytes
 * given. No state, no logging: thread-safe.
 */
#ifndef VCUDA_FATBIN_H
#define VCUDA_FATBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FATBIN_MAGIC 0xba55ed50u
#define FATBIN_HEADER_BYTES 16

enum fatbin_kind {
	FATBIN_PTX = 1,
	FATBIN_ELF = 2,
	FATBIN_OPTIONS = 0x7643, /* no code, and none of NVIDIA's: options for all that follows */
};

struct fatbin_entry {
	unsigned int kind;    /* enum fatbin_kind, or something newer */
	unsigned int sm;      /* 75 for sm_75 */
	bool arch_specific;   /* sm_90a: for exactly this architecture */
	bool family_specific; /* sm_100f: for this major number only */
	bool relocatable;     /* made with -rdc=true: needs a device linker */
	unsigned int max_registers; /* of a thread, as the compiler was told; 0: no bound */
	bool lz4, zstd;
	const uint8_t *payload;
	size_t stored_bytes; /* of the payload as it is stored, without padding */
	size_t bytes;        /* unpacked */
};

struct fatbin_reader {
	const uint8_t *at, *end; /* the rest of the container */
	const uint8_t *limit;    /* the end of what may be read */
};

/* The number of bytes of the container at `image`, by its header; 0: no container. Reads 16 bytes. */
size_t fatbin_size(const void *image);

/* Starts to read the container at `image`, of which `bytes` may be read. 0 or -EINVAL. */
int fatbin_open(struct fatbin_reader *reader, const void *image, size_t bytes);

/* Goes on to a container that follows directly. False: there is none. */
bool fatbin_next_container(struct fatbin_reader *reader);

/* The next entry of the container. 1; 0 at its end; -EINVAL if it is malformed. */
int fatbin_next(struct fatbin_reader *reader, struct fatbin_entry *entry);

/*
 * Unpacks an entry into new memory with a NUL behind it. 0, -ENOMEM, or -EINVAL (malformed, an unknown compression, or
 * over 256 MiB).
 */
int fatbin_unpack(const struct fatbin_entry *entry, char **data, size_t *bytes);

#endif
