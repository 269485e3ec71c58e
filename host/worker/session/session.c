/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of a session that the generated dispatch code calls. */
#include "session/session.h"

#include "session/command.h"
#include "session/dispatch.h"
#include "session/ledger.h"
#include "common/log.h"
#include "session/worker-table-slot.h"

CUresult worker_malformed(struct worker_session *s)
{
	if (!s->broken)
		vcuda_log("the guest process (pid %d) sent a malformed command; its session ends", (int)s->guest_pid);
	s->broken = true;
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult worker_unsupported(struct worker_session *s, unsigned int op)
{
	static _Atomic bool logged[VCUDA_OP_LIMIT];

	if (op < VCUDA_OP_LIMIT && !logged[op]) {
		logged[op] = true;
		vcuda_log("%s is not supported by the %s back end", vcuda_call_table[op].name, s->ops->name);
	}
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* CUDA takes a CUkernel for a CUfunction in launches, but not in all that we do with a function: use the one of this
 * context. */
static CUresult function_of(struct worker_session *s, void **handle)
{
	if (!s->ops->cuKernelGetFunction)
		return worker_unsupported(s, VCUDA_OP_cuKernelGetFunction);
	return s->ops->cuKernelGetFunction((CUfunction *)handle, *handle);
}

CUresult worker_names_nothing(uint32_t kinds)
{
	return kinds & WORKER_ACCEPT(VCUDA_KIND_CONTEXT) ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_HANDLE;
}

CUresult worker_resolve(struct worker_session *s, uint32_t kinds, uint64_t specials, void **handle)
{
	uint64_t id = (uint64_t)(uintptr_t)*handle;

	if (id < specials)
		return CUDA_SUCCESS;
	*handle = worker_command_use(s, id, kinds);
	if (!*handle)
		return worker_names_nothing(kinds);
	if (worker_handle_kind(id) == VCUDA_KIND_KERNEL && kinds & WORKER_ACCEPT(VCUDA_KIND_FUNCTION))
		return function_of(s, handle);
	return CUDA_SUCCESS;
}

/*
 * The most objects of each kind that one guest process may have, far more than programs use: objects take memory of the
 * host. Their sum is less than the size of the table of handles.
 */
static const uint32_t most[] = {
	[VCUDA_KIND_CONTEXT] = 256,      [VCUDA_KIND_MODULE] = 1 << 16,     [VCUDA_KIND_LIBRARY] = 1 << 16,
	[VCUDA_KIND_FUNCTION] = 1 << 18, [VCUDA_KIND_KERNEL] = 1 << 18,     [VCUDA_KIND_STREAM] = 1 << 16,
	[VCUDA_KIND_EVENT] = 1 << 18,    [VCUDA_KIND_IMAGE] = 1 << 10,      [VCUDA_KIND_POOL] = 1 << 10,
	[VCUDA_KIND_ARRAY] = 1 << 16,    [VCUDA_KIND_MIPMAPPED] = 1 << 16,  [VCUDA_KIND_TEXTURE] = 1 << 18,
	[VCUDA_KIND_SURFACE] = 1 << 18,  [VCUDA_KIND_ALLOCATION] = 1 << 18, [VCUDA_KIND_GENERATOR] = 1 << 12,
	[VCUDA_KIND_GRAPH] = 1 << 16,    [VCUDA_KIND_LINK] = 1 << 10,
};

static uint32_t live_objects(struct worker_session *s)
{
	uint32_t count = 0;

	for (size_t kind = 0; kind < sizeof(most) / sizeof(most[0]); kind++)
		count += most[kind] ? worker_handle_live(s->handles, (unsigned int)kind) : 0;
	return count;
}

/* The limit that is reached; VCUDA_LEDGER_PROCESS_LIMITS: none. */
static enum vcuda_ledger_process_limit reached_limit(struct worker_session *s, enum vcuda_kind kind)
{
	uint64_t handles = worker_ledger_process_limit(VCUDA_LEDGER_HANDLES);

	if (kind == VCUDA_KIND_STREAM &&
	    worker_handle_live(s->handles, kind) >= worker_ledger_process_limit(VCUDA_LEDGER_STREAMS))
		return VCUDA_LEDGER_STREAMS;
	if (handles < VCUDA_LEDGER_HANDLES_DEFAULT && live_objects(s) >= handles)
		return VCUDA_LEDGER_HANDLES;
	return VCUDA_LEDGER_PROCESS_LIMITS;
}

static void refuse(struct worker_session *s, enum vcuda_ledger_process_limit limit)
{
	vcuda_log_once("the guest process (pid %d) has as many objects as it may have: it gets no more (raise %s)",
		       (int)s->guest_pid, limit == VCUDA_LEDGER_STREAMS ? "--max-streams" : "--max-handles");
	worker_ledger_refused(limit);
}

/* About what an object takes of the host's memory, in the table and in the back end. */
#define OBJECT_BYTES 1024

bool worker_room(struct worker_session *s, enum vcuda_kind kind)
{
	static _Atomic bool logged;
	uint32_t limit = (size_t)kind < sizeof(most) / sizeof(most[0]) ? most[kind] : 0;
	enum vcuda_ledger_process_limit reached = reached_limit(s, kind);
	bool room = worker_handle_live(s->handles, kind) < limit;

	if (reached != VCUDA_LEDGER_PROCESS_LIMITS) {
		refuse(s, reached);
		return false;
	}
	if (!room && !atomic_exchange(&logged, true))
		vcuda_log("the guest process (pid %d) has %u objects of one kind: it gets no more", (int)s->guest_pid,
			  limit);
	return room && worker_ledger_host_room(OBJECT_BYTES);
}

/* Libraries, their kernels, images, pools and allocations outlive contexts. */
static bool dies_with_context(enum vcuda_kind kind)
{
	return kind != VCUDA_KIND_CONTEXT && kind != VCUDA_KIND_LIBRARY && kind != VCUDA_KIND_KERNEL &&
	       kind != VCUDA_KIND_IMAGE && kind != VCUDA_KIND_POOL && kind != VCUDA_KIND_ALLOCATION;
}

CUresult worker_publish(struct worker_session *s, enum vcuda_kind kind, bool shared, uint64_t parent, void **handle)
{
	uint64_t context = dies_with_context(kind) ? worker_command_context() : 0;
	uint64_t id = worker_handle_add(s->handles, kind, shared, *handle, parent, context);

	if (kind == VCUDA_KIND_CONTEXT)
		worker_table_computes();
	*handle = (void *)(uintptr_t)id;
	return id ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult worker_mapping_check(struct worker_session *s, const void *p, uint64_t bytes, bool writable)
{
	if (bytes == 0 || worker_mapping_covers(s->mappings, p, bytes, writable))
		return CUDA_SUCCESS;
	return CUDA_ERROR_INVALID_VALUE;
}
