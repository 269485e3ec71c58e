/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call as text. Pointers are the application's: what they point at is read by the kernel, which tells of a bad one,
 * where this process would die of it.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "module/function.h"
#include "trace/trace.h"

/* Largest number of characters that are shown of a string. */
#define SHOWN 48

#define PAGE 4096u

struct line {
	char *text;
	size_t length;
};

__attribute__((format(printf, 2, 3))) static void put(struct line *l, const char *format, ...)
{
	size_t room = LIBCUDA_TRACE_LINE - l->length;
	va_list values;
	int n;

	va_start(values, format);
	n = vsnprintf(l->text + l->length, room, format, values);
	va_end(values);
	if (n > 0)
		l->length += (size_t)n < room ? (size_t)n : room - 1;
}

/* Returns the number of bytes that could be read. */
static size_t peek(uint64_t address, void *to, size_t bytes)
{
	size_t first = PAGE - address % PAGE;
	struct iovec local = {to, bytes}, remote[2] = {{(void *)address, bytes}};
	ssize_t n;

	if (first < bytes) {
		remote[0].iov_len = first;
		remote[1] = (struct iovec){(void *)(address + first), bytes - first};
	}
	n = address ? process_vm_readv(getpid(), &local, 1, remote, first < bytes ? 2 : 1, 0) : -1;
	return n < 0 ? 0 : (size_t)n;
}

static void put_string(struct line *l, uint64_t address)
{
	char text[SHOWN + 1];
	size_t got = peek(address, text, sizeof(text)), length = strnlen(text, got);

	if (!got || (length == got && got < sizeof(text))) {
		put(l, address ? "0x%" PRIx64 : "NULL", address);
		return;
	}
	put(l, "\"");
	for (size_t i = 0; i < length && i < SHOWN; i++) {
		char c = text[i];

		if (c == '"' || c == '\\')
			put(l, "\\%c", c);
		else if (c == '\n')
			put(l, "\\n");
		else if (c == '\t')
			put(l, "\\t");
		else if ((unsigned char)c < ' ' || c == 127)
			put(l, "\\x%02x", (unsigned char)c);
		else
			put(l, "%c", c);
	}
	put(l, length > SHOWN ? "\"..." : "\"");
}

/* NULL: there is none. Another thread may be unloading it. */
static const char *function_name(uint64_t handle)
{
	const struct libcuda_function *f = libcuda_function_of(
		libcuda_object_find(LIBCUDA_OBJECT_FUNCTION | LIBCUDA_OBJECT_KERNEL, (const void *)handle));

	return f ? f->name : NULL;
}

size_t libcuda_trace_function_name(char *name, size_t room, uint64_t handle)
{
	size_t got = peek((uintptr_t)function_name(handle), name, room), length = strnlen(name, got);

	if (length == room)
		length--;
	if (room)
		name[got ? length : 0] = 0;
	return got ? length : 0;
}

static void put_function(struct line *l, uint64_t handle)
{
	const char *name = function_name(handle);

	put(l, "0x%" PRIx64, handle);
	if (!name)
		return;
	put(l, " ");
	put_string(l, (uintptr_t)name);
}

static void put_enum(struct line *l, const struct libcuda_trace_value *v, int value)
{
	while (v->name && v->value != value)
		v++;
	if (v->name)
		put(l, "%s", v->name);
	else
		put(l, "%d", value);
}

static void put_value(struct line *l, const struct libcuda_trace_param *p, uint64_t value)
{
	float number;

	switch (p->how) {
	case LIBCUDA_TRACE_SIGNED:
		put(l, "%" PRId64, (int64_t)value);
		break;
	case LIBCUDA_TRACE_UNSIGNED:
		put(l, "%" PRIu64, value);
		break;
	case LIBCUDA_TRACE_FLOAT:
		memcpy(&number, &value, sizeof(number));
		put(l, "%g", (double)number);
		break;
	case LIBCUDA_TRACE_ENUM:
		put_enum(l, p->values, (int)value);
		break;
	case LIBCUDA_TRACE_FUNCTION:
		put_function(l, value);
		break;
	case LIBCUDA_TRACE_STRING:
	case LIBCUDA_TRACE_TEXT:
		put_string(l, value);
		break;
	case LIBCUDA_TRACE_STRUCT:
		put(l, "{...}");
		break;
	default:
		put(l, value ? "0x%" PRIx64 : "0", value);
	}
}

/* Appends the value that a call wrote through a pointer. */
static bool put_target(struct line *l, const struct libcuda_trace_param *p, uint64_t address)
{
	union {
		uint64_t whole;
		int32_t word;
		int16_t half;
	} v = {0};

	if (p->target > sizeof(v) || peek(address, &v, p->target) != p->target)
		return false;
	if (p->how == LIBCUDA_TRACE_SIGNED && p->target == 4)
		v.whole = (uint64_t)(int64_t)v.word;
	else if (p->how == LIBCUDA_TRACE_SIGNED && p->target == 2)
		v.whole = (uint64_t)(int64_t)v.half;
	put(l, "*%s=", p->name);
	put_value(l, p, v.whole);
	return true;
}

static void put_param(struct line *l, const struct libcuda_trace_param *p, uint64_t value, bool succeeded)
{
	bool later = p->target || p->how == LIBCUDA_TRACE_TEXT;

	if (p->target && succeeded && put_target(l, p, value))
		return;
	put(l, "%s=", p->name);
	if (later && !(p->how == LIBCUDA_TRACE_TEXT && succeeded))
		put(l, value ? "0x%" PRIx64 : "NULL", value);
	else
		put_value(l, p, value);
}

size_t libcuda_trace_line(char *line, const struct libcuda_trace_call *call, CUresult result, const uint64_t *values)
{
	CUresult cuGetErrorName(CUresult, const char **);
	struct line l = {.text = line};
	const char *name;

	put(&l, "%s(%s", call->name, call->count < 0 ? "..." : "");
	for (int i = 0; i < call->count; i++) {
		if (i)
			put(&l, ", ");
		put_param(&l, &call->params[i], values[i], result == CUDA_SUCCESS);
	}
	cuGetErrorName(result, &name);
	if (name)
		put(&l, ") = %s", name);
	else
		put(&l, ") = %d", (int)result);
	return l.length;
}
