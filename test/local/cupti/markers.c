/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of NVTX, whose part in the program this test plays. */
#include "cupti.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

typedef void (*any_function)(void);

/* The numbers of NVTX's functions in its tables. */
enum {
	CORE = 1,
	CORE2 = 5,
	MARK = 2,
	START = 5,
	END = 7,
	PUSH = 9,
	POP = 11,
	DOMAIN_PUSH = 4,
	DOMAIN_POP,
	CREATE = 12
};

static struct {
	void (*mark)(const char *text);
	uint64_t (*start)(const char *text);
	void (*end)(uint64_t id);
	int (*push)(const char *text);
	int (*pop)(void);
} core;

static struct {
	int (*push)(void *domain, const void *event);
	int (*pop)(void *domain);
	void *(*create)(const char *name);
} domains;

static any_function *core_places[16] = {[MARK] = (any_function *)&core.mark,
					[START] = (any_function *)&core.start,
					[END] = (any_function *)&core.end,
					[PUSH] = (any_function *)&core.push,
					[POP] = (any_function *)&core.pop};
static any_function *domain_places[16] = {[DOMAIN_PUSH] = (any_function *)&domains.push,
					  [DOMAIN_POP] = (any_function *)&domains.pop,
					  [CREATE] = (any_function *)&domains.create};

static int get_functions(int module, any_function ***table, unsigned int *count)
{
	*table = module == CORE ? core_places : module == CORE2 ? domain_places : NULL;
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

void test_markers(void)
{
	struct event event = {.version = 3, .size = sizeof(event), .message_type = 1, .message = "inner"};
	const struct cupti_marker_record *m, *other;
	int (*inject)(const void *(*)(uint32_t));
	char text[16] = "outer";
	uint64_t begin, end, id;
	pthread_t thread;
	void *domain;

	*(void **)&inject = dlsym(dlopen(LIBCUPTI >= 13 ? "libcupti.so.13" : "libcupti.so.12", RTLD_NOW | RTLD_NOLOAD),
				  "InitializeInjectionNvtx2");
	CHECK(inject && !inject(no_table) && inject(table_of) && core.push && domains.push);
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
