/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of NVIDIA's runtime, which this program plays: doc/reference/private-tables.md. */
#include "cupti.h"

#include <time.h>

struct call {
	uint32_t size, unknown_1;
	uint64_t context_number, stream_number, unknown_2;
	uint64_t *correlation_data;
	uint32_t *result;
	const char *function;
	const void *parameters;
	CUcontext context;
	CUstream stream;
	uint32_t number, is_end;
	const char *symbol;
	uint64_t unknown_3[3];
};

_Static_assert(sizeof(struct call) == 0x78, "the runtime's record");

enum { LAUNCH = 211, GET_DEVICE = 17 };

static struct {
	size_t bytes;
	void (*call)(uint32_t number, struct call *call);
	void (*switches)(uint32_t **switches, size_t *count);
	void (*stream_number)(CUcontext context, CUstream stream, uint64_t *number);
	void (*context_number)(CUcontext context, uint64_t *number);
} const *hooks;

static uint32_t *switches;

static void find_hooks(void)
{
	static const CUuuid uuid = {"\xa0\x94\x79\x8c\x2e\x74\x2e\x74\x93\xf2\x08\x00\x20\x0c\x0a\x66"};
	size_t count;

	OK(cuGetExportTable((const void **)&hooks, &uuid));
	hooks->switches(&switches, &count);
	CHECK(count > LAUNCH);
}

static CUdeviceptr data;

static void launch_kernel(void)
{
	launch(first, 3, 32, 0, data, NULL);
}

static void no_work(void)
{
	CUdevice device;

	OK(cuCtxGetDevice(&device));
}

/* A function of the runtime. */
static void play(uint32_t number, const char *name, void (*work)(void), uint32_t result, uint32_t size)
{
	uint64_t correlation_data = 0;
	uint32_t code = 0;
	int parameters = 4711;
	struct call call = {.size = size,
			    .correlation_data = &correlation_data,
			    .result = &code,
			    .function = name,
			    .parameters = &parameters,
			    .context = context,
			    .number = number,
			    .symbol = number == LAUNCH ? "first" : NULL};

	if (!switches[number]) {
		work();
		return;
	}
	hooks->context_number(context, &call.context_number);
	hooks->stream_number(context, NULL, &call.stream_number);
	hooks->call(number, &call);
	work();
	code = result;
	call.is_end = 1;
	if (switches[number])
		hooks->call(number, &call);
}

static void stop_recording(void)
{
	OK(cuptiActivityDisable(CUPTI_KIND_RUNTIME));
}

/* The records of these calls are below those of the caller. */
static __attribute__((noinline)) void launch_twice(uint32_t size)
{
	volatile char room[512] = {0};

	play(LAUNCH, "cudaLaunchKernel", launch_kernel, 0, size);
	play(LAUNCH, "cudaLaunchKernel", launch_kernel, 0, size);
	(void)room[0];
}

/* The end of a call that is under way when recording stops stays unseen. Later calls have correlations of their own. */
static void test_unseen_end(uint32_t size)
{
	unsigned int calls = count_records(CUPTI_KIND_RUNTIME), kernels;
	const struct cupti_api_record *one, *other;

	OK(cuCtxSynchronize());
	OK(cuptiActivityFlushAll(0));
	kernels = count_records(CUPTI_KIND_KERNEL);
	OK(cuptiActivityEnable(CUPTI_KIND_RUNTIME));
	play(LAUNCH, "cudaLaunchKernel", stop_recording, 0, size);
	OK(cuptiActivityEnable(CUPTI_KIND_RUNTIME));
	launch_twice(size);
	OK(cuCtxSynchronize());
	OK(cuptiActivityFlushAll(0));
	CHECK(count_records(CUPTI_KIND_RUNTIME) == calls + 2 && count_records(CUPTI_KIND_KERNEL) == kernels + 2);
	one = find_record(CUPTI_KIND_RUNTIME, calls);
	other = find_record(CUPTI_KIND_RUNTIME, calls + 1);
	CHECK(one->correlation != other->correlation);
	CHECK(((const struct cupti_kernel_record *)find_record(CUPTI_KIND_KERNEL, kernels))->correlation == one->correlation);
	CHECK(((const struct cupti_kernel_record *)find_record(CUPTI_KIND_KERNEL, kernels + 1))->correlation == other->correlation);
	OK(cuptiActivityDisable(CUPTI_KIND_RUNTIME));
}

/* ---- copies ---- */

#define LARGE (9u << 20)

static char pageable[LARGE];

static void copy_twice(void)
{
	OK(cuMemcpyHtoD_v2(data, pageable, LARGE));
	OK(cuMemcpyHtoD_v2(data, pageable, LARGE - 1));
}

/* Two copies of one call of the runtime are two records, however many pieces both have. */
static void test_copies(uint32_t size)
{
	const struct cupti_memcpy_record *one, *other;

	OK(cuMemAlloc_v2(&data, LARGE));
	OK(cuptiActivityEnable(CUPTI_KIND_RUNTIME));
	OK(cuptiActivityEnable(CUPTI_KIND_MEMCPY));
	play(LAUNCH, "cudaMemcpy", copy_twice, 0, size);
	OK(cuCtxSynchronize());
	OK(cuptiActivityFlushAll(0));
	CHECK(count_records(CUPTI_KIND_MEMCPY) == 2);
	one = find_record(CUPTI_KIND_MEMCPY, 0);
	other = find_record(CUPTI_KIND_MEMCPY, 1);
	CHECK(one->bytes + other->bytes == 2 * LARGE - 1 && one->bytes >= LARGE - 1 && other->bytes >= LARGE - 1);
	CHECK(one->correlation == other->correlation);
	OK(cuptiActivityDisable(CUPTI_KIND_MEMCPY));
	OK(cuptiActivityDisable(CUPTI_KIND_RUNTIME));
}

/* ---- times ---- */

#define FLUSHES 3000
#define STEP_NS 1000000u
#define SLACK_NS (100 * STEP_NS)

/* A clock that goes in steps: two readings that are near do not tell how fast it goes. */
static uint64_t steps(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return ((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec) / STEP_NS * STEP_NS;
}

static uint64_t begun;

/* For 10 times SLACK_NS at least. */
static void flush_often(void)
{
	begun = steps();
	for (int i = 0; i < FLUSHES || steps() < begun + 10 * SLACK_NS; i++)
		OK(cuptiActivityFlushAll(0));
}

/* Clocks are compared often while a call lasts, and its begin has the right time none the less. */
void test_long_call(void)
{
	const struct cupti_api_record *r;
	uint64_t before;

	start_client();
	OK(cuptiActivityRegisterTimestampCallback(steps));
	start_device();
	find_hooks();
	OK(cuptiActivityEnable(CUPTI_KIND_RUNTIME));
	before = steps();
	play(LAUNCH, "cudaLaunchKernel", flush_often, 0, sizeof(struct call));
	OK(cuptiActivityFlushAll(0));
	r = find_record(CUPTI_KIND_RUNTIME, 0);
	CHECK(r && r->start + SLACK_NS >= before && r->start <= begun + SLACK_NS && r->end >= r->start + 9 * SLACK_NS);
}

/* ---- callbacks ---- */

static unsigned int enters, exits;
static uint32_t correlation;

static void see(void *userdata, uint32_t domain, uint32_t id, const void *seen)
{
	const struct cupti_callback_data *d = seen;

	(void)userdata;
	CHECK(domain == CUPTI_DOMAIN_RUNTIME && id == LAUNCH);
	CHECK(!strcmp(d->function, "cudaLaunchKernel_v7000") && !strcmp(d->symbol, "first"));
	CHECK(*(const int *)d->parameters == 4711 && d->context == context && d->context_number);
	if (d->site == CUPTI_SITE_ENTER) {
		enters++;
		*d->correlation_data = 99;
		correlation = d->correlation;
	} else {
		exits++;
		CHECK(*d->correlation_data == 99 && *(const uint32_t *)d->result == 0 && d->correlation == correlation);
	}
}

void test_runtime(void)
{
	const uint32_t size = sizeof(struct call);
	const struct cupti_kernel_record *k;
	const struct cupti_api_record *r;
	subscriber_handle subscriber;

	start_client();
	start_device();
	find_hooks();
	OK(cuMemAlloc_v2(&data, 64));
	CHECK(!switches[LAUNCH] && !switches[GET_DEVICE]);
	OK(cuptiActivityEnable(CUPTI_KIND_RUNTIME));
	OK(cuptiActivityEnable(CUPTI_KIND_DRIVER));
	OK(cuptiActivityEnable(CUPTI_KIND_KERNEL));
	OK(cuptiActivityEnableRuntimeApi(GET_DEVICE, 0));
	CHECK(switches[LAUNCH]);
	play(LAUNCH, "cudaLaunchKernel", launch_kernel, 0, size);
	play(GET_DEVICE, "cudaGetDevice", no_work, 0, size);
	play(LAUNCH, "cudaLaunchKernel", no_work, 98, size);
	/* A record of another runtime is none. */
	play(LAUNCH, "cudaLaunchKernel", no_work, 0, 0x40);
	OK(cuCtxSynchronize());
	OK(cuptiActivityFlushAll(0));
	CHECK(count_records(CUPTI_KIND_RUNTIME) == 2 && count_records(CUPTI_KIND_KERNEL) == 1);
	r = find_record(CUPTI_KIND_RUNTIME, 0);
	k = find_record(CUPTI_KIND_KERNEL, 0);
	CHECK(r->id == LAUNCH && r->start <= r->end && !r->result);
	/* The kernel has its correlation. The calls of the driver within it have no records. */
	CHECK(k->correlation == r->correlation && !find_call(r->correlation));
	r = find_record(CUPTI_KIND_RUNTIME, 1);
	CHECK(r->id == LAUNCH && r->result == 98 && r->correlation != k->correlation);
	OK(cuptiActivityDisable(CUPTI_KIND_RUNTIME));
	CHECK(!switches[LAUNCH]);

	OK(cuptiSubscribe(&subscriber, see, NULL));
	OK(cuptiEnableCallback(1, subscriber, CUPTI_DOMAIN_RUNTIME, LAUNCH));
	play(LAUNCH, "cudaLaunchKernel", launch_kernel, 0, size);
	play(GET_DEVICE, "cudaGetDevice", no_work, 0, size);
	CHECK(enters == 1 && exits == 1);
	OK(cuptiUnsubscribe(subscriber));
	CHECK(!switches[LAUNCH]);
	play(LAUNCH, "cudaLaunchKernel", launch_kernel, 0, size);
	CHECK(enters == 1 && exits == 1);
	test_unseen_end(size);
	test_copies(size);
}
