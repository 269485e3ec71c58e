/* SPDX-License-Identifier: Apache-2.0 */
/* Records of what the recorder tells. */
#include "cupti.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "common/deadline.h"

static bool is_wanted(uint64_t wanted, uint32_t kind)
{
	return wanted >> kind & 1;
}

/* ---- devices and contexts ---- */

#define MOST_SEEN 256u

/* The numbers of devices, and of contexts plus 1 << 16, that have records already. */
static struct {
	pthread_mutex_t lock;
	uint32_t all[MOST_SEEN];
	unsigned int count;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

void cupti_record_fork(void)
{
	pthread_mutex_init(&seen.lock, NULL);
	seen.count = 0;
}

void cupti_record_forget(void)
{
	pthread_mutex_lock(&seen.lock);
	seen.count = 0;
	pthread_mutex_unlock(&seen.lock);
}

static bool is_new(uint32_t number)
{
	unsigned int i = 0;

	pthread_mutex_lock(&seen.lock);
	while (i < seen.count && seen.all[i] != number)
		i++;
	if (i == seen.count && i < MOST_SEEN)
		seen.all[seen.count++] = number;
	else
		i = MOST_SEEN;
	pthread_mutex_unlock(&seen.lock);
	return i < MOST_SEEN;
}

static uint32_t attribute(uint32_t device, CUdevice_attribute which)
{
	const struct vcuda_profile_table *recorder = cupti_recorder_attached();
	int value = 0;

	return recorder && recorder->device_attribute((CUdevice)device, which, &value) == CUDA_SUCCESS ? (uint32_t)value
												       : 0;
}

/* Unknown values are 0. */
static void add_device(uint32_t device)
{
#define A(name) attribute(device, CU_DEVICE_ATTRIBUTE_##name)
	const struct vcuda_profile_table *recorder = cupti_recorder_attached();
	const vcuda_device_info *info = recorder ? recorder->device_info((CUdevice)device) : NULL;
	struct cupti_device_record r = {
		.kind = CUPTI_KIND_DEVICE,
		.flags = A(CONCURRENT_KERNELS),
		/* kHz of a bus of bits, which moves twice a cycle: kbyte/s */
		.memory_bandwidth = (uint64_t)A(MEMORY_CLOCK_RATE) * 2 * A(GLOBAL_MEMORY_BUS_WIDTH) / 8,
		.memory_bytes = info ? info->total_memory : 0,
		.constant_bytes = A(TOTAL_CONSTANT_MEMORY),
		.l2_bytes = A(L2_CACHE_SIZE),
		.warp_size = A(WARP_SIZE),
		.clock_khz = A(CLOCK_RATE),
		.copy_engines = A(ASYNC_ENGINE_COUNT),
		.multiprocessors = A(MULTIPROCESSOR_COUNT),
		.warps_per_multiprocessor = A(MAX_THREADS_PER_MULTIPROCESSOR) / (A(WARP_SIZE) ? A(WARP_SIZE) : 1),
		.blocks_per_multiprocessor = A(MAX_BLOCKS_PER_MULTIPROCESSOR),
		.shared_per_multiprocessor = A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
		.registers_per_multiprocessor = A(MAX_REGISTERS_PER_MULTIPROCESSOR),
		.registers_per_block = A(MAX_REGISTERS_PER_BLOCK),
		.shared_per_block = A(MAX_SHARED_MEMORY_PER_BLOCK),
		.threads_per_block = A(MAX_THREADS_PER_BLOCK),
		.block_x = A(MAX_BLOCK_DIM_X),
		.block_y = A(MAX_BLOCK_DIM_Y),
		.block_z = A(MAX_BLOCK_DIM_Z),
		.grid_x = A(MAX_GRID_DIM_X),
		.grid_y = A(MAX_GRID_DIM_Y),
		.grid_z = A(MAX_GRID_DIM_Z),
		.capability_major = A(COMPUTE_CAPABILITY_MAJOR),
		.capability_minor = A(COMPUTE_CAPABILITY_MINOR),
		.id = device,
		.ecc_enabled = A(ECC_ENABLED),
		.name = info ? info->name : "",
		.is_visible = 1,
	};
#undef A

	if (info)
		memcpy(r.uuid, info->uuid.bytes, sizeof(r.uuid));
	cupti_buffer_add(&r);
}

static void note_context(const struct vcuda_profile_work *w)
{
	const uint64_t wanted = w->wanted;
	const uint32_t context = w->context, device = w->device;
	struct cupti_context_record r = {
		.kind = CUPTI_KIND_CONTEXT,
		.context = context,
		.device = device,
		.api = CUPTI_API_CUDA,
		.null_stream = (uint16_t)w->null_stream,
		.multiprocessors = (uint16_t)attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
#if LIBCUPTI >= 13
		.process = (uint64_t)getpid(),
#endif
	};

	if (is_wanted(wanted, CUPTI_KIND_DEVICE) && is_new(device))
		add_device(device);
	if (is_wanted(wanted, CUPTI_KIND_CONTEXT) && is_new(context | 1u << 16))
		cupti_buffer_add(&r);
}

/* ---- calls ---- */

static void add_externals(const struct vcuda_profile_note *note)
{
	struct cupti_external_record r = {.kind = CUPTI_KIND_EXTERNAL_CORRELATION, .correlation = note->correlation};

	for (uint32_t kind = 1; kind < CUPTI_EXTERNALS; kind++) {
		if (!(note->tags.external_kinds >> kind & 1))
			continue;
		r.external_kind = kind;
		r.external = note->tags.external[kind];
		cupti_buffer_add(&r);
	}
}

/*
 * NVIDIA's library has no records of the driver's calls within a call of the runtime, and none of cuGetProcAddress()
 * (asked on an H200, CUPTI 13.0).
 */
static bool has_record(const struct vcuda_profile_note *note, const char *name)
{
	return is_wanted(note->tags.wanted, CUPTI_KIND_DRIVER) && !note->is_inner &&
	       !cupti_is_function(name, "cuGetProcAddress");
}

static void add_call(const struct vcuda_profile_note *note, uint32_t number)
{
	const struct cupti_api_record r = {
		.kind = note->domain == VCUDA_PROFILE_RUNTIME ? CUPTI_KIND_RUNTIME : CUPTI_KIND_DRIVER,
		.id = number,
		.start = note->start,
		.end = note->end,
		.process = (uint32_t)getpid(),
		.thread = (uint32_t)note->tid,
		.correlation = note->correlation,
		.result = (uint32_t)note->result,
	};

	if (is_wanted(note->tags.wanted, CUPTI_KIND_EXTERNAL_CORRELATION))
		add_externals(note);
	cupti_buffer_add(&r);
}

/* ---- events ---- */

#define MOST_EVENTS 1024u

/* The number of an event's last record, by which waits name it. One thread at a time. */
static struct {
	uint32_t event;
	uint64_t number;
} events[MOST_EVENTS];
static uint64_t event_records;

static uint64_t *number_of_event(uint32_t event)
{
	unsigned int at = event % MOST_EVENTS;

	if (events[at].event != event) {
		events[at].event = event;
		events[at].number = 0;
	}
	return &events[at].number;
}

static void add_event(const struct vcuda_profile_note *note)
{
	uint64_t *number = number_of_event(note->event);
	struct cupti_event_record r = {
		.kind = CUPTI_KIND_CUDA_EVENT,
		.correlation = note->correlation,
		.context = note->context,
		.stream = note->stream,
		.event = note->event,
		.event_sync = ++event_records,
	};

	*number = event_records;
	cupti_buffer_add(&r);
}

static enum cupti_synchronization type_of(const char *name)
{
	if (cupti_is_function(name, "cuEventSynchronize") || cupti_is_function(name, "cuEventQuery"))
		return CUPTI_SYNC_EVENT;
	if (cupti_is_function(name, "cuStreamWaitEvent"))
		return CUPTI_SYNC_STREAM_WAIT_EVENT;
	if (cupti_is_function(name, "cuStreamSynchronize") || cupti_is_function(name, "cuStreamQuery"))
		return CUPTI_SYNC_STREAM;
	return cupti_is_function(name, "cuCtxSynchronize") ? CUPTI_SYNC_CONTEXT : 0;
}

static void add_synchronization(const struct vcuda_profile_note *note, enum cupti_synchronization type)
{
	bool has_event = type == CUPTI_SYNC_EVENT || type == CUPTI_SYNC_STREAM_WAIT_EVENT;
	const struct cupti_synchronization_record r = {
		.kind = CUPTI_KIND_SYNCHRONIZATION,
		.type = type,
		.start = note->start,
		.end = note->end,
		.correlation = note->correlation,
		.context = note->context,
		.stream = type == CUPTI_SYNC_EVENT || type == CUPTI_SYNC_CONTEXT ? CUPTI_SYNC_NONE : note->stream,
		.event = has_event ? note->event : CUPTI_SYNC_NONE,
		.event_sync = has_event ? *number_of_event(note->event) : CUPTI_SYNC_NONE,
		.result = (uint32_t)note->result,
	};

	cupti_buffer_add(&r);
}

void cupti_record_call(const struct vcuda_profile_note *note)
{
	const struct vcuda_profile_table *recorder = cupti_recorder_attached();
	uint32_t number = note->call;
	const char *name = "";

	if (!recorder)
		return;
	if (note->domain == VCUDA_PROFILE_DRIVER) {
		number = cupti_driver_number(recorder, note->call);
		name = recorder->call_name(note->call);
	}
	if (is_wanted(note->tags.wanted, CUPTI_KIND_GRAPH_TRACE) && note->nodes)
		cupti_pieces_end(note->copy, note->nodes);
	else if (note->pieces)
		cupti_pieces_end(note->copy, note->pieces);
	if (has_record(note, name))
		add_call(note, number);
	if (is_wanted(note->tags.wanted, CUPTI_KIND_CUDA_EVENT) && note->event && !note->result &&
	    (cupti_is_function(name, "cuEventRecord") || cupti_is_function(name, "cuEventRecordWithFlags")))
		add_event(note);
	if (is_wanted(note->tags.wanted, CUPTI_KIND_SYNCHRONIZATION) && type_of(name))
		add_synchronization(note, type_of(name));
}

void cupti_record_flush(uint64_t start)
{
	struct cupti_overhead_record r = {
		.kind = CUPTI_KIND_OVERHEAD,
		.overhead_kind = CUPTI_OVERHEAD_BUFFER_FLUSH,
		.object_kind = CUPTI_OBJECT_THREAD,
		.process = (uint32_t)getpid(),
		.thread = (uint32_t)gettid(),
	};

	if (!cupti_activity_is_on(CUPTI_KIND_OVERHEAD))
		return;
	r.start = start;
	r.end = vcuda_now_ns();
	cupti_buffer_add(&r);
}

static uint32_t marker_flag(enum vcuda_profile_marker_kind kind)
{
	switch (kind) {
	case VCUDA_PROFILE_BEGIN:
		return CUPTI_FLAG_MARKER_START;
	case VCUDA_PROFILE_END:
		return CUPTI_FLAG_MARKER_END;
	case VCUDA_PROFILE_MOMENT:
		return CUPTI_FLAG_MARKER_INSTANTANEOUS;
	}
	return 0;
}

void cupti_record_marker(const struct vcuda_profile_marker *m)
{
	const struct cupti_marker_record r = {
		.kind = CUPTI_KIND_MARKER,
		.flags = marker_flag(m->kind),
		.time = m->time,
		.id = m->number,
		.object_kind = CUPTI_OBJECT_THREAD,
		.process = (uint32_t)getpid(),
		.thread = (uint32_t)gettid(),
		.name = m->kind == VCUDA_PROFILE_END ? NULL : cupti_text_keep(m->name),
		.domain = m->domain,
	};

	if (!cupti_activity_is_on(CUPTI_KIND_MARKER))
		return;
	cupti_buffer_prepare();
	cupti_buffer_add(&r);
}

/* ---- work of the device ---- */

/* The members of a record for the graph whose node the work is. */
#if LIBCUPTI >= 13
#define GRAPH_OF(w)                                                                                                    \
	.graph_node = (w)->of.node, .graph = (w)->of.graph, .source_graph_node = (w)->of.source_node,                  \
	.source_graph = (w)->of.source_graph
#else
#define GRAPH_OF(w) .graph_node = (w)->of.node, .graph = (w)->of.graph
#endif

static uint32_t kernel_kind(uint64_t wanted)
{
	if (is_wanted(wanted, CUPTI_KIND_CONCURRENT_KERNEL))
		return CUPTI_KIND_CONCURRENT_KERNEL;
	return is_wanted(wanted, CUPTI_KIND_KERNEL) ? CUPTI_KIND_KERNEL : 0;
}

/* The sizes of graphs and of library calls are not known. */
static int32_t dimension(uint32_t size)
{
	return size ? (int32_t)size : 1;
}

static void add_kernel(const struct vcuda_profile_work *w)
{
	const struct cupti_kernel_record r = {
		.kind = kernel_kind(w->wanted),
		.registers_per_thread = (uint16_t)w->registers,
		.start = w->begin,
		.end = w->end,
		.completed = w->end,
		.device = w->device,
		.context = w->context,
		.stream = w->stream,
		.grid_x = dimension(w->grid[0]),
		.grid_y = dimension(w->grid[1]),
		.grid_z = dimension(w->grid[2]),
		.block_x = dimension(w->block[0]),
		.block_y = dimension(w->block[1]),
		.block_z = dimension(w->block[2]),
		.static_shared_memory = (int32_t)w->static_shared_bytes,
		.dynamic_shared_memory = (int32_t)w->shared_bytes,
		.local_memory_per_thread = w->local_bytes,
		.correlation = w->correlation,
		.grid_id = (int64_t)w->seq,
		.name = w->name,
		.launch_type = w->is_cooperative,
		.shared_memory_executed = w->static_shared_bytes + w->shared_bytes,
		GRAPH_OF(w),
		.channel_type = CUPTI_CHANNEL_COMPUTE,
		.cluster_x = w->cluster[0],
		.cluster_y = w->cluster[1],
		.cluster_z = w->cluster[2],
	};

	cupti_buffer_add(&r);
}

static uint8_t memory_kind(enum vcuda_profile_memory memory)
{
	switch (memory) {
	case VCUDA_PROFILE_PAGEABLE:
		return CUPTI_MEMORY_PAGEABLE;
	case VCUDA_PROFILE_PINNED:
		return CUPTI_MEMORY_PINNED;
	case VCUDA_PROFILE_DEVICE_MEMORY:
		return CUPTI_MEMORY_DEVICE;
	case VCUDA_PROFILE_ARRAY:
		return CUPTI_MEMORY_ARRAY;
	case VCUDA_PROFILE_NO_MEMORY:
		break;
	}
	return 0;
}

static uint8_t copy_kind(uint8_t from, uint8_t to)
{
	static const uint8_t kinds[3][3] = {
		{CUPTI_COPY_HTOH, CUPTI_COPY_HTOD, CUPTI_COPY_HTOA},
		{CUPTI_COPY_DTOH, CUPTI_COPY_DTOD, CUPTI_COPY_DTOA},
		{CUPTI_COPY_ATOH, CUPTI_COPY_ATOD, CUPTI_COPY_ATOA},
	};
	static const uint8_t places[] = {[CUPTI_MEMORY_PAGEABLE] = 0,
					 [CUPTI_MEMORY_PINNED] = 0,
					 [CUPTI_MEMORY_DEVICE] = 1,
					 [CUPTI_MEMORY_ARRAY] = 2};

	return kinds[places[from]][places[to]];
}

static void add_copy(const struct vcuda_profile_work *w)
{
	const uint8_t from = memory_kind(w->from), to = memory_kind(w->to);
	const struct cupti_memcpy_record r = {
		.kind = CUPTI_KIND_MEMCPY,
		.copy_kind = copy_kind(from, to),
		.source_kind = from,
		.destination_kind = to,
		.flags = w->wanted & CUPTI_TAG_ASYNC ? CUPTI_FLAG_ASYNC : 0,
		.bytes = w->bytes,
		.start = w->begin,
		.end = w->end,
		.device = w->device,
		.context = w->context,
		.stream = w->stream,
		.correlation = w->correlation,
		GRAPH_OF(w),
		.channel_type = CUPTI_CHANNEL_COPY,
		.copies = 1,
	};

	cupti_buffer_add(&r);
}

static void add_peer(const struct vcuda_profile_work *w)
{
	const struct cupti_peer_record r = {
		.kind = CUPTI_KIND_MEMCPY2,
		.copy_kind = CUPTI_COPY_PTOP,
		.source_kind = memory_kind(w->from),
		.destination_kind = memory_kind(w->to),
		.flags = w->wanted & CUPTI_TAG_ASYNC ? CUPTI_FLAG_ASYNC : 0,
		.bytes = w->bytes,
		.start = w->begin,
		.end = w->end,
		.device = w->device,
		.context = w->context,
		.stream = w->stream,
		.source_device = w->detail & 0xffff,
		.source_context = w->detail >> 16 & 0xffff,
		.destination_device = w->detail >> 32 & 0xffff,
		.destination_context = (uint32_t)(w->detail >> 48),
		.correlation = w->correlation,
		.channel_type = CUPTI_CHANNEL_COPY,
	};

	cupti_buffer_add(&r);
}

static void add_memset(const struct vcuda_profile_work *w)
{
	const struct cupti_memset_record r = {
		.kind = CUPTI_KIND_MEMSET,
		.value = w->value,
		.bytes = w->bytes,
		.start = w->begin,
		.end = w->end,
		.device = w->device,
		.context = w->context,
		.stream = w->stream,
		.correlation = w->correlation,
		.flags = w->wanted & CUPTI_TAG_ASYNC ? CUPTI_FLAG_ASYNC : 0,
		.memory_kind = memory_kind(w->to),
		GRAPH_OF(w),
		.channel_type = CUPTI_CHANNEL_COMPUTE,
	};

	cupti_buffer_add(&r);
}

static void add_graph(const struct vcuda_profile_work *w)
{
	const struct cupti_graph_record r = {
		.kind = CUPTI_KIND_GRAPH_TRACE,
		.correlation = w->correlation,
		.start = w->begin,
		.end = w->end,
		.device = w->device,
		.graph = w->of.graph,
		.context = w->context,
		.stream = w->stream,
		.end_device = w->device,
		.end_context = w->context,
	};

	cupti_buffer_add(&r);
}

void cupti_record_whole(const struct vcuda_profile_work *w)
{
	if (is_wanted(w->wanted, CUPTI_KIND_GRAPH_TRACE) && w->of.graph)
		add_graph(w);
	else
		add_copy(w);
}

void cupti_record_work(const struct vcuda_profile_work *w)
{
	note_context(w);
	/* A graph that is launched node by node has one record all the same. */
	if (is_wanted(w->wanted, CUPTI_KIND_GRAPH_TRACE) && w->of.node && w->copy) {
		cupti_pieces_add(w, 0);
		return;
	}
	switch (w->kind) {
	case VCUDA_PROFILE_OTHER:
		break;
	case VCUDA_PROFILE_GRAPH:
		if (is_wanted(w->wanted, CUPTI_KIND_GRAPH_TRACE)) {
			add_graph(w);
			break;
		}
		__attribute__((fallthrough));
	case VCUDA_PROFILE_KERNEL:
	case VCUDA_PROFILE_LIBRARY:
		if (kernel_kind(w->wanted))
			add_kernel(w);
		break;
	case VCUDA_PROFILE_MEMCPY:
		if (w->wanted & CUPTI_TAG_PEER) {
			add_peer(w);
			break;
		}
		if (!is_wanted(w->wanted, CUPTI_KIND_MEMCPY))
			break;
		if (w->is_piece && w->copy)
			cupti_pieces_add(w, w->of.node);
		else
			add_copy(w);
		break;
	case VCUDA_PROFILE_MEMSET:
		if (is_wanted(w->wanted, CUPTI_KIND_MEMSET))
			add_memset(w);
		break;
	}
}
