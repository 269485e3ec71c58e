/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the trace format as text. Times there are microseconds. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/request.h"
#include "protocol/call-info.h"
#include "protocol/guest-calls.h"
#include "trace/profile.h"
#include "trace/trace.h"

/* Longer than any event. A byte of a name takes six at most. */
#define MOST_OF_EVENT (6 * LIBCUDA_PROFILE_NAME + 2048)
_Static_assert(MOST_OF_EVENT >= 12 * LIBCUDA_PROFILE_RANGE_NAME + 2048, "a range has two names");
#define BUFFER_BYTES (256u * 1024)

#define MOST_STREAMS 1024u

/*
 * The trace format orders events by process and thread. The worker and the device are shown as processes of their own,
 * whose numbers no process of Linux has.
 */
#define WORKER_PID 10000000
#define DEVICE_PID 20000000

static struct {
	struct libcuda_trace_file *file;
	char text[BUFFER_BYTES];
	size_t length;
	uint64_t streams[MOST_STREAMS]; /* the nth one is shown as thread n + 1 of the device */
	unsigned int stream_count;
	uint64_t started_ranges;
	bool shows_worker;
} out;

void libcuda_profile_write_flush(void)
{
	if (out.length)
		libcuda_trace_file_write(out.file, out.text, out.length);
	out.length = 0;
}

__attribute__((format(printf, 1, 2))) static void put(const char *format, ...)
{
	va_list values;
	int n;

	va_start(values, format);
	n = vsnprintf(out.text + out.length, BUFFER_BYTES - out.length, format, values);
	va_end(values);
	if (n > 0 && (size_t)n < BUFFER_BYTES - out.length)
		out.length += (size_t)n;
}

static void begin_event(void)
{
	if (BUFFER_BYTES - out.length < MOST_OF_EVENT)
		libcuda_profile_write_flush();
}

/* The bytes of the character that begins there in UTF-8; 0: none does. */
static unsigned int length_of_character(const char *text)
{
	const unsigned char *c = (const unsigned char *)text;
	unsigned int length = c[0] < 0x80 ? 1 : c[0] >= 0xf0 ? 4 : c[0] >= 0xe0 ? 3 : 2;
	/* Neither in more bytes than needed, nor a half of UTF-16, nor beyond U+10FFFF. */
	unsigned char least = c[0] == 0xe0   ? 0xa0
			      : c[0] == 0xf0 ? 0x90
					     : 0x80,
		      most = c[0] == 0xed   ? 0x9f
			     : c[0] == 0xf4 ? 0x8f
					    : 0xbf;

	if (c[0] > 0xf4 || (c[0] >= 0x80 && c[0] < 0xc2))
		return 0;
	if (length > 1 && (c[1] < least || c[1] > most))
		return 0;
	for (unsigned int i = 2; i < length; i++)
		if ((c[i] & 0xc0) != 0x80)
			return 0;
	return length;
}

/* Within quotes. Names are the program's. */
static void put_text(const char *text)
{
	unsigned int length;

	for (; *text; text += length ? length : 1) {
		length = length_of_character(text);
		if (!length)
			put("\\ufffd");
		else if (*text == '"' || *text == '\\')
			put("\\%c", *text);
		else if ((unsigned char)*text < ' ')
			put("\\u%04x", (unsigned char)*text);
		else
			put("%.*s", (int)length, text);
	}
}

static void put_name_of_process(int pid, const char *what)
{
	begin_event();
	put("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"", pid);
	put_text(program_invocation_short_name);
	put("%s\"}},\n", what);
}

void libcuda_profile_write_begin(struct libcuda_trace_file *file)
{
	struct stat about;

	memset(&out, 0, sizeof(out));
	out.file = file;
	/* The processes of a program share the file. */
	if (file->path && !flock(file->own.fd, LOCK_EX) && !fstat(file->own.fd, &about) && !about.st_size) {
		put("[\n");
		libcuda_profile_write_flush();
	}
	if (file->path)
		flock(file->own.fd, LOCK_UN);
	put_name_of_process((int)getpid(), "");
	put_name_of_process(DEVICE_PID + (int)getpid(), ": GPU");
	libcuda_profile_write_flush();
}

static void put_result(CUresult result)
{
	CUresult cuGetErrorName(CUresult, const char **);
	const char *name;

	cuGetErrorName(result, &name);
	if (name)
		put("\"result\":\"%s\"", name);
	else
		put("\"result\":%d", (int)result);
}

/* Not as a double: the program's locale may have another decimal point. */
static void put_us(const char *key, uint64_t ns)
{
	put(",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned int)(ns % 1000));
}

void libcuda_profile_write_call(const struct libcuda_profile_call *c)
{
	const char *kernel = libcuda_profile_function_find(c->function).name;
	int pid = (int)getpid();

	begin_event();
	put("{\"ph\":\"X\",\"cat\":\"call\",\"name\":\"%s\"", libcuda_trace_calls[c->note.call].name);
	put_us("ts", c->note.start);
	put_us("dur", c->note.end - c->note.start);
	put(",\"pid\":%d,\"tid\":%d,\"args\":{", pid, c->note.tid);
	put_result((CUresult)c->note.result);
	put_us("waited", c->waited);
	if (c->first)
		put(",\"command\":%" PRIu64, c->first);
	if (kernel) {
		put(",\"kernel\":\"");
		put_text(kernel);
		put("\"");
	}
	put("}},\n");
	/* An arrow from the launch to the kernel. */
	if (c->function && c->first) {
		put("{\"ph\":\"s\",\"cat\":\"launch\",\"name\":\"launch\",\"id\":\"%d.%" PRIu64 "\"", pid, c->last);
		put_us("ts", c->note.start);
		put(",\"pid\":%d,\"tid\":%d},\n", pid, c->note.tid);
	}
}

static void put_range(const char *kind, const struct libcuda_profile_range *r, uint64_t at)
{
	bool is_started = r->kind == LIBCUDA_PROFILE_STARTED;

	begin_event();
	put("{\"ph\":\"%s\",\"cat\":\"nvtx\",\"name\":\"", kind);
	put_text(r->name ? r->name : "");
	put("\"");
	put_us("ts", at);
	if (r->kind != LIBCUDA_PROFILE_MARK)
		put_us("dur", r->ns);
	put(",\"pid\":%d,\"tid\":%d", (int)getpid(), r->tid);
	if (is_started)
		put(",\"id\":\"%d.%" PRIu64 "\"", (int)getpid(), out.started_ranges);
	put(",\"args\":{");
	if (r->domain) {
		put("\"domain\":\"");
		put_text(r->domain);
		put("\"");
	}
	put("}},\n");
}

/* Ranges of several threads may overlap in any way, and are events of the process. */
void libcuda_profile_write_range(const struct libcuda_profile_range *r)
{
	switch (r->kind) {
	case LIBCUDA_PROFILE_PUSHED:
		put_range("X", r, r->start);
		break;
	case LIBCUDA_PROFILE_MARK:
		put_range("i", r, r->start);
		break;
	case LIBCUDA_PROFILE_STARTED:
		out.started_ranges++;
		put_range("b", r, r->start);
		put_range("e", r, r->start + r->ns);
		break;
	}
}

/* ---- rows of the worker ---- */

void libcuda_profile_write_command(const struct libcuda_profile_row *row)
{
	int pid = WORKER_PID + (int)getpid();

	if (!out.shows_worker)
		put_name_of_process(pid, ": worker");
	out.shows_worker = true;
	begin_event();
	put("{\"ph\":\"X\",\"cat\":\"command\",\"name\":\"%s\"", vcuda_call_table[row->op].name);
	put_us("ts", row->begin);
	put_us("dur", row->end - row->begin);
	put(",\"pid\":%d,\"tid\":%u,\"args\":{\"command\":%" PRIu64 "}},\n", pid, row->thread, row->seq);
}

/* As a thread of the device. */
static unsigned int number_of_stream(uint64_t stream)
{
	unsigned int i = 0;

	while (i < out.stream_count && out.streams[i] != stream)
		i++;
	if (i < out.stream_count || i == MOST_STREAMS)
		return i + 1;
	out.streams[out.stream_count++] = stream;
	begin_event();
	put("{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%u,\"args\":{\"name\":\"",
	    DEVICE_PID + (int)getpid(), i + 1);
	if (stream <= (uintptr_t)CU_STREAM_PER_THREAD)
		put("%s\"}},\n", stream == (uintptr_t)CU_STREAM_PER_THREAD ? "per-thread stream" : "default stream");
	else
		put("stream 0x%" PRIx64 "\"}},\n", stream);
	return i + 1;
}

static const char *name_of_kind(enum vcuda_profile_work_kind kind)
{
	switch (kind) {
	case VCUDA_PROFILE_OTHER:
		break;
	case VCUDA_PROFILE_KERNEL:
		return "kernel";
	case VCUDA_PROFILE_GRAPH:
		return "graph";
	case VCUDA_PROFILE_LIBRARY:
		return "library";
	case VCUDA_PROFILE_MEMCPY:
		return "memcpy";
	case VCUDA_PROFILE_MEMSET:
		return "memset";
	}
	return "work";
}

void libcuda_profile_write_work(const struct libcuda_profile_command *c)
{
	const struct vcuda_profile_work *w = &c->work;
	unsigned int stream = number_of_stream(c->stream);
	int pid = DEVICE_PID + (int)getpid();

	begin_event();
	put("{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"", name_of_kind(w->kind));
	put_text(w->name);
	put("\"");
	put_us("ts", w->begin);
	put_us("dur", w->end - w->begin);
	put(",\"pid\":%d,\"tid\":%u,\"args\":{\"command\":%" PRIu64, pid, stream, w->seq);
	if (w->bytes)
		put(",\"bytes\":%" PRIu64, w->bytes);
	put("}},\n");
	if (c->function) {
		put("{\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"launch\",\"name\":\"launch\",\"id\":\"%d.%" PRIu64 "\"",
		    (int)getpid(), w->seq);
		put_us("ts", w->begin);
		put(",\"pid\":%d,\"tid\":%u},\n", pid, stream);
	}
}
