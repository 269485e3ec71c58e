/* SPDX-License-Identifier: Apache-2.0 */
#include "cupti.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "common/log.h"

const struct vcuda_log_program vcuda_log_program = {.name = "vcuda", .variable = "VCUDA_LOG"};

_Thread_local unsigned int cupti_in_client;

static _Thread_local cupti_result last_error;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(const struct vcuda_profile_table *) recorder;
static bool has_said, detaches_in_children;

cupti_result cupti_done(cupti_result result)
{
	if (result != CUPTI_SUCCESS)
		last_error = result;
	return result;
}

CUPTI_EXPORT cupti_result cuptiGetLastError(void)
{
	cupti_result result = last_error;

	last_error = CUPTI_SUCCESS;
	return result;
}

/* ---- the sink ---- */

static uint32_t number_of(const struct vcuda_profile_site *site)
{
	return site->domain == VCUDA_PROFILE_RUNTIME ? site->call
						     : cupti_driver_number(cupti_recorder_attached(), site->call);
}

/* 16 bits of the device, and of the context. */
static uint64_t end_of(CUcontext context)
{
	const struct vcuda_profile_table *table = cupti_recorder_attached();
	CUdevice device = 0;
	uint32_t number = 0;

	if (table && context && table->context_device(context, &device) == CUDA_SUCCESS)
		table->context_number(context, &number);
	return (uint64_t)(device & 0xffff) | (uint64_t)(number & 0xffff) << 16;
}

static void note_peers(struct vcuda_profile_site *site)
{
	const struct {
		CUdeviceptr destination;
		CUcontext to;
		CUdeviceptr source;
		CUcontext from;
	} *copy = site->parameters;

	if (site->domain != VCUDA_PROFILE_DRIVER ||
	    (!cupti_is_function(site->name, "cuMemcpyPeer") && !cupti_is_function(site->name, "cuMemcpyPeerAsync")))
		return;
	site->tags.wanted |= CUPTI_TAG_PEER;
	site->tags.detail = end_of(copy->from) | end_of(copy->to) << 32;
}

static void enter(struct vcuda_profile_site *site)
{
	uint32_t number = number_of(site);
	bool has_record = number && cupti_activity_has_call(site->domain, number);
	uint64_t wanted = cupti_activity_kinds();

	if (wanted || has_record)
		cupti_buffer_prepare();
	if (strstr(site->name, "Async") || cupti_is_function(site->name, "cuGraphLaunch") ||
	    site->domain != VCUDA_PROFILE_DRIVER)
		wanted |= CUPTI_TAG_ASYNC;
	site->tags.wanted = wanted;
	site->is_noted = has_record || wanted & (1ull << CUPTI_KIND_SYNCHRONIZATION | 1ull << CUPTI_KIND_CUDA_EVENT);
	/* The call is wanted for itself. */
	if (!has_record)
		site->tags.wanted &= ~(1ull << CUPTI_KIND_DRIVER | 1ull << CUPTI_KIND_RUNTIME);
	else
		site->tags.wanted |= 1ull << CUPTI_KIND_DRIVER | 1ull << CUPTI_KIND_RUNTIME;
	if (wanted >> CUPTI_KIND_EXTERNAL_CORRELATION & 1)
		cupti_external_read(&site->tags);
	if (wanted >> CUPTI_KIND_MEMCPY2 & 1)
		note_peers(site);
	cupti_resource_enter(site);
	if (number)
		cupti_callback_enter(site, number);
}

static void leave(struct vcuda_profile_site *site)
{
	uint32_t number = number_of(site);

	if (number)
		cupti_callback_leave(site, number);
	cupti_resource_leave(site);
}

static void round_ends(void)
{
	cupti_buffer_deliver(false);
}

static const struct vcuda_profile_sink sink = {
	.enter = enter,
	.leave = leave,
	.call = cupti_record_call,
	.work = cupti_record_work,
	.marker = cupti_record_marker,
	.nvtx = cupti_nvtx_called,
	.round = round_ends,
	.lost = cupti_buffer_drop,
};

/* ---- attaching ---- */

/* In a forked child, whose parent's threads may have held locks. */
static void forget(void)
{
	pthread_mutex_init(&lock, NULL);
	cupti_record_fork();
	cupti_text_fork();
	cupti_buffer_forget();
	cupti_clock_forget();
	cupti_pieces_forget();
	cupti_activity_forget();
	cupti_callback_forget();
	cupti_resource_forget();
}

/* The child has no CUDA where its parent had, and what it records is its own. */
static void detach_in_child(void)
{
	const struct vcuda_profile_table *table = atomic_load(&recorder);

	if (table)
		table->detach();
	atomic_store(&recorder, NULL);
}

/* Another thread may be in the library before it is attached. */
__attribute__((constructor)) static void observe_forks(void)
{
	pthread_atfork(NULL, NULL, forget);
}

const struct vcuda_profile_table *cupti_recorder_find(void)
{
	static const uint8_t bytes[] = VCUDA_PROFILE_TABLE_UUID;
	CUresult (*get_table)(const void **, const CUuuid *) = NULL;
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	const struct vcuda_profile_table *table = NULL;
	CUuuid uuid;

	memcpy(uuid.bytes, bytes, sizeof(bytes));
	if (library)
		get_table = (CUresult(*)(const void **, const CUuuid *))dlsym(library, "cuGetExportTable");
	if (!get_table || get_table((const void **)&table, &uuid) != CUDA_SUCCESS)
		table = NULL;
	if (table && table->bytes != sizeof(*table))
		table = NULL;
	if (!table && !has_said)
		vcuda_log("libcupti: libcuda.so.1 %s: nothing can be recorded",
			  library ? "is not virtio-cuda's, or of another version" : "cannot be loaded");
	has_said |= !table;
	return table;
}

static const struct vcuda_profile_table *attach(void)
{
	const struct vcuda_profile_table *table = cupti_recorder_find();
	int error = table ? table->attach(&sink) : 0;

	if (error)
		vcuda_log("libcupti: %s",
			  error == -EBUSY ? "another tool records this process" : "there is no memory for a record");
	if (error || !table)
		return NULL;
	/* After the handlers of the recorder, whose locks are free then. */
	if (!detaches_in_children)
		pthread_atfork(NULL, NULL, detach_in_child);
	detaches_in_children = true;
	cupti_clock_start();
	atomic_store(&recorder, table);
	return table;
}

const struct vcuda_profile_table *cupti_recorder(void)
{
	const struct vcuda_profile_table *table;

	pthread_mutex_lock(&lock);
	table = atomic_load(&recorder);
	if (!table)
		table = attach();
	pthread_mutex_unlock(&lock);
	return table;
}

const struct vcuda_profile_table *cupti_recorder_attached(void)
{
	return atomic_load(&recorder);
}

/* Kinds of records that nodes of graphs have. */
#define NODE_KINDS                                                                                                     \
	(1ull << CUPTI_KIND_KERNEL | 1ull << CUPTI_KIND_CONCURRENT_KERNEL | 1ull << CUPTI_KIND_MEMCPY |                \
	 1ull << CUPTI_KIND_MEMCPY2 | 1ull << CUPTI_KIND_MEMSET)

void cupti_recorder_watch(void)
{
	const struct vcuda_profile_table *table = cupti_recorder_attached();
	uint32_t what = 0;

	for (uint32_t domain = CUPTI_DOMAIN_DRIVER; domain <= CUPTI_DOMAIN_SYNCHRONIZE; domain++)
		what |= cupti_callback_is_on(domain) ? VCUDA_PROFILE_CALLS : 0;
	if (cupti_callback_is_on(CUPTI_DOMAIN_RUNTIME) || cupti_activity_has_calls(CUPTI_DOMAIN_RUNTIME))
		what |= VCUDA_PROFILE_RUNTIME_CALLS;
	if (cupti_activity_is_any_on())
		what |= VCUDA_PROFILE_WORK;
	if (cupti_activity_is_on(CUPTI_KIND_MARKER))
		what |= VCUDA_PROFILE_MARKERS;
	if (cupti_callback_is_on(CUPTI_DOMAIN_NVTX))
		what |= VCUDA_PROFILE_NVTX;
	if (cupti_activity_kinds() & NODE_KINDS && !cupti_activity_is_on(CUPTI_KIND_GRAPH_TRACE))
		what |= VCUDA_PROFILE_NODES;
	if (table)
		table->watch(what);
}

/* All ends but the subscriber's handle: what was recorded is handed over. Works in a callback, too. */
CUPTI_EXPORT cupti_result cuptiFinalize(void)
{
	const struct vcuda_profile_table *table = cupti_recorder_attached();

	if (cupti_in_client)
		return cupti_done(CUPTI_ERROR_INVALID_OPERATION);
	cupti_activity_stop();
	cupti_callback_stop();
	cupti_recorder_watch();
	if (table)
		table->flush();
	cupti_buffer_deliver(true);
	cupti_buffer_wait();
	pthread_mutex_lock(&lock);
	if (table && atomic_load(&recorder) == table) {
		table->detach();
		atomic_store(&recorder, NULL);
	}
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

CUPTI_EXPORT cupti_result cuptiGetVersion(uint32_t *version)
{
	if (!version)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	*version = CUPTI_VERSION;
	return CUPTI_SUCCESS;
}
