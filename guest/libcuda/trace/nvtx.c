/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVTX ranges and marks of the program, for profiles and sinks (profile.h) and for lines of calls (trace.h). NVTX is a
 * set of headers: each library that uses them looks for a tool in the file that NVTX_INJECTION64_PATH names, and calls
 * its InitializeInjectionNvtx2(). `vcuda run` names this library there. The layouts are those of NVTX version 3.
 *
 * All functions are for any thread. What is named or registered stays until the process ends.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "common/deadline.h"
#include "core/hooks.h"
#include "core/request.h"
#include "trace/profile.h"

#define TABLE_CALLBACKS 1

typedef void (*any_function)(void);

enum module { MODULE_CORE = 1, MODULE_CORE2 = 5 };

enum core {
	CORE_MARK_EX = 1,
	CORE_MARK_A,
	CORE_MARK_W,
	CORE_RANGE_START_EX,
	CORE_RANGE_START_A,
	CORE_RANGE_START_W,
	CORE_RANGE_END,
	CORE_RANGE_PUSH_EX,
	CORE_RANGE_PUSH_A,
	CORE_RANGE_PUSH_W,
	CORE_RANGE_POP,
};

enum core2 {
	CORE2_MARK_EX = 1,
	CORE2_RANGE_START_EX,
	CORE2_RANGE_END,
	CORE2_RANGE_PUSH_EX,
	CORE2_RANGE_POP,
	CORE2_REGISTER_STRING_A = 10,
	CORE2_REGISTER_STRING_W,
	CORE2_CREATE_A,
	CORE2_CREATE_W,
};

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

struct callbacks {
	size_t bytes;
	/* `table`: of pointers to the places of functions. */
	int (*get_functions)(int module, any_function ***table, unsigned int *count);
};

/* A pop finds no range. */
#define NO_RANGE (-2)

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

/* A copy; NULL: there is no memory. */
static char *copy_wide(const wchar_t *text)
{
	char name[LIBCUDA_PROFILE_RANGE_NAME + 4];
	size_t n = 0;

	for (; text && *text && n + 4 < LIBCUDA_PROFILE_RANGE_NAME; text++)
		n += put_utf8(name + n, (uint32_t)*text);
	name[n] = 0;
	return strdup(name);
}

static char *copy(const char *text)
{
	return text ? strndup(text, LIBCUDA_PROFILE_RANGE_NAME) : strdup("");
}

static char *name_of(const struct event_attributes *a)
{
	if (!a || a->size < sizeof(*a))
		return copy(NULL);
	switch (a->message_type) {
	case MESSAGE_UNICODE:
		return copy_wide(a->message);
	case MESSAGE_ASCII:
	case MESSAGE_REGISTERED: /* the handle is the string */
		return copy(a->message);
	}
	return copy(NULL);
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

static void mark(const void *domain, char *name)
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

static uint64_t start(const void *domain, char *name)
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

static void end(uint64_t id)
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

/* How many ranges of the domain the thread has pushed. */
static int level_of(const void *domain)
{
	int level = 0;

	for (unsigned int i = 0; i < stack.count; i++)
		level += stack.all[i].domain == domain;
	return level;
}

static int push(const void *domain, char *name)
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

static int pop(const void *domain)
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

/* ---- the functions of NVTX ---- */

static void mark_ex(const struct event_attributes *a)
{
	mark(NULL, name_of(a));
}

static void mark_a(const char *message)
{
	mark(NULL, copy(message));
}

static void mark_w(const wchar_t *message)
{
	mark(NULL, copy_wide(message));
}

static uint64_t start_ex(const struct event_attributes *a)
{
	return start(NULL, name_of(a));
}

static uint64_t start_a(const char *message)
{
	return start(NULL, copy(message));
}

static uint64_t start_w(const wchar_t *message)
{
	return start(NULL, copy_wide(message));
}

static int push_ex(const struct event_attributes *a)
{
	return push(NULL, name_of(a));
}

static int push_a(const char *message)
{
	return push(NULL, copy(message));
}

static int push_w(const wchar_t *message)
{
	return push(NULL, copy_wide(message));
}

static int pop_default(void)
{
	return pop(NULL);
}

static void domain_mark(const void *domain, const struct event_attributes *a)
{
	mark(domain, name_of(a));
}

static uint64_t domain_start(const void *domain, const struct event_attributes *a)
{
	return start(domain, name_of(a));
}

static void domain_end(const void *domain, uint64_t id)
{
	(void)domain;
	end(id);
}

static int domain_push(const void *domain, const struct event_attributes *a)
{
	return push(domain, name_of(a));
}

static void *register_a(const void *domain, const char *text)
{
	(void)domain;
	return copy(text);
}

static void *register_w(const void *domain, const wchar_t *text)
{
	(void)domain;
	return copy_wide(text);
}

/* The handle of a domain is its name. */
static void *create_a(const char *name)
{
	return copy(name);
}

static void *create_w(const wchar_t *name)
{
	return copy_wide(name);
}

static const any_function core[] = {
	[CORE_MARK_EX] = (any_function)mark_ex,       [CORE_MARK_A] = (any_function)mark_a,
	[CORE_MARK_W] = (any_function)mark_w,         [CORE_RANGE_START_EX] = (any_function)start_ex,
	[CORE_RANGE_START_A] = (any_function)start_a, [CORE_RANGE_START_W] = (any_function)start_w,
	[CORE_RANGE_END] = (any_function)end,         [CORE_RANGE_PUSH_EX] = (any_function)push_ex,
	[CORE_RANGE_PUSH_A] = (any_function)push_a,   [CORE_RANGE_PUSH_W] = (any_function)push_w,
	[CORE_RANGE_POP] = (any_function)pop_default,
};

static const any_function core2[] = {
	[CORE2_MARK_EX] = (any_function)domain_mark,
	[CORE2_RANGE_START_EX] = (any_function)domain_start,
	[CORE2_RANGE_END] = (any_function)domain_end,
	[CORE2_RANGE_PUSH_EX] = (any_function)domain_push,
	[CORE2_RANGE_POP] = (any_function)pop,
	[CORE2_REGISTER_STRING_A] = (any_function)register_a,
	[CORE2_REGISTER_STRING_W] = (any_function)register_w,
	[CORE2_CREATE_A] = (any_function)create_a,
	[CORE2_CREATE_W] = (any_function)create_w,
};

/* The program's library may know fewer functions. */
static void subscribe(const struct callbacks *callbacks, enum module module, const any_function *ours,
		      unsigned int count)
{
	any_function **table = NULL;
	unsigned int room = 0;

	if (!callbacks->get_functions(module, &table, &room) || !table)
		return;
	for (unsigned int i = 1; i < count && i < room; i++)
		if (ours[i] && table[i])
			*table[i] = ours[i];
}

/* A thread of the parent may have held the lock. */
static void forget_lock(void)
{
	pthread_mutex_init(&started.lock, NULL);
}

bool libcuda_ranges_observe(const void *(*table_of)(uint32_t))
{
	const struct callbacks *callbacks = table_of(TABLE_CALLBACKS);

	if (!callbacks || callbacks->bytes < sizeof(*callbacks))
		return false;
	pthread_atfork(NULL, NULL, forget_lock);
	subscribe(callbacks, MODULE_CORE, core, sizeof(core) / sizeof(*core));
	subscribe(callbacks, MODULE_CORE2, core2, sizeof(core2) / sizeof(*core2));
	return true;
}
