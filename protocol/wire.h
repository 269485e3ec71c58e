/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire's version and its primitive codec, which the generated encoders and decoders use.
 *
 * Everything is little-endian and 8-byte aligned: a scalar takes 8 bytes, an array its bytes padded to 8 (its count is
 * another parameter), a string its count in 8 bytes and then its bytes, padded. Readers and writers keep one sticky
 * error: after it reads give zero, writes go nowhere, and the caller tests it once, at the end. Not thread-safe; each
 * belongs to one call.
 */
#ifndef VCUDA_WIRE_H
#define VCUDA_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Major: must be equal. Minor: each side sends only calls whose `since` the other's minor reaches. */
#define VCUDA_PROTOCOL_MAJOR 1
#define VCUDA_PROTOCOL_MINOR 2

struct vcuda_writer {
	uint8_t *at, *end;
	bool error;
};

struct vcuda_reader {
	const uint8_t *at, *end;
	bool error;
};

/* Memory for one command's arrays. The peer states sizes; this side caps the memory. */
struct vcuda_arena {
	uint8_t *at, *end;
};

static inline struct vcuda_writer vcuda_writer_init(void *buffer, size_t bytes)
{
	return (struct vcuda_writer){buffer, (uint8_t *)buffer + bytes, false};
}

static inline struct vcuda_reader vcuda_reader_init(const void *buffer, size_t bytes)
{
	return (struct vcuda_reader){buffer, (const uint8_t *)buffer + bytes, false};
}

static inline size_t vcuda_wire_pad(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

/* A product of lengths: UINT64_MAX, longer than anything, where it does not fit. */
static inline uint64_t vcuda_wire_product(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* Bytes of an array on the wire. A size that is too large gives one longer than any command, yet safe to add up. */
static inline size_t vcuda_wire_array(uint64_t count, size_t size)
{
	const size_t too_long = (size_t)1 << 40;
	size_t bytes;

	return __builtin_mul_overflow(count, size, &bytes) || bytes > too_long ? too_long : vcuda_wire_pad(bytes);
}

static inline void vcuda_writer_put_word(struct vcuda_writer *w, uint64_t value)
{
	if (w->error || (size_t)(w->end - w->at) < sizeof(value)) {
		w->error = true;
		return;
	}
	memcpy(w->at, &value, sizeof(value));
	w->at += sizeof(value);
}

void vcuda_writer_put_bytes(struct vcuda_writer *w, const void *data, size_t bytes); /* padded, no count */
void vcuda_writer_put_array(struct vcuda_writer *w, const void *data, uint64_t count,
			    size_t size); /* the same, overflow checked */

static inline uint64_t vcuda_reader_get_word(struct vcuda_reader *r)
{
	uint64_t value;

	if (r->error || (size_t)(r->end - r->at) < sizeof(value)) {
		r->error = true;
		return 0;
	}
	memcpy(&value, r->at, sizeof(value));
	r->at += sizeof(value);
	return value;
}

/* Reads `bytes` padded bytes in place: a pointer into the reader's buffer, NULL and the sticky error if they are not
 * there. */
const void *vcuda_reader_get_bytes(struct vcuda_reader *r, size_t bytes);

/* The same with `count` elements of `size` bytes, overflow checked. */
const void *vcuda_reader_get_array(struct vcuda_reader *r, uint64_t count, size_t size);

/* A string of `bytes` bytes with its NUL as the last one, and no other. */
const char *vcuda_reader_get_string(struct vcuda_reader *r);

/* A word that must fit a narrower type; else the sticky error. */
uint32_t vcuda_reader_get_u32(struct vcuda_reader *r);
int32_t vcuda_reader_get_i32(struct vcuda_reader *r);

/* Zeroed memory for count elements, NULL (and the reader's sticky error) past the cap. */
void *vcuda_arena_array(struct vcuda_arena *a, struct vcuda_reader *r, uint64_t count, size_t size);

/* True if everything was read and nothing is left. A decoder ends with this. */
static inline bool vcuda_reader_finished(const struct vcuda_reader *r)
{
	return !r->error && r->at == r->end;
}

#endif
