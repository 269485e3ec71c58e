/* SPDX-License-Identifier: Apache-2.0 */
#include "cupti.h"

#include <pthread.h>
#include <unistd.h>

static const char ptx[] =
	".version 6.3\n.target sm_50\n.address_size 64\n"
	".visible .entry first(.param .u64 data)\n{\n"
	".reg .pred %p;\n.reg .b32 %r<3>;\n.reg .b64 %rd<2>;\n.shared .align 4 .b8 room[512];\n"
	"ld.param.u64 %rd1, [data];\ncvta.to.global.u64 %rd1, %rd1;\nmov.u32 %r1, 2000;\nmov.u32 %r2, 1;\n"
	"st.shared.u32 [room], %r1;\n"
	"loop:\nmad.lo.s32 %r2, %r2, %r2, %r1;\nadd.s32 %r1, %r1, -1;\n"
	"setp.ne.s32 %p, %r1, 0;\n@%p bra loop;\nst.global.u32 [%rd1], %r2;\nret;\n}\n"
	".visible .entry second(.param .u64 data)\n{\n"
	".reg .b64 %rd<2>;\n.reg .b32 %r<2>;\n"
	"ld.param.u64 %rd1, [data];\ncvta.to.global.u64 %rd1, %rd1;\nmov.u32 %r1, 3;\n"
	"st.global.u32 [%rd1+4], %r1;\nret;\n}\n";

CUcontext context;
CUfunction first, second;
size_t buffer_size = 1 << 16, buffer_most;
_Atomic unsigned int buffers_given, buffers_taken;

/* The library's thread and ours. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *records[1 << 16];
static unsigned int count;

/* ---- buffers ---- */

void give_buffer(uint8_t **buffer, size_t *size, size_t *most)
{
	*buffer = buffer_size ? aligned_alloc(8, (buffer_size + 7) / 8 * 8) : NULL;
	*size = buffer_size;
	*most = buffer_most;
	buffers_given += buffer_size != 0;
}

static void keep(const void *record, size_t size)
{
	pthread_mutex_lock(&lock);
	CHECK(count < sizeof(records) / sizeof(records[0]));
	records[count] = malloc(size);
	memcpy(records[count++], record, size);
	pthread_mutex_unlock(&lock);
}

void take_buffer(CUcontext unused, uint32_t stream, uint8_t *buffer, size_t size, size_t used)
{
	struct cupti_record *record = NULL, *before;

	(void)unused;
	CHECK(!stream && used <= size && size == buffer_size);
	while (before = record, cuptiActivityGetNextRecord(buffer, used, &record) == CUPTI_SUCCESS)
		if (before)
			keep(before, (size_t)((uint8_t *)record - (uint8_t *)before));
	if (before)
		keep(before, (size_t)(buffer + used - (uint8_t *)before));
	free(buffer);
	buffers_taken++;
}

void start_client(void)
{
	OK(cuptiActivityRegisterCallbacks(give_buffer, take_buffer));
}

/* ---- records ---- */

const void *find_record(uint32_t kind, unsigned int n)
{
	const void *found = NULL;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < count && !found; i++)
		if (((struct cupti_record *)records[i])->kind == kind && !n--)
			found = records[i];
	pthread_mutex_unlock(&lock);
	return found;
}

unsigned int count_records(uint32_t kind)
{
	unsigned int n = 0;

	while (find_record(kind, n))
		n++;
	return n;
}

void forget_records(void)
{
	pthread_mutex_lock(&lock);
	while (count)
		free(records[--count]);
	pthread_mutex_unlock(&lock);
}

const struct cupti_api_record *find_call(uint32_t correlation)
{
	const struct cupti_api_record *r;

	for (unsigned int n = 0; (r = find_record(CUPTI_KIND_DRIVER, n)); n++)
		if (r->correlation == correlation)
			return r;
	return NULL;
}

uint32_t number_of(const char *function)
{
	const char *name;

	for (uint32_t i = 1; i < 1024; i++)
		if (cuptiGetCallbackName(CUPTI_DOMAIN_DRIVER, i, &name) == CUPTI_SUCCESS && !strcmp(name, function))
			return i;
	CHECK(!"the function has a number");
	return 0;
}

/* ---- work ---- */

void start_device(void)
{
	CUmodule module;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&first, module, "first"));
	OK(cuModuleGetFunction(&second, module, "second"));
}

void launch(CUfunction function, unsigned int grid, unsigned int block, unsigned int shared, CUdeviceptr data,
	    CUstream stream)
{
	void *params[] = {&data};

	OK(cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, stream, params, NULL));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} all[] = {
		{"records", test_records},     {"graphs", test_graphs},
		{"externals", test_externals}, {"synchronization", test_synchronization},
		{"clock", test_clock},         {"buffers", test_buffers},
		{"callbacks", test_callbacks}, {"subscribers", test_subscribers},
		{"arguments", test_arguments}, {"off", test_off},
		{"finalize", test_finalize},   {"fork", test_fork},
		{"pieces", test_pieces},       {"peers", test_peers},
		{"runtime", test_runtime},     {"locks", test_locks},
		{"clients", test_clients},     {"unsubscribing", test_unsubscribing},
		{"flush", test_flush},         {"long-call", test_long_call},
		{"lost", test_lost},           {"markers", test_markers},
		{"nvtx", test_nvtx},           {"numbers", test_numbers},
	};

	for (size_t i = 0; argc == 2 && i < sizeof(all) / sizeof(all[0]); i++) {
		if (strcmp(all[i].name, argv[1]))
			continue;
		all[i].run();
		printf("%s: passed\n", argv[1]);
		return 0;
	}
	fprintf(stderr, "usage: cupti SCENARIO\n");
	return 2;
}
