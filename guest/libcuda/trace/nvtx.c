/* SPDX-License-Identifier: Apache-2.0 */
/* NVTX ranges and marks of the program, for profiles and sinks (profile.h) and for lines of calls (trace.h). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "common/deadline.h"
#include "core/hooks.h"
#include "core/request.h"
#include "trace/nvtx.h"
#include "trace/profile.h"

enum message { MESSAGE_ASCII = 1, MESSAGE_UNICODE, MESSAGE_REGISTERED };

struct event_attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const void *message;
};

/* A pop finds no range. */
#define NO_RANGE (-1)

/* Ranges of the thread that were pushed. */
static __thread struct {
	struct pushed {
		const void *domain; /* NULL: none */
		uint64_t start;
		char *name;
		uint32_t number;
	} * all;
	unsigned int count, room;
} stack;

/* ---- names ---- */

static size_t put_utf8(char *to, uint32_t c)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 0x3f));
		to[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | (c >> 18 & 7));
	to[1] = (char)(0x80 | (c >> 12 & 0x3f));
	to[2] = (char)(0x80 | (c >> 6 & 0x3f));
	to[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

char *libcuda_nvtx_copy_wide(const wchar_t *text)
{
	char name[LIBCUDA_PROFILE_RANGE_NAME + 4];
	size_t n = 0;

	for (; text && *text && n + 4 < LIBCUDA_PROFILE_RANGE_NAME; text++)
		n += put_utf8(name + n, (uint32_t)*text);
	name[n] = 0;
	return strdup(name);
}

char *libcuda_nvtx_copy(const char *text)
{
	return text ? strndup(text, LIBCUDA_PROFILE_RANGE_NAME) : strdup("");
}

char *libcuda_nvtx_name(const void *attributes)
{
	const struct event_attributes *a = attributes;

	if (!a || a->size < sizeof(*a))
		return libcuda_nvtx_copy(NULL);
	switch (a->message_type) {
	case MESSAGE_UNICODE:
		return libcuda_nvtx_copy_wide(a->message);
	case MESSAGE_ASCII:
	case MESSAGE_REGISTERED: /* the handle is the string */
		return libcuda_nvtx_copy(a->message);
	}
	return libcuda_nvtx_copy(NULL);
}

/* ---- ranges; each takes its name over ---- */

static void tell(const char *what, const char *name)
{
	char shown[2 * LIBCUDA_PROFILE_RANGE_NAME + 1];
	size_t n = 0;

	if (!libcuda_hook_note)
		return;
	for (; name && *name; name++) {
		if (*name == '"' || *name == '\\')
			shown[n++] = '\\';
		shown[n++] = *name == '\n' ? ' ' : *name;
	}
	shown[n] = 0;
	libcuda_hook_note("nvtx %s \"%s\"", what, shown);
}

/* Counts ranges and marks. The last number given out. */
static _Atomic uint32_t numbers;

/* 0 is no number. */
static uint32_t next_number(void)
{
	uint32_t number = ++numbers;

	return number ? number : ++numbers;
}

static void tell_sink(enum vcuda_profile_marker_kind kind, uint32_t number, uint64_t time, const char *name,
		      const char *domain)
{
	const struct vcuda_profile_sink *sink =
		libcuda_profile_watched() & VCUDA_PROFILE_MARKERS ? libcuda_profile_sink() : NULL;

	if (sink)
		sink->marker(&(struct vcuda_profile_marker){kind, number, time, name, domain});
}

void libcuda_nvtx_mark(const void *domain, char *name)
{
	uint64_t now = vcuda_now_ns();

	tell("mark", name);
	tell_sink(VCUDA_PROFILE_MOMENT, next_number(), now, name, domain);
	libcuda_profile_add_range(&(struct libcuda_profile_range){
		.kind = LIBCUDA_PROFILE_MARK, .start = now, .name = name, .domain = domain});
}

/* Ranges that were started. Their ids are numbers: a program may end one twice. */
struct started {
	uint64_t id;
	const void *domain;
	uint64_t start;
	char *name;
	uint32_t number;
	struct started *next;
};

static struct {
	pthread_mutex_t lock;
	struct started *all[256]; /* by the id's last bits */
	uint64_t last_id;
} started = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct started **bucket_of(uint64_t id)
{
	return &started.all[id % (sizeof(started.all) / sizeof(*started.all))];
}

uint64_t libcuda_nvtx_start(const void *domain, char *name)
{
	struct started *range = malloc(sizeof(*range));
	uint64_t id, now = vcuda_now_ns();
	uint32_t number = next_number();

	tell("start", name);
	if (!range) {
		free(name);
		return 0;
	}
	tell_sink(VCUDA_PROFILE_BEGIN, number, now, name, domain);
	pthread_mutex_lock(&started.lock);
	id = ++started.last_id;
	*range = (struct started){id, domain, now, name, number, *bucket_of(id)};
	*bucket_of(id) = range;
	pthread_mutex_unlock(&started.lock);
	return id;
}

/* NULL: no such range has been started, or it has been ended. */
static struct started *take_started(uint64_t id)
{
	struct started **at, *range;

	pthread_mutex_lock(&started.lock);
	for (at = bucket_of(id); *at && (*at)->id != id; at = &(*at)->next)
		continue;
	range = *at;
	if (range)
		*at = range->next;
	pthread_mutex_unlock(&started.lock);
	return range;
}

void libcuda_nvtx_end(uint64_t id)
{
	struct started *range = take_started(id);
	uint64_t now = vcuda_now_ns();

	if (!range)
		return;
	tell("end", range->name);
	tell_sink(VCUDA_PROFILE_END, range->number, now, range->name, range->domain);
	libcuda_profile_add_range(&(struct libcuda_profile_range){.kind = LIBCUDA_PROFILE_STARTED,
								  .start = range->start,
								  .ns = now - range->start,
								  .name = range->name,
								  .domain = range->domain});
	free(range);
}

/* The number of ranges of the domain that the thread has pushed. */
static int level_of(const void *domain)
{
	int level = 0;

	for (unsigned int i = 0; i < stack.count; i++)
		level += stack.all[i].domain == domain;
	return level;
}

int libcuda_nvtx_push(const void *domain, char *name)
{
	int level = level_of(domain);
	struct pushed *more = stack.all;
	uint32_t number;
	uint64_t now;

	tell("push", name);
	if (stack.count == stack.room) {
		more = realloc(stack.all, (2 * stack.room + 16) * sizeof(*more));
		if (!more) {
			free(name);
			return NO_RANGE;
		}
		stack.all = more;
		stack.room = 2 * stack.room + 16;
	}
	now = vcuda_now_ns();
	number = next_number();
	stack.all[stack.count++] = (struct pushed){domain, now, name, number};
	tell_sink(VCUDA_PROFILE_BEGIN, number, now, name, domain);
	return level;
}

int libcuda_nvtx_pop(const void *domain)
{
	uint64_t now = vcuda_now_ns();
	unsigned int i = stack.count;
	struct pushed range;

	while (i && stack.all[i - 1].domain != domain)
		i--;
	if (!i)
		return NO_RANGE;
	range = stack.all[i - 1];
	memmove(&stack.all[i - 1], &stack.all[i], (stack.count - i) * sizeof(*stack.all));
	stack.count--;
	tell("pop", range.name);
	tell_sink(VCUDA_PROFILE_END, range.number, now, range.name, domain);
	libcuda_profile_add_range(&(struct libcuda_profile_range){.kind = LIBCUDA_PROFILE_PUSHED,
								  .start = range.start,
								  .ns = now - range.start,
								  .name = range.name,
								  .domain = range.domain});
	if (!stack.count) {
		free(stack.all);
		stack.all = NULL;
		stack.room = 0;
	}
	return level_of(domain);
}

/* A thread of the parent may have held the lock. */
static void forget_lock(void)
{
	pthread_mutex_init(&started.lock, NULL);
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forget_lock);
}

void libcuda_nvtx_begin(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
}
