/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of functions by which libcupti.so reads the recorder of libcuda.so.1 (guest/libcuda/trace/profile.h). It
 * is one of cuGetExportTable(), and known to these two libraries alone. Both sides compare `bytes`, so that libraries
 * of different builds refuse each other where the table has changed.
 */
#ifndef VCUDA_PROFILE_TABLE_H
#define VCUDA_PROFILE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"
#include "protocol/nvtx-functions.h"
#include "protocol/types.h"

#define VCUDA_PROFILE_TABLE_UUID                                                                                       \
	{                                                                                                              \
		0xc6, 0x8b, 0x2b, 0x0f, 0x32, 0x6b, 0x4b, 0x18, 0x96, 0xf1, 0xf9, 0x34, 0x1f, 0x06, 0x32, 0xdd         \
	}

/* Kinds of CUpti_ExternalCorrelationKind are less than this. */
#define VCUDA_PROFILE_EXTERNALS 6

enum vcuda_profile_domain { VCUDA_PROFILE_DRIVER = 1, VCUDA_PROFILE_RUNTIME = 2 };

/* The events that a sink asks for. */
#define VCUDA_PROFILE_CALLS 1u         /* enter(), leave() and call() */
#define VCUDA_PROFILE_WORK 2u          /* work(); needs the calls */
#define VCUDA_PROFILE_RUNTIME_CALLS 4u /* the calls of NVIDIA's runtime, too */
#define VCUDA_PROFILE_MARKERS 8u       /* marker() */
#define VCUDA_PROFILE_NODES 16u        /* graphs run node by node, so that each node has its own work */
#define VCUDA_PROFILE_NVTX 32u         /* nvtx() */

/* The sink's own words. They are set in enter() or leave(), and go with the call's note and its work. */
struct vcuda_profile_tags {
	uint64_t wanted, detail;
	uint64_t external_kinds; /* bits of those that are there */
	uint64_t external[VCUDA_PROFILE_EXTERNALS];
};

/* A call that a thread is in. */
struct vcuda_profile_site {
	uint32_t domain,
		call; /* the driver's calls: as call_name() counts; the runtime's: the number of the tools' ABI */
	uint32_t correlation; /* of the call and of its work; not 0 */
	uint32_t context;     /* number of the current context; 0: there is none */
	CUcontext handle;
	const char *name;       /* of the function */
	const void *parameters; /* a structure of the parameters, in their order; NULL: they are not known */
	const void *result;     /* in leave() */
	const char *symbol;     /* the kernel that a call of the runtime launches; NULL: none */
	uint64_t function;      /* handle of the kernel or function that the call names; 0: none */
	uint64_t data;          /* the sink's, from enter() to leave() */
	bool is_noted;          /* the sink sets it: call() is to follow */
	struct vcuda_profile_tags tags;
};

/* A call that has ended. Times are ns of the guest's monotonic clock. */
struct vcuda_profile_note {
	uint64_t start, end;
	uint32_t domain, call, correlation, context;
	uint32_t stream; /* number of the stream that the call names; that of the default stream if it names none */
	uint32_t copy;   /* number of the call of the driver, for its pieces; not 0 */
	uint32_t pieces; /* number of commands with `is_piece` that have this call's number */
	uint32_t nodes;  /* number of commands of graph nodes that have this call's number */
	int32_t tid, result;
	uint32_t event; /* number of the event that the call names; 0: none */
	bool is_inner;  /* a call of the driver within one of the runtime */
	struct vcuda_profile_tags tags;
};

enum vcuda_profile_work_kind {
	VCUDA_PROFILE_OTHER, /* the command is not known any more */
	VCUDA_PROFILE_KERNEL,
	VCUDA_PROFILE_GRAPH,
	VCUDA_PROFILE_LIBRARY, /* a product of cuBLAS and the like, which the host computes */
	VCUDA_PROFILE_MEMCPY,
	VCUDA_PROFILE_MEMSET,
};

enum vcuda_profile_memory {
	VCUDA_PROFILE_NO_MEMORY,
	VCUDA_PROFILE_PAGEABLE,
	VCUDA_PROFILE_PINNED,
	VCUDA_PROFILE_DEVICE_MEMORY,
	VCUDA_PROFILE_ARRAY,
};

/* A node of an executable graph, and the node that it was copied from last. All 0: none. `node` 0: the whole graph. */
struct vcuda_profile_node {
	uint32_t graph, source_graph;
	uint64_t node, source_node;
};

/* Work that the device has done for a command. */
struct vcuda_profile_work {
	uint64_t begin, end; /* ns of the guest's monotonic clock */
	uint64_t seq;        /* of the command */
	uint32_t correlation, context, stream, device;
	uint32_t null_stream;    /* number of the context's default stream */
	uint32_t copy;           /* vcuda_profile_note, of the call; 0: it is not told */
	uint64_t wanted, detail; /* vcuda_profile_tags, of the call */
	const char *name;        /* lives as long as the process */

	enum vcuda_profile_work_kind kind;
	/* Copies and memsets. */
	uint64_t bytes;
	uint32_t value;
	bool is_piece; /* several commands may do the work of one call */
	enum vcuda_profile_memory from, to;
	/* Kernels. */
	uint32_t grid[3], block[3], cluster[3]; /* cluster: 0 where the launch has none */
	uint32_t shared_bytes, static_shared_bytes, local_bytes, registers;
	bool is_cooperative;
	struct vcuda_profile_node of; /* the graph, if the command is a part of a graph's launch */
};

enum vcuda_profile_marker_kind { VCUDA_PROFILE_BEGIN, VCUDA_PROFILE_END, VCUDA_PROFILE_MOMENT };

/* The begin or end of a range of NVTX, or a mark. */
struct vcuda_profile_marker {
	enum vcuda_profile_marker_kind kind;
	uint32_t number;    /* of the range or mark; not 0 */
	uint64_t time;      /* ns of the guest's monotonic clock */
	const char *name;   /* lives as long as the call. NULL: there was no memory */
	const char *domain; /* lives as long as the process. NULL: the default domain */
};

/*
 * enter(), leave(), marker() and nvtx() run in the thread that makes the call, with no lock of the recorder held, and
 * may make calls. The other functions run in one thread at a time, and make none. Any function may be called after
 * detach() until the calls that were under way have ended.
 */
struct vcuda_profile_sink {
	void (*enter)(struct vcuda_profile_site *site);
	void (*leave)(struct vcuda_profile_site *site);
	void (*call)(const struct vcuda_profile_note *note);
	void (*work)(const struct vcuda_profile_work *work);
	void (*marker)(const struct vcuda_profile_marker *marker);
	/*
	 * A function of NVTX has been called. `parameters` has eight bytes for each of its parameters; `result` is
	 * where its result is, or NULL if it has none.
	 */
	void (*nvtx)(enum vcuda_nvtx_function function, const void *parameters, const void *result);
	/* All that is known now has been told. No lock of the recorder is held. */
	void (*round)(void);
	/* Notes or work were lost; so many more than the last time. */
	void (*lost)(uint64_t count);
};

struct vcuda_profile_table {
	size_t bytes;
	/* NULL: there are no more calls. Names live as long as the process. */
	const char *(*call_name)(uint32_t call);
	/* NULL: the function is not known. */
	const char *(*function_name)(uint64_t function);
	/* -EBUSY: there is another sink. -ENOMEM. The sink lives as long as the process. Nothing is recorded yet. */
	int (*attach)(const struct vcuda_profile_sink *sink);
	void (*detach)(void);
	/*
	 * VCUDA_PROFILE_*. 0: the program's calls cost nothing more; work that was issued before is still told. Not
	 * within call(), work() and lost().
	 */
	void (*watch)(uint32_t what);
	/*
	 * Tells all that is known. Waits for one answer of the worker at least. False: something is missing, since a
	 * thread has not ended its note within a second, or the worker is lost. Not within call(), work() and lost().
	 */
	bool (*flush)(void);
	/* NULL: the current context, the default stream. Results as of the driver's functions. */
	CUresult (*context_number)(CUcontext context, uint32_t *number);
	CUresult (*context_device)(CUcontext context, CUdevice *device);
	CUresult (*stream_number)(CUcontext context, CUstream stream, uint32_t *number);
	/* The numbers by which records name a graph, an executable graph, and a node of a graph. 0: there is none. */
	uint32_t (*graph_number)(CUgraph graph);
	uint32_t (*exec_number)(CUgraphExec exec);
	uint64_t (*node_number)(CUgraphNode node);
	/* NULL: there is no such device. Lives as long as the process. */
	const vcuda_device_info *(*device_info)(CUdevice device);
	CUresult (*device_attribute)(CUdevice device, CUdevice_attribute attribute, int *value);
	/*
	 * NVTX's functions of the program tell the recorder from now on. `table_of`: NVTX's argument of
	 * InitializeInjectionNvtx2(). False: NVTX is another version.
	 */
	bool (*observe_ranges)(const void *(*table_of)(uint32_t));
	/* Before cuInit() and in a forked child the driver's functions give CUDA_ERROR_NOT_INITIALIZED. */
	bool (*is_open)(void);
};

#endif
