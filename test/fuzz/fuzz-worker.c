/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile commands for a worker: the decoders, all handlers, and the software GPU behind them, in one process.
 *
 * Input: records, each a command's number (2 bytes), the length of its arguments in words (2 bytes), and these. A
 * number from 0x8000 on: the arguments go into the staging area, at its low bits times 64. Arguments cannot know ids
 * and addresses: a word that begins with REFERENCE is replaced by a word of an earlier reply.
 */
#include "fuzz.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/log.h"
#include "host/worker/process/warm.h"
#include "host/worker/process/worker.h"
#include "host/worker/queue/stage-queue.h"
#include "host/sandbox/sandbox.h"
#include "host/worker/session/command.h"
#include "host/worker/session/dispatch.h"
#include "host/worker/session/release.h"
#include "host/worker/session/session.h"
#include "protocol/calls.h"
#include "test/fuzz/fuzz-worker.h"

/* A command that runs for longer finds its context destroyed. */
#define PATIENCE_MS 300

#define ARENA_BYTES (256u * 1024)
#define MAPPED_BYTES (1u << 20)
#define MOST_WORDS 192
#define MOST_RECORDS 64
#define MOST_PIECES 32

static struct worker_session session = {.doorbell = -1, .notify = -1, .peer_minor = VCUDA_PROTOCOL_MINOR};
static uint64_t words[MOST_WORDS]; /* of replies */
static unsigned int word_count;
static uint64_t context;
static _Atomic uint64_t begun_ms; /* of the command that runs, 0: none */
static _Atomic(CUcontext) object;

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* A guest that does what a worker waits for, and ends what waits for something else. */
static void *guest(void *unused)
{
	struct vcuda_shm *shm = session.shm;

	for (uint32_t turn = 0;; turn++) {
		uint64_t begun = begun_ms;

		atomic_store(&shm->callbacks_done, atomic_load(&shm->callbacks_due));
		for (unsigned int i = 0; i < VCUDA_STAGE_BLOCKS; i++)
			atomic_store(&shm->handovers[i].count, turn % (2 * MOST_PIECES));
		if (begun && now_ms() - begun > PATIENCE_MS) {
			session.ops->cuCtxDestroy_v2(object);
			session.ops->cuDevicePrimaryCtxReset_v2(0);
			begun_ms = now_ms();
		}
		usleep(1000);
	}
	return unused;
}

/* ---- commands ---- */

static CUresult enter_context(const struct vcuda_command *c)
{
	void *current = (void *)(uintptr_t)c->context;
	CUresult result;

	if (!vcuda_call_table[c->op].context)
		return CUDA_SUCCESS;
	result = worker_resolve(&session, WORKER_ACCEPT(VCUDA_KIND_CONTEXT), 1, &current);
	return result == CUDA_SUCCESS ? session.ops->cuCtxSetCurrent(current) : result;
}

/* As the dispatcher does it. */
static CUresult dispatch(const struct vcuda_command *c, struct vcuda_writer *w)
{
	static _Alignas(8) uint8_t memory[ARENA_BYTES];
	struct vcuda_reader reader = vcuda_reader_init(c + 1, c->size - sizeof(*c));
	struct vcuda_arena arena = {memory, memory + sizeof(memory)};
	CUresult result;

	worker_release_wait();
	if (!session.ops && c->op != VCUDA_OP_vcudaHello)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (c->op != VCUDA_OP_vcudaStageIn && c->op != VCUDA_OP_vcudaLaunchKernel && worker_stage_queue_any())
		worker_stage_queue_drain(&session);
	result = enter_context(c);
	if (result != CUDA_SUCCESS)
		return result;
	return worker_dispatch_table[c->op](&session, &reader, &arena, w);
}

/* Runs a command whose arguments are a multiple of 8 bytes. Its reply's first words can be referred to from then on. */
static CUresult run(unsigned int op, const void *arguments, size_t bytes)
{
	static _Alignas(8) uint8_t reply[VCUDA_REPLY_MAX];
	struct vcuda_writer w = vcuda_writer_init(reply, sizeof(reply));
	/* The arguments end where their memory ends. */
	struct vcuda_command *c = malloc(sizeof(*c) + bytes);
	CUresult result;

	*c = (struct vcuda_command){
		.size = (uint32_t)(sizeof(*c) + bytes), .op = (uint16_t)op, .context = context, .thread = 1};
	memcpy(c + 1, arguments, bytes);
	begun_ms = now_ms();
	worker_command_begin(c);
	result = dispatch(c, &w);
	worker_command_end(&session);
	worker_command_begin(NULL);
	begun_ms = 0;
	session.broken = false;
	if (result == CUDA_SUCCESS && !w.error)
		for (uint8_t *at = reply; at < w.at && at < reply + 32 && word_count < MOST_WORDS; at += 8)
			memcpy(&words[word_count++], at, 8);
	free(c);
	return result;
}

/* ---- the session ---- */

static void set_up(void)
{
	struct worker_mapping_extent extent = {.length = MAPPED_BYTES};
	uint64_t hello[2] = {1, 0};
	pthread_t thread;

	setenv("VCUDA_CPU_CACHE", "0", 0);
	setenv("VCUDA_CPU_MEMORY", "64M", 0);
	setenv("VCUDA_CPU_THREADS", "2", 0);
	setenv("VCUDA_CPU_TIME_LIMIT", "0.1", 0);
	/* A faulting kernel ends its context only, so that the worker goes on. */
	setenv("VCUDA_CPU_FAULTS", "context", 0);
	setenv("VCUDA_LOG", "0", 0);
	vcuda_log_quiet(true);
	worker_backend = "cpu";
	sandbox_choose("off"); /* libFuzzer makes calls that workers do not */
	session.mappings = worker_mappings = worker_mappings_create();
	session.handles = worker_handles_create();
	session.shm = mmap(NULL, VCUDA_SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	extent.file = memfd_create("guest", MFD_CLOEXEC);
	if (!session.mappings || !session.handles || session.shm == MAP_FAILED || ftruncate(extent.file, MAPPED_BYTES) ||
	    worker_mapping_add(worker_mappings, FUZZ_WORKER_MAPPED, MAPPED_BYTES, 0, true, true, &extent, 1) ||
	    run(VCUDA_OP_vcudaHello, hello, sizeof(hello)) != CUDA_SUCCESS ||
	    pthread_create(&thread, NULL, guest, NULL))
		abort();
}

static void begin(void)
{
	uint64_t arguments[2] = {0, 0}; /* flags, device */
	struct vcuda_shm *shm = session.shm;

	word_count = 0;
	context = 0;
	memset(session.async_error, 0, sizeof(session.async_error));
	atomic_store(&shm->callbacks_done, atomic_load(&shm->callbacks_due));
	if (run(VCUDA_OP_cuCtxCreate_v2, arguments, sizeof(arguments)) != CUDA_SUCCESS)
		abort();
	context = words[0];
	object = worker_handle_get(session.handles, context, ~0u);
	worker_handle_put(session.handles, context);
}

/* Destroys the objects that do not end with a context: tries each known word as a handle. */
static void destroy_rest(void)
{
	static const uint16_t calls[] = {VCUDA_OP_cuLibraryUnload,  VCUDA_OP_vcudaImageDestroy,
					 VCUDA_OP_vcudaLinkDestroy, VCUDA_OP_cuMemPoolDestroy,
					 VCUDA_OP_vcudaMemRelease,  VCUDA_OP_cuCtxDestroy_v2};
	uint64_t known[MOST_WORDS];
	unsigned int count = word_count;

	memcpy(known, words, sizeof(known));
	/* The context is the first. */
	for (unsigned int i = count; i-- > 0;)
		for (unsigned int n = 0; known[i] >> 32 && n < sizeof(calls) / sizeof(calls[0]); n++)
			run(calls[n], &known[i], 8);
	/* Reserved addresses have lengths. */
	session.ops->cuDevicePrimaryCtxReset_v2(0);
}

/* Whether there are any. */
static bool refer(uint64_t *arguments, size_t count, unsigned int shift)
{
	bool refers = false;

	for (size_t i = 0; i < count; i++) {
		if (arguments[i] >> 16 != FUZZ_WORKER_REFERENCE >> 16 || !word_count)
			continue;
		arguments[i] = words[((arguments[i] & 0xffff) + shift) % word_count];
		refers = true;
	}
	return refers;
}

/* Whether a copy needs more of the guest than that does: the worker follows the guest for as long as the guest likes.
 */
static bool is_endless(unsigned int op, const void *arguments, size_t bytes)
{
	struct vcuda_reader reader = vcuda_reader_init(arguments, bytes);
	struct vcuda_args_vcudaStageTurns a = {.piece = 1};

	if (op != VCUDA_OP_vcudaStageTurns)
		return false;
	vcuda_decode_vcudaStageTurns(&reader, NULL, &a);
	return a.piece && a.ByteCount / a.piece > MOST_PIECES;
}

/* References that name objects of other kinds move on, one and all, until the command takes them. */
static void run_referring(unsigned int op, const uint64_t *arguments, size_t bytes)
{
	uint64_t resolved[FUZZ_WORKER_RECORD / 8];
	unsigned int count = word_count;
	CUresult result = CUDA_ERROR_INVALID_HANDLE;

	for (unsigned int shift = 0; shift <= count && result == CUDA_ERROR_INVALID_HANDLE; shift++) {
		memcpy(resolved, arguments, bytes);
		if (!refer(resolved, bytes / 8, shift))
			shift = count;
		result = is_endless(op, resolved, bytes) ? CUDA_ERROR_INVALID_VALUE : run(op, resolved, bytes);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint64_t arguments[FUZZ_WORKER_RECORD / 8];
	uint16_t head[2];

	if (!session.handles)
		set_up();
	begin();
	for (unsigned int n = 0; n < MOST_RECORDS && bytes >= sizeof(head); n++) {
		size_t size;

		memcpy(head, data, sizeof(head));
		data += sizeof(head);
		bytes -= sizeof(head);
		size = head[1] * 8u;
		size = size < bytes ? size : bytes & ~(size_t)7;
		size = size < sizeof(arguments) ? size : sizeof(arguments);
		memcpy(arguments, data, size);
		data += size;
		bytes -= size;
		if (head[0] & 0x8000) {
			memcpy((char *)vcuda_shm_stage(session.shm, 0) + (head[0] & 0xfff) * 64, arguments, size);
		} else if (head[0] < VCUDA_OP_LIMIT && worker_dispatch_table[head[0]]) {
			run_referring(head[0], arguments, size);
		}
	}
	destroy_rest();
	return 0;
}
