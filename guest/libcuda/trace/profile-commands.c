/* SPDX-License-Identifier: Apache-2.0 */
/* The work that commands give the device, by the commands' number. */
#include "trace/profile.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/context.h"
#include "core/request.h"
#include "protocol/calls.h"
#include "stream/stream.h"

/* The last so many commands are kept: more than the worker keeps rows of. A power of two. */
#define MOST_COMMANDS 131072u

struct slot {
	_Atomic uint64_t seq; /* 0: none, or it is being written */
	struct libcuda_profile_command command;
};

static struct slot *slots;
static _Atomic uint64_t count;

/*
 * A case label that fills in `c` from the arguments `a`. A macro that uses another would get the names that
 * libcuda-rename.h gives to functions.
 */
#define WORK(op, kind_, name_, stream_, ...)                                                                           \
	case VCUDA_OP_##op: {                                                                                          \
		const struct vcuda_args_##op *a = arguments;                                                           \
                                                                                                                       \
		(void)a;                                                                                               \
		*c = (struct libcuda_profile_command){.work.kind = VCUDA_PROFILE_##kind_,                              \
						      .work.name = name_,                                              \
						      .stream = (uintptr_t)(stream_),                                  \
						      ##__VA_ARGS__};                                                  \
		return true;                                                                                           \
	}
#define LAUNCH                                                                                                         \
	.function = (uintptr_t)a->f, .work.grid = {a->gridDimX, a->gridDimY, a->gridDimZ},                             \
	.work.block = {a->blockDimX, a->blockDimY, a->blockDimZ}, .work.shared_bytes = a->sharedMemBytes,              \
	.work.is_cooperative = a->cooperative
#define CLUSTERS .work.cluster = {a->clusterDimX, a->clusterDimY, a->clusterDimZ}
#define HTOD "[memcpy HtoD]"
#define DTOH "[memcpy DtoH]"
#define DTOD "[memcpy DtoD]"
#define COPY(from_, to_, bytes_) .work.bytes = bytes_, .work.from = from_, .work.to = to_
#define PIECE .work.is_piece = true
#define PINNED VCUDA_PROFILE_PINNED
#define PAGEABLE VCUDA_PROFILE_PAGEABLE
#define DEVICE VCUDA_PROFILE_DEVICE_MEMORY
/* Ends of boxes are arrays, or device memory where the array is NULL. */
#define END(array) ((array) ? VCUDA_PROFILE_ARRAY : DEVICE)
#define BOX_BYTES (a->box.width * a->box.height * a->box.depth)
#define SET(value_, bytes_) .work.value = value_, .work.bytes = bytes_, .work.to = DEVICE

static bool describe_launch(struct libcuda_profile_command *c, unsigned int op, const void *arguments)
{
	switch (op) {
		WORK(vcudaLaunchKernel, KERNEL, "[kernel]", a->hStream, LAUNCH)
		WORK(vcudaLaunchClusters, KERNEL, "[kernel]", a->hStream, LAUNCH, CLUSTERS)
		WORK(vcudaGraphLaunch, GRAPH, "[graph]", a->hStream)
		WORK(vcudaBlas, LIBRARY, "[cuBLAS]", a->stream)
		WORK(vcudaBlasValue, LIBRARY, "[cuBLAS]", a->stream)
		WORK(vcudaMatmul, LIBRARY, "[cuBLASLt]", a->stream)
		WORK(vcudaTransform, LIBRARY, "[cuBLASLt]", a->stream)
		WORK(vcudaRandom, LIBRARY, "[cuRAND]", a->stream)
	}
	return false;
}

static bool describe_copy(struct libcuda_profile_command *c, unsigned int op, const void *arguments)
{
	switch (op) {
		WORK(cuMemcpyHtoD_v2, MEMCPY, HTOD, 0, COPY(PINNED, DEVICE, a->ByteCount))
		WORK(cuMemcpyDtoH_v2, MEMCPY, DTOH, 0, COPY(DEVICE, PINNED, a->ByteCount))
		WORK(cuMemcpyHtoDAsync_v2, MEMCPY, HTOD, a->hStream, COPY(PINNED, DEVICE, a->ByteCount))
		WORK(cuMemcpyDtoHAsync_v2, MEMCPY, DTOH, a->hStream, COPY(DEVICE, PINNED, a->ByteCount))
		WORK(cuMemcpyDtoD_v2, MEMCPY, DTOD, 0, COPY(DEVICE, DEVICE, a->ByteCount))
		WORK(cuMemcpyDtoDAsync_v2, MEMCPY, DTOD, a->hStream, COPY(DEVICE, DEVICE, a->ByteCount))
		WORK(vcudaStageHtoD, MEMCPY, HTOD, a->hStream, COPY(PAGEABLE, DEVICE, a->ByteCount), PIECE)
		WORK(vcudaStageDtoH, MEMCPY, DTOH, a->hStream, COPY(DEVICE, PAGEABLE, a->ByteCount), PIECE)
		WORK(vcudaStageIn, MEMCPY, HTOD, 0, COPY(PAGEABLE, DEVICE, a->ByteCount), PIECE)
		WORK(vcudaCopyInAsync, MEMCPY, HTOD, a->hStream, COPY(PAGEABLE, DEVICE, a->bytes), PIECE)
		WORK(vcudaStageTurns, MEMCPY, a->toDevice ? HTOD : DTOH, a->hStream,
		     COPY(a->toDevice ? PAGEABLE : DEVICE, a->toDevice ? DEVICE : PAGEABLE, a->ByteCount), PIECE)
		WORK(vcudaCopyDirect, MEMCPY, a->toDevice ? HTOD : DTOH, a->hStream,
		     COPY(a->toDevice ? PAGEABLE : DEVICE, a->toDevice ? DEVICE : PAGEABLE, a->ByteCount), PIECE)
		WORK(vcudaBoxDtoD, MEMCPY, DTOD, a->hStream, COPY(END(a->src), END(a->dst), BOX_BYTES))
		WORK(vcudaBoxHtoD, MEMCPY, HTOD, a->hStream, COPY(PINNED, END(a->dst), BOX_BYTES))
		WORK(vcudaBoxDtoH, MEMCPY, DTOH, a->hStream, COPY(END(a->src), PINNED, BOX_BYTES))
		WORK(vcudaStageBoxHtoD, MEMCPY, HTOD, a->hStream, COPY(PAGEABLE, END(a->dst), BOX_BYTES), PIECE)
		WORK(vcudaStageBoxDtoH, MEMCPY, DTOH, a->hStream, COPY(END(a->src), PAGEABLE, BOX_BYTES), PIECE)
	}
	return false;
}

static bool describe_memset(struct libcuda_profile_command *c, unsigned int op, const void *arguments)
{
	switch (op) {
		WORK(cuMemsetD8_v2, MEMSET, "[memset]", 0, SET(a->uc, a->N))
		WORK(cuMemsetD16_v2, MEMSET, "[memset]", 0, SET(a->us, a->N * 2))
		WORK(cuMemsetD32_v2, MEMSET, "[memset]", 0, SET(a->ui, a->N * 4))
		WORK(cuMemsetD8Async, MEMSET, "[memset]", a->hStream, SET(a->uc, a->N))
		WORK(cuMemsetD16Async, MEMSET, "[memset]", a->hStream, SET(a->us, a->N * 2))
		WORK(cuMemsetD32Async, MEMSET, "[memset]", a->hStream, SET(a->ui, a->N * 4))
		WORK(cuMemsetD2D8Async, MEMSET, "[memset]", a->hStream, SET(a->uc, a->Width * a->Height))
		WORK(cuMemsetD2D16Async, MEMSET, "[memset]", a->hStream, SET(a->us, a->Width * a->Height * 2))
		WORK(cuMemsetD2D32Async, MEMSET, "[memset]", a->hStream, SET(a->ui, a->Width * a->Height * 4))
	}
	return false;
}

/* False: the command gives the device no work that is measured: `timed` in protocol/driver.api, or by its handler. */
static bool describe(struct libcuda_profile_command *c, unsigned int op, const void *arguments)
{
	return describe_launch(c, op, arguments) || describe_copy(c, op, arguments) ||
	       describe_memset(c, op, arguments);
}

/* One thread at a time. */
static void note(uint64_t seq, const struct client_call *call)
{
	const struct libcuda_context *context = call->context ? libcuda_context_of_calls(call->context) : NULL;
	struct libcuda_recorded *recorded = &libcuda_thread()->recorded;
	struct slot *slot = &slots[seq % MOST_COMMANDS];
	struct libcuda_profile_command command;
	struct vcuda_profile_work *w = &command.work;

	if (!libcuda_profile_has_file() && !(libcuda_profile_watched() & VCUDA_PROFILE_WORK))
		return;
	if (!describe(&command, call->request->op, call->request->arguments))
		return;
	w->seq = seq;
	w->correlation = recorded->correlation;
	w->copy = recorded->copy;
	w->wanted = recorded->wanted;
	w->detail = recorded->detail;
	w->of = libcuda_thread()->launched;
	w->context = context ? (uint32_t)context->number : 0;
	w->device = context ? (uint32_t)context->device : 0;
	w->null_stream = context ? (uint32_t)context->stream_number : 0;
	w->stream = libcuda_stream_number(context, (CUstream)(uintptr_t)command.stream);
	recorded->pieces += w->is_piece;
	recorded->nodes += w->of.node != 0;
	atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
	atomic_store(&slot->seq, 0);
	atomic_thread_fence(memory_order_seq_cst);
	slot->command = command;
	atomic_store(&slot->seq, seq);
}

bool libcuda_profile_commands_start(void)
{
	slots = calloc(MOST_COMMANDS, sizeof(*slots));
	if (slots)
		atomic_store(&client_call_observer, note);
	return slots;
}

uint64_t libcuda_profile_command_count(void)
{
	return atomic_load_explicit(&count, memory_order_relaxed);
}

bool libcuda_profile_command_find(uint64_t seq, struct libcuda_profile_command *command)
{
	struct slot *slot = &slots[seq % MOST_COMMANDS];

	if (atomic_load(&slot->seq) != seq)
		return false;
	*command = slot->command;
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load(&slot->seq) == seq;
}
