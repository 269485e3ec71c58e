/* SPDX-License-Identifier: Apache-2.0 */
/* The work that commands give the device, by the commands' number. */
#include "trace/profile.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/request.h"
#include "protocol/calls.h"

/* The last so many commands are kept: more than the worker keeps rows of. A power of two. */
#define MOST_COMMANDS 131072u

struct slot {
	_Atomic uint64_t seq; /* 0: none, or it is being written */
	struct libcuda_profile_command command;
};

static struct slot *slots;

/* `what`: kind and name. A macro that uses another would get the names that libcuda-rename.h gives to functions. */
#define WORK(op, what, stream_, bytes_, function_)                                                                     \
	case VCUDA_OP_##op: {                                                                                          \
		const struct vcuda_args_##op *a = arguments;                                                           \
                                                                                                                       \
		(void)a;                                                                                               \
		*c = (struct libcuda_profile_command){(uintptr_t)(stream_), bytes_, (uintptr_t)(function_), what};     \
		return true;                                                                                           \
	}
#define KERNEL "kernel", "[kernel]"
#define GRAPH "graph", "[graph]"
#define LIBRARY(name) "library", "[" name "]"
#define COPY(direction) "memcpy", "[memcpy " direction "]"
#define EITHER "memcpy", a->toDevice ? "[memcpy HtoD]" : "[memcpy DtoH]"
#define MEMSET "memset", "[memset]"
#define BOX_BYTES (a->box.width * a->box.height * a->box.depth)

/* False: the command gives the device no work that is measured: `timed` in protocol/driver.api, or by its handler. */
static bool describe(struct libcuda_profile_command *c, unsigned int op, const void *arguments)
{
	switch (op) {
		WORK(vcudaLaunchKernel, KERNEL, a->hStream, 0, a->f)
		WORK(vcudaLaunchClusters, KERNEL, a->hStream, 0, a->f)
		WORK(vcudaGraphLaunch, GRAPH, a->hStream, 0, 0)
		WORK(vcudaBlas, LIBRARY("cuBLAS"), a->stream, 0, 0)
		WORK(vcudaBlasValue, LIBRARY("cuBLAS"), a->stream, 0, 0)
		WORK(vcudaMatmul, LIBRARY("cuBLASLt"), a->stream, 0, 0)
		WORK(vcudaTransform, LIBRARY("cuBLASLt"), a->stream, 0, 0)
		WORK(vcudaRandom, LIBRARY("cuRAND"), a->stream, 0, 0)
		WORK(cuMemcpyHtoD_v2, COPY("HtoD"), 0, a->ByteCount, 0)
		WORK(cuMemcpyDtoH_v2, COPY("DtoH"), 0, a->ByteCount, 0)
		WORK(cuMemcpyHtoDAsync_v2, COPY("HtoD"), a->hStream, a->ByteCount, 0)
		WORK(cuMemcpyDtoHAsync_v2, COPY("DtoH"), a->hStream, a->ByteCount, 0)
		WORK(cuMemcpyDtoD_v2, COPY("DtoD"), 0, a->ByteCount, 0)
		WORK(cuMemcpyDtoDAsync_v2, COPY("DtoD"), a->hStream, a->ByteCount, 0)
		WORK(vcudaStageHtoD, COPY("HtoD"), a->hStream, a->ByteCount, 0)
		WORK(vcudaStageDtoH, COPY("DtoH"), a->hStream, a->ByteCount, 0)
		WORK(vcudaStageIn, COPY("HtoD"), 0, a->ByteCount, 0)
		WORK(vcudaCopyInAsync, COPY("HtoD"), a->hStream, a->bytes, 0)
		WORK(vcudaStageTurns, EITHER, a->hStream, a->ByteCount, 0)
		WORK(vcudaCopyDirect, EITHER, a->hStream, a->ByteCount, 0)
		WORK(vcudaBoxDtoD, COPY("DtoD"), a->hStream, BOX_BYTES, 0)
		WORK(vcudaBoxHtoD, COPY("HtoD"), a->hStream, BOX_BYTES, 0)
		WORK(vcudaBoxDtoH, COPY("DtoH"), a->hStream, BOX_BYTES, 0)
		WORK(vcudaStageBoxHtoD, COPY("HtoD"), a->hStream, BOX_BYTES, 0)
		WORK(vcudaStageBoxDtoH, COPY("DtoH"), a->hStream, BOX_BYTES, 0)
		WORK(cuMemsetD8_v2, MEMSET, 0, a->N, 0)
		WORK(cuMemsetD16_v2, MEMSET, 0, a->N * 2, 0)
		WORK(cuMemsetD32_v2, MEMSET, 0, a->N * 4, 0)
		WORK(cuMemsetD8Async, MEMSET, a->hStream, a->N, 0)
		WORK(cuMemsetD16Async, MEMSET, a->hStream, a->N * 2, 0)
		WORK(cuMemsetD32Async, MEMSET, a->hStream, a->N * 4, 0)
		WORK(cuMemsetD2D8Async, MEMSET, a->hStream, a->Width * a->Height, 0)
		WORK(cuMemsetD2D16Async, MEMSET, a->hStream, a->Width * a->Height * 2, 0)
		WORK(cuMemsetD2D32Async, MEMSET, a->hStream, a->Width * a->Height * 4, 0)
	}
	return false;
}

/* One thread at a time. */
static void note(uint64_t seq, const struct call_request *request)
{
	struct slot *slot = &slots[seq % MOST_COMMANDS];
	struct libcuda_profile_command command;

	if (!describe(&command, request->op, request->arguments))
		return;
	atomic_store(&slot->seq, 0);
	atomic_thread_fence(memory_order_seq_cst);
	slot->command = command;
	atomic_store(&slot->seq, seq);
}

bool libcuda_profile_commands_start(void)
{
	slots = calloc(MOST_COMMANDS, sizeof(*slots));
	if (slots)
		client_call_observer = note;
	return slots;
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
