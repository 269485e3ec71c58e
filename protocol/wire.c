/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

void vcuda_writer_put_bytes(struct vcuda_writer *w, const void *data, size_t bytes)
{
	size_t padded = vcuda_wire_pad(bytes);

	if (w->error || padded < bytes || (size_t)(w->end - w->at) < padded) {
		w->error = true;
		return;
	}
	if (padded > bytes)
		memset(w->at + padded - 8, 0, 8);
	if (bytes)
		memcpy(w->at, data, bytes);
	w->at += padded;
}

void vcuda_writer_put_array(struct vcuda_writer *w, const void *data, uint64_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes))
		w->error = true;
	else
		vcuda_writer_put_bytes(w, data, bytes);
}

const void *vcuda_reader_get_bytes(struct vcuda_reader *r, size_t bytes)
{
	const uint8_t *p = r->at;
	size_t padded = vcuda_wire_pad(bytes);

	if (r->error || padded < bytes || (size_t)(r->end - r->at) < padded) {
		r->error = true;
		return NULL;
	}
	r->at += padded;
	return p;
}

const void *vcuda_reader_get_array(struct vcuda_reader *r, uint64_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		r->error = true;
		return NULL;
	}
	return vcuda_reader_get_bytes(r, bytes);
}

const char *vcuda_reader_get_string(struct vcuda_reader *r)
{
	uint64_t bytes = vcuda_reader_get_word(r);
	const char *s = vcuda_reader_get_array(r, bytes, 1);

	if (!s || !bytes || memchr(s, 0, bytes) != s + bytes - 1) {
		r->error = true;
		return "";
	}
	return s;
}

uint32_t vcuda_reader_get_u32(struct vcuda_reader *r)
{
	uint64_t v = vcuda_reader_get_word(r);

	if (v > UINT32_MAX)
		r->error = true;
	return (uint32_t)v;
}

int32_t vcuda_reader_get_i32(struct vcuda_reader *r)
{
	int64_t v = (int64_t)vcuda_reader_get_word(r);

	if (v < INT32_MIN || v > INT32_MAX)
		r->error = true;
	return (int32_t)v;
}

void *vcuda_arena_array(struct vcuda_arena *a, struct vcuda_reader *r, uint64_t count, size_t size)
{
	size_t bytes, room = (size_t)(a->end - a->at);
	void *p = a->at;

	if (__builtin_mul_overflow(count, size, &bytes) || bytes > room || vcuda_wire_pad(bytes) > room) {
		r->error = true;
		return NULL;
	}
	a->at += vcuda_wire_pad(bytes);
	if (bytes)
		memset(p, 0, bytes);
	return p;
}
