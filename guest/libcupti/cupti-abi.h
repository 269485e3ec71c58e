/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and structures of CUPTI's binary interface, as far as the library uses them. LIBCUPTI is the CUDA release. */
#ifndef VCUDA_CUPTI_ABI_H
#define VCUDA_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

/* The release whose records the library makes: 13.5, or 12.9. Records of other releases are the beginnings of these. */
#if LIBCUPTI >= 13
#define CUPTI_VERSION 130500u
#else
#define CUPTI_VERSION 28u
#endif

typedef enum cupti_result {
	CUPTI_SUCCESS = 0,
	CUPTI_ERROR_INVALID_PARAMETER = 1,
	CUPTI_ERROR_INVALID_DEVICE = 2,
	CUPTI_ERROR_INVALID_CONTEXT = 3,
	CUPTI_ERROR_INVALID_OPERATION = 7,
	CUPTI_ERROR_OUT_OF_MEMORY = 8,
	CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT = 10,
	CUPTI_ERROR_MAX_LIMIT_REACHED = 12,
	CUPTI_ERROR_NOT_INITIALIZED = 15,
	CUPTI_ERROR_QUEUE_EMPTY = 18,
	CUPTI_ERROR_INVALID_STREAM = 20,
	CUPTI_ERROR_INVALID_KIND = 21,
	CUPTI_ERROR_NOT_SUPPORTED = 27,
	CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39,
	CUPTI_ERROR_UNKNOWN = 999,
} cupti_result;

enum cupti_kind {
	CUPTI_KIND_MEMCPY = 1,
	CUPTI_KIND_MEMSET = 2,
	CUPTI_KIND_KERNEL = 3,
	CUPTI_KIND_DRIVER = 4,
	CUPTI_KIND_RUNTIME = 5,
	CUPTI_KIND_DEVICE = 8,
	CUPTI_KIND_CONTEXT = 9,
	CUPTI_KIND_CONCURRENT_KERNEL = 10,
	CUPTI_KIND_MARKER = 12,
	CUPTI_KIND_OVERHEAD = 17,
	CUPTI_KIND_MEMCPY2 = 22,
	CUPTI_KIND_CUDA_EVENT = 36,
	CUPTI_KIND_STREAM = 37,
	CUPTI_KIND_SYNCHRONIZATION = 38,
	CUPTI_KIND_EXTERNAL_CORRELATION = 39,
	CUPTI_KIND_GRAPH_TRACE = 51,
	CUPTI_KINDS = 64,
};

enum cupti_memory { CUPTI_MEMORY_PAGEABLE = 1, CUPTI_MEMORY_PINNED, CUPTI_MEMORY_DEVICE, CUPTI_MEMORY_ARRAY };

enum cupti_copy {
	CUPTI_COPY_HTOD = 1,
	CUPTI_COPY_DTOH,
	CUPTI_COPY_HTOA,
	CUPTI_COPY_ATOH,
	CUPTI_COPY_ATOA,
	CUPTI_COPY_ATOD,
	CUPTI_COPY_DTOA,
	CUPTI_COPY_DTOD,
	CUPTI_COPY_HTOH,
	CUPTI_COPY_PTOP,
};

enum { CUPTI_FLAG_ASYNC = 1, CUPTI_FLAG_FLUSH_FORCED = 1 };
enum { CUPTI_CHANNEL_COMPUTE = 1, CUPTI_CHANNEL_COPY = 2 };
enum { CUPTI_API_CUDA = 1 };
enum { CUPTI_STREAM_DEFAULT = 1, CUPTI_STREAM_NON_BLOCKING = 2 };
enum { CUPTI_OVERHEAD_BUFFER_FLUSH = 1 << 16 };
enum { CUPTI_OBJECT_THREAD = 2 };
enum { CUPTI_FLAG_MARKER_INSTANTANEOUS = 1, CUPTI_FLAG_MARKER_START = 2, CUPTI_FLAG_MARKER_END = 4 };

enum cupti_synchronization {
	CUPTI_SYNC_EVENT = 1,
	CUPTI_SYNC_STREAM_WAIT_EVENT,
	CUPTI_SYNC_STREAM,
	CUPTI_SYNC_CONTEXT,
};
#define CUPTI_SYNC_NONE 0xffffffffu

/* Kinds of external correlation: 1 to 5. */
enum { CUPTI_EXTERNALS = 6 };

/* ---- callbacks ---- */

enum cupti_domain {
	CUPTI_DOMAIN_DRIVER = 1,
	CUPTI_DOMAIN_RUNTIME,
	CUPTI_DOMAIN_RESOURCE,
	CUPTI_DOMAIN_SYNCHRONIZE,
	CUPTI_DOMAIN_NVTX,
	CUPTI_DOMAIN_STATE,
	CUPTI_DOMAINS,
};

enum cupti_resource {
	CUPTI_RESOURCE_CONTEXT_CREATED = 1,
	CUPTI_RESOURCE_CONTEXT_DESTROY_STARTING,
	CUPTI_RESOURCE_STREAM_CREATED,
	CUPTI_RESOURCE_STREAM_DESTROY_STARTING,
	CUPTI_RESOURCE_INIT_FINISHED,
	CUPTI_RESOURCE_MODULE_LOADED,
	CUPTI_RESOURCE_MODULE_UNLOAD_STARTING,
};

enum { CUPTI_SYNCHRONIZED_STREAM = 1, CUPTI_SYNCHRONIZED_CONTEXT };

enum { CUPTI_SITE_ENTER, CUPTI_SITE_EXIT };

struct cupti_callback_data {
	uint32_t site;
	const char *function;
	const void *parameters;
	const void *result;
	const char *symbol;
	CUcontext context;
	uint32_t context_number;
	uint64_t *correlation_data;
	uint32_t correlation;
};

struct cupti_resource_data {
	CUcontext context;
	CUstream stream;
	void *descriptor;
};

struct cupti_synchronize_data {
	CUcontext context;
	CUstream stream;
};

struct cupti_nvtx_data {
	const char *function;
	const void *parameters, *result;
};

typedef void (*cupti_callback)(void *userdata, uint32_t domain, uint32_t id, const void *data);

/* ---- records ---- */

#define CUPTI_RECORD __attribute__((packed, aligned(8)))

struct cupti_record {
	uint32_t kind;
} CUPTI_RECORD;

struct cupti_kernel_record {
	uint32_t kind;
	uint8_t cache_config, shared_memory_config;
	uint16_t registers_per_thread;
	uint32_t partitioned_cache_requested, partitioned_cache_executed;
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	int32_t grid_x, grid_y, grid_z, block_x, block_y, block_z;
	int32_t static_shared_memory, dynamic_shared_memory;
	uint32_t local_memory_per_thread, local_memory_total;
	uint32_t correlation;
	int64_t grid_id;
	const char *name;
	void *reserved;
	uint64_t queued, submitted;
	uint8_t launch_type, carveout_requested, carveout, padding;
	uint32_t shared_memory_executed;
	uint64_t graph_node;
	uint32_t shared_memory_limit;
	uint32_t graph;
	void *access_policy;
	uint32_t channel, channel_type;
	uint32_t cluster_x, cluster_y, cluster_z, cluster_policy;
	uint64_t local_memory_total_64;
	uint32_t most_cluster_size, most_active_clusters;
#if LIBCUPTI >= 13
	uint8_t is_device_launched, padding_2[7];
	int32_t priority;
	uint32_t padding_3;
	uint32_t execution_model, padding_4;
	uint32_t source_graph, padding_5;
	uint64_t source_graph_node;
#endif
} CUPTI_RECORD;

struct cupti_memcpy_record {
	uint32_t kind;
	uint8_t copy_kind, source_kind, destination_kind, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream;
	uint32_t correlation, runtime_correlation;
	uint32_t padding;
	void *reserved;
	uint64_t graph_node;
	uint32_t graph, channel, channel_type;
	uint8_t is_device_launched, padding_2[3];
	uint64_t copies;
#if LIBCUPTI >= 13
	uint32_t source_graph, padding_3;
	uint64_t source_graph_node;
#endif
} CUPTI_RECORD;

/* Between devices. */
struct cupti_peer_record {
	uint32_t kind;
	uint8_t copy_kind, source_kind, destination_kind, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream;
	uint32_t source_device, source_context, destination_device, destination_context;
	uint32_t correlation;
	void *reserved;
	uint64_t graph_node;
	uint32_t graph, channel, channel_type;
} CUPTI_RECORD;

struct cupti_memset_record {
	uint32_t kind;
	uint32_t value;
	uint64_t bytes, start, end;
	uint32_t device, context, stream;
	uint32_t correlation;
	uint16_t flags, memory_kind;
	uint32_t padding;
	void *reserved;
	uint64_t graph_node;
	uint32_t graph, channel, channel_type;
	uint8_t is_device_launched, padding_2[3];
#if LIBCUPTI >= 13
	uint32_t source_graph, padding_3;
	uint64_t source_graph_node;
#endif
} CUPTI_RECORD;

struct cupti_api_record {
	uint32_t kind;
	uint32_t id;
	uint64_t start, end;
	uint32_t process, thread;
	uint32_t correlation, result;
} CUPTI_RECORD;

struct cupti_external_record {
	uint32_t kind;
	uint32_t external_kind;
	uint64_t external;
	uint32_t correlation, reserved;
} CUPTI_RECORD;

struct cupti_device_record {
	uint32_t kind;
	uint32_t flags;
	uint64_t memory_bandwidth, memory_bytes;
	uint32_t constant_bytes, l2_bytes, warp_size, clock_khz;
	uint32_t copy_engines, multiprocessors, most_ipc;
	uint32_t warps_per_multiprocessor, blocks_per_multiprocessor, shared_per_multiprocessor;
	uint32_t registers_per_multiprocessor, registers_per_block, shared_per_block, threads_per_block;
	uint32_t block_x, block_y, block_z, grid_x, grid_y, grid_z;
	uint32_t capability_major, capability_minor;
	uint32_t id, ecc_enabled;
	uint8_t uuid[16];
	const char *name;
	uint8_t is_visible, is_mig, reserved[6];
	uint32_t gpu_instance, compute_instance;
	uint8_t mig_uuid[16];
	uint32_t is_numa_node, numa_id;
#if LIBCUPTI >= 13
	uint32_t tpcs, reserved_2;
#endif
} CUPTI_RECORD;

struct cupti_context_record {
	uint32_t kind;
	uint32_t context, device;
	uint16_t api, null_stream;
	uint32_t parent;
	uint8_t is_green, padding;
	uint16_t multiprocessors;
	uint32_t cig_mode, padding_2;
#if LIBCUPTI >= 13
	uint64_t process;
#endif
} CUPTI_RECORD;

struct cupti_stream_record {
	uint32_t kind;
	uint32_t context, stream, priority, flag, correlation;
} CUPTI_RECORD;

struct cupti_synchronization_record {
	uint32_t kind;
	uint32_t type;
	uint64_t start, end;
	uint32_t correlation, context, stream, event;
	uint64_t event_sync;
	uint32_t result, padding;
} CUPTI_RECORD;

struct cupti_event_record {
	uint32_t kind;
	uint32_t correlation, context, stream, event, padding, device, padding_2;
	void *reserved;
	uint64_t device_time, event_sync;
#if LIBCUPTI >= 13
	uint64_t graph_node;
	uint32_t graph, source_graph;
	uint64_t source_graph_node;
#endif
} CUPTI_RECORD;

struct cupti_overhead_record {
	uint32_t kind;
	uint32_t overhead_kind, object_kind;
	uint32_t process, thread, unused;
	uint64_t start, end;
	uint32_t correlation, reserved;
	void *data;
} CUPTI_RECORD;

struct cupti_marker_record {
	uint32_t kind;
	uint32_t flags;
	uint64_t time;
	uint32_t id, object_kind;
	uint32_t process, thread, unused, padding;
	const char *name, *domain;
} CUPTI_RECORD;

struct cupti_graph_record {
	uint32_t kind;
	uint32_t correlation;
	uint64_t start, end;
	uint32_t device, graph, context, stream;
	void *reserved;
	uint32_t end_device, end_context;
};

#endif
