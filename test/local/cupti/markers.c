/* SPDX-License-Identifier: Apache-2.0 */
/* NVTX, whose part in the program this test plays: records of ranges, and callbacks of its functions. */
#include "cupti.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

typedef void (*any_function)(void);

/* The numbers of NVTX's functions in its tables. */
enum {
	CORE = 1,
	CUDA = 2,
	CORE2 = 5,
	MARK = 2,
	START = 5,
	END = 7,
	PUSH = 9,
	POP = 11,
	NAME_THREAD = 14,
	NAME_STREAM = 5,
	DOMAIN_START = 2,
	DOMAIN_END,
	DOMAIN_PUSH,
	DOMAIN_POP,
	REGISTER = 10,
	CREATE = 12
};

static struct {
	void (*mark)(const char *text);
	uint64_t (*start)(const char *text);
	void (*end)(uint64_t id);
	int (*push)(const char *text);
	int (*pop)(void);
	void (*name_thread)(uint32_t thread, const char *name);
	void (*name_stream)(CUstream stream, const char *name);
} core;

static struct {
	uint64_t (*start)(void *domain, const void *event);
	void (*end)(void *domain, uint64_t id);
	int (*push)(void *domain, const void *event);
	int (*pop)(void *domain);
	void *(*create)(const char *name);
	void *(*register_text)(void *domain, const char *text);
} domains;

static any_function *core_places[16] = {
	[MARK] = (any_function *)&core.mark, [START] = (any_function *)&core.start,
	[END] = (any_function *)&core.end,   [PUSH] = (any_function *)&core.push,
	[POP] = (any_function *)&core.pop,   [NAME_THREAD] = (any_function *)&core.name_thread};
static any_function *cuda_places[16] = {[NAME_STREAM] = (any_function *)&core.name_stream};
static any_function *domain_places[16] = {
	[DOMAIN_START] = (any_function *)&domains.start, [DOMAIN_END] = (any_function *)&domains.end,
	[DOMAIN_PUSH] = (any_function *)&domains.push,   [DOMAIN_POP] = (any_function *)&domains.pop,
	[CREATE] = (any_function *)&domains.create,      [REGISTER] = (any_function *)&domains.register_text};

static int get_functions(int module, any_function ***table, unsigned int *count)
{
	any_function **const tables[] = {[CORE] = core_places, [CUDA] = cuda_places, [CORE2] = domain_places};

	*table = module < (int)(sizeof(tables) / sizeof(tables[0])) ? tables[module] : NULL;
	*count = 16;
	return *table != NULL;
}

static const void *table_of(uint32_t number)
{
	static const struct {
		size_t bytes;
		int (*get_functions)(int module, any_function ***table, unsigned int *count);
	} callbacks = {sizeof(callbacks), get_functions};

	return number == 1 ? &callbacks : NULL;
}

static const void *no_table(uint32_t number)
{
	(void)number;
	return NULL;
}

struct event {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const void *message;
};

static const struct cupti_marker_record *check(unsigned int n, uint32_t flags, const char *name, const char *domain)
{
	const struct cupti_marker_record *m = find_record(CUPTI_KIND_MARKER, n), *before;

	CHECK(m && m->flags == flags && m->id && m->object_kind == CUPTI_OBJECT_THREAD);
	CHECK(m->process == (uint32_t)getpid() && m->thread);
	CHECK(name ? m->name && !strcmp(m->name, name) : !m->name);
	CHECK(domain ? m->domain && !strcmp(m->domain, domain) : !m->domain);
	before = n ? find_record(CUPTI_KIND_MARKER, n - 1) : NULL;
	CHECK(!before || before->time <= m->time);
	return m;
}

static void *end_range(void *id)
{
	core.end(*(uint64_t *)id);
	return NULL;
}

static void inject(void)
{
	int (*start)(const void *(*)(uint32_t));

	*(void **)&start = dlsym(dlopen(LIBCUPTI >= 13 ? "libcupti.so.13" : "libcupti.so.12", RTLD_NOW | RTLD_NOLOAD),
				 "InitializeInjectionNvtx2");
	CHECK(start && !start(no_table) && start(table_of) && core.push && domains.push);
}

void test_markers(void)
{
	struct event event = {.version = 3, .size = sizeof(event), .message_type = 1, .message = "inner"};
	const struct cupti_marker_record *m, *other;
	char text[16] = "outer";
	uint64_t begin, end, id;
	pthread_t thread;
	void *domain;

	inject();
	/* No records yet. */
	CHECK(core.push("before") == 0 && core.pop() == 0);
	start_client();
	OK(cuptiActivityEnable(CUPTI_KIND_MARKER));
	CHECK(!buffers_given);
	OK(cuptiGetTimestamp(&begin));
	CHECK(core.push(text) == 0);
	CHECK(buffers_given == 1);
	/* Records have copies of names. */
	strcpy(text, "changed");
	core.mark("mark");
	domain = domains.create("domain");
	CHECK(domains.push(domain, &event) == 0 && domains.pop(domain) == 0);
	CHECK(core.pop() == 0);
	id = core.start("started");
	CHECK(!pthread_create(&thread, NULL, end_range, &id) && !pthread_join(thread, NULL));
	OK(cuptiGetTimestamp(&end));
	/* Without any CUDA. */
	OK(cuptiActivityFlushAll(0));
	CHECK(count_records(CUPTI_KIND_MARKER) == 7);
	m = check(0, CUPTI_FLAG_MARKER_START, "outer", NULL);
	CHECK(m->time >= begin && m->thread == (uint32_t)gettid());
	other = check(1, CUPTI_FLAG_MARKER_INSTANTANEOUS, "mark", NULL);
	CHECK(other->id != m->id);
	other = check(2, CUPTI_FLAG_MARKER_START, "inner", "domain");
	CHECK(check(3, CUPTI_FLAG_MARKER_END, NULL, "domain")->id == other->id && other->id != m->id);
	CHECK(check(4, CUPTI_FLAG_MARKER_END, NULL, NULL)->id == m->id);
	m = check(5, CUPTI_FLAG_MARKER_START, "started", NULL);
	other = check(6, CUPTI_FLAG_MARKER_END, NULL, NULL);
	CHECK(other->id == m->id && other->thread != m->thread && other->time <= end);
	OK(cuptiActivityDisable(CUPTI_KIND_MARKER));
	CHECK(core.push("after") == 0 && core.pop() == 0);
	OK(cuptiActivityFlushAll(0));
	CHECK(count_records(CUPTI_KIND_MARKER) == 7);
}

/* ---- callbacks ---- */

/* Arguments and result of each function of NVTX that the subscriber was told of. */
static struct nvtx_call {
	uint32_t id;
	uint64_t arguments[2];
	bool has_result;
	uint64_t result;
} told[32];
static unsigned int told_count;
static char user;

/* The function's name says how many arguments it has, and how large its result is. */
static void note_nvtx(void *data, uint32_t domain, uint32_t id, const void *what)
{
	const struct cupti_nvtx_data *call = what;
	struct nvtx_call *c = &told[told_count++];
	bool has_one, is_int;

	CHECK(data == &user && domain == CUPTI_DOMAIN_NVTX && told_count < sizeof(told) / sizeof(told[0]));
	CHECK(call->function && !strncmp(call->function, "nvtx", 4) && call->parameters);
	has_one = strstr(call->function, "RangePop") || strstr(call->function, "MarkA") ||
		  strstr(call->function, "DomainCreateA") || !strcmp(call->function, "nvtxRangePushA") ||
		  !strcmp(call->function, "nvtxRangeStartA") || !strcmp(call->function, "nvtxRangeEnd");
	is_int = strstr(call->function, "RangePush") || strstr(call->function, "RangePop");
	c->id = id;
	memcpy(c->arguments, call->parameters, has_one ? 8 : 16);
	c->has_result = call->result;
	if (call->result)
		memcpy(&c->result, call->result, is_int ? 4 : 8);
}

static void check_nvtx(unsigned int n, uint32_t id, uint64_t one, uint64_t other)
{
	CHECK(n < told_count && told[n].id == id && told[n].arguments[0] == one && told[n].arguments[1] == other);
}

static uint64_t address(const void *pointer)
{
	return (uint64_t)(uintptr_t)pointer;
}

void test_nvtx(void)
{
	struct event event = {.version = 3, .size = sizeof(event), .message_type = 1, .message = "inner"};
	static const char name[] = "name";
	subscriber_handle subscriber;
	void *domain, *text;
	uint32_t enabled;
	uint64_t id;

	inject();
	OK(cuptiSubscribe(&subscriber, note_nvtx, &user));
	core.mark(name);
	CHECK(!told_count);
	OK(cuptiEnableDomain(1, subscriber, CUPTI_DOMAIN_NVTX));
	core.mark(name);
	CHECK(core.push(name) == 0 && core.push(name) == 1 && core.pop() == 1);
	id = core.start(name);
	core.end(id);
	core.name_thread(7, name);
	core.name_stream((CUstream)0x1234, name);
	domain = domains.create(name);
	text = domains.register_text(domain, name);
	CHECK(domain && text && domains.push(domain, &event) == 0 && domains.pop(domain) == 0);
	CHECK(told_count == 12);
	check_nvtx(0, 1, address(name), 0);
	CHECK(!told[0].has_result);
	check_nvtx(1, 8, address(name), 0);
	CHECK(told[1].has_result && told[1].result == 0);
	check_nvtx(2, 8, address(name), 0);
	CHECK(told[2].has_result && told[2].result == 1);
	CHECK(told[3].id == 11 && told[3].has_result && told[3].result == 1);
	check_nvtx(4, 4, address(name), 0);
	CHECK(told[4].has_result && told[4].result == id);
	check_nvtx(5, 7, id, 0);
	check_nvtx(6, 14, 7, address(name));
	check_nvtx(7, 20, 0x1234, address(name));
	check_nvtx(8, 41, address(name), 0);
	CHECK(told[8].result == address(domain));
	check_nvtx(9, 39, address(domain), address(name));
	CHECK(told[9].result == address(text));
	check_nvtx(10, 33, address(domain), address(&event));
	check_nvtx(11, 34, address(domain), 0);
	/* One function alone. */
	OK(cuptiEnableDomain(0, subscriber, CUPTI_DOMAIN_NVTX));
	OK(cuptiEnableCallback(1, subscriber, CUPTI_DOMAIN_NVTX, 11));
	OK(cuptiGetCallbackState(&enabled, subscriber, CUPTI_DOMAIN_NVTX, 11));
	CHECK(enabled);
	core.mark(name);
	CHECK(core.pop() == 0 && told_count == 13 && told[12].id == 11);
	GIVES(cuptiEnableCallback(1, subscriber, CUPTI_DOMAIN_NVTX, 50), CUPTI_ERROR_INVALID_PARAMETER);
	OK(cuptiUnsubscribe(subscriber));
	CHECK(core.push(name) == 0 && core.pop() == 0 && told_count == 13);
}
