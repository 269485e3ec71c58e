/* SPDX-License-Identifier: Apache-2.0 */
#include "test-libcuda-fake.h"
#include "test-libcuda-fake-answer.h"
#include "test-libcuda-fake-graph.h"
#include "test-libcuda-fake-mapped.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "protocol/calls.h"
#include "ring/ring.h"
#include "guest/client/transport.h"

struct fake_worker fake;

static struct client_transport transport;
static int doorbell;
static char device[FAKE_DEVICE_BYTES];
static uint64_t allocated = 4096, ids = 0x1000;
static uint32_t last_value[256];
static char image[1 << 20];

void *fake_memory(uint64_t address)
{
	return device + (address - FAKE_DEVICE_START);
}

struct vcuda_shm *fake_shm(void)
{
	return transport.shm;
}

uint64_t fake_commands_of(CUresult (*call)(void))
{
	struct vcuda_shm *shm = transport.shm;
	uint64_t before;

	/* Asleep for no longer than an answer is good for. */
	while (shm->head != shm->tail)
		sched_yield();
	before = shm->tail;
	if (call() != CUDA_SUCCESS)
		abort();
	return shm->tail - before;
}

static bool on_device(uint64_t address, size_t bytes)
{
	return address >= FAKE_DEVICE_START && address - FAKE_DEVICE_START + bytes <= FAKE_DEVICE_BYTES;
}

static void wake(void)
{
	struct vcuda_shm *shm = transport.shm;

	syscall(SYS_futex, &shm->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void fake_lose(CUresult error)
{
	if (vcuda_complete_lost(transport.shm, error))
		wake();
}

static uint64_t sum(const void *data, size_t bytes)
{
	uint64_t s = 0;

	for (size_t i = 0; i < bytes; i++)
		s += ((const uint8_t *)data)[i];
	return s;
}

/* Staged copies that the device has not read yet. */
static struct vcuda_args_vcudaStageIn on_the_way[16];
static unsigned int staged_count;

static void read_staged(unsigned int but)
{
	struct vcuda_shm *shm = transport.shm;
	unsigned int i = 0;

	for (; staged_count > but; i++, staged_count--) {
		const struct vcuda_args_vcudaStageIn *a = &on_the_way[i];

		memcpy(fake_memory(a->dstDevice), (char *)vcuda_shm_stage(shm, a->block) + a->offset, a->ByteCount);
		atomic_store(&shm->handovers[a->block].count, a->ticket);
	}
	memmove(on_the_way, on_the_way + i, staged_count * sizeof(on_the_way[0]));
}

static void stage_later(const struct vcuda_args_vcudaStageIn *a)
{
	on_the_way[staged_count++] = *a;
	read_staged(fake.reads_late);
}

/*
 * The queues of streams, which another thread works off: how much was put in, how much is through, and the fences
 * behind which that is known.
 */
#define STREAMS 64
#define FENCES 4096
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t queued[STREAMS], through[STREAMS];
static struct {
	unsigned int stream;
	uint64_t queued;
	uint32_t *word, value;
} pending_fences[FENCES];
static _Atomic unsigned int first_fence, last_fence;

static unsigned int stream_of(CUstream stream)
{
	return (uintptr_t)stream % STREAMS;
}

static void queue(CUstream stream)
{
	unsigned int s = stream_of(stream);

	pthread_mutex_lock(&queue_lock);
	queued[s]++;
	if (queued[s] - through[s] > fake.most_behind)
		fake.most_behind = queued[s] - through[s];
	pthread_mutex_unlock(&queue_lock);
}

static void write_later(CUstream stream, const uint64_t *op)
{
	unsigned int m;

	pthread_mutex_lock(&queue_lock);
	m = last_fence++ % FENCES;
	pending_fences[m].stream = stream_of(stream);
	pending_fences[m].queued = queued[pending_fences[m].stream];
	pending_fences[m].word = (uint32_t *)(uintptr_t)op[1];
	pending_fences[m].value = (uint32_t)op[2];
	pthread_mutex_unlock(&queue_lock);
}

/* Up to the next fence. Returns whether there was one. */
static bool work_off(void)
{
	bool any;

	pthread_mutex_lock(&queue_lock);
	any = first_fence != last_fence;
	if (any) {
		unsigned int m = first_fence++ % FENCES;

		through[pending_fences[m].stream] = pending_fences[m].queued;
		__atomic_store_n(pending_fences[m].word, pending_fences[m].value, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&queue_lock);
	return any;
}

static void work_off_all(void)
{
	while (work_off())
		continue;
	pthread_mutex_lock(&queue_lock);
	memcpy(through, queued, sizeof(through));
	pthread_mutex_unlock(&queue_lock);
}

static void *work_slowly(void *unused)
{
	for (;;) {
		usleep(50);
		if (!fake.stands)
			work_off();
	}
	return unused;
}

/* The linker's product is "TYPE:NAME=BYTES;" for each part, also for one that it does not like. */
static char linked[4096];

static CUresult add_part(const struct vcuda_args_vcudaLinkAdd *a)
{
	size_t length = strlen(linked);

	snprintf(linked + length, sizeof(linked) - length, "%u:%s=%.*s;", a->type, a->name, (int)fake.image_bytes,
		 image);
	return strstr(linked, "bad") ? CUDA_ERROR_INVALID_PTX : CUDA_SUCCESS;
}

/* The bus ids of the devices. */
static const char *const bus_ids[] = {"0000:07:00.0", "0001:01:00.0", "0000:03:1F.0", "0000:03:0A.0"};

static CUresult answer_most(const struct vcuda_command *c, struct vcuda_writer *w)
{
	static uint8_t arena_memory[65536];
	struct vcuda_arena arena = {arena_memory, arena_memory + sizeof(arena_memory)};
	struct vcuda_reader r = vcuda_reader_init(c + 1, c->size - sizeof(*c));

	switch (c->op) {
		CASE(vcudaHello)
		a.info = (vcuda_host_info){.driver_version = 12090,
					   .device_count = fake.devices ? fake.devices : 1,
					   .range_count = 1,
					   .arena_start = FAKE_ARENA_START,
					   .arena_length = 1ull << 30,
					   .features = fake.features,
					   .backend = "cpu"};
		a.info.ranges[0] = (struct vcuda_address_range){FAKE_DEVICE_START, 1ull << 32};
		REPLY(vcudaHello)
		CASE(vcudaDeviceInfo)
		strcpy(a.info.name, "Fake");
		strcpy(a.info.pci_bus_id, bus_ids[a.dev % 4]);
		a.info.total_memory = FAKE_DEVICE_BYTES;
		for (int i = 1; i <= 7; i++)
			a.info.attributes[i] = i == 1 || i < 4 ? 1024 : i == 4 ? 64 : 65535;
		a.info.attributes[CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY] = 1;
		a.info.attributes[CU_DEVICE_ATTRIBUTE_WARP_SIZE] = 32;
		REPLY(vcudaDeviceInfo)
		CASE(cuDevicePrimaryCtxRetain)
		a.pctx = (CUcontext)ids++;
		REPLY(cuDevicePrimaryCtxRetain)
		CASE(cuMemAlloc_v2)
		if (a.bytesize > FAKE_DEVICE_BYTES - allocated)
			return CUDA_ERROR_OUT_OF_MEMORY;
		a.dptr = FAKE_DEVICE_START + allocated;
		allocated += (a.bytesize + 511) & ~511ull;
		REPLY(cuMemAlloc_v2)
		CASE(vcudaStageHtoD)
		if (!on_device(a.dstDevice, a.ByteCount))
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(fake_memory(a.dstDevice), vcuda_shm_stage(transport.shm, a.block), a.ByteCount);
		END CASE(vcudaStageIn) if (fake.loses_staged ||
					   !on_device(a.dstDevice, a.ByteCount)) return CUDA_ERROR_INVALID_VALUE;
		if (a.offset + a.ByteCount > VCUDA_STAGE_BLOCK_BYTES) {
			fprintf(stderr, "fake worker: a copy from behind its block\n");
			abort();
		}
		fake.staged++;
		fake.behind += a.behind != 0;
		stage_later(&a);
		END CASE(vcudaCopyInAsync) memcpy(fake_memory(a.dstDevice), a.data, a.bytes);
		END CASE(vcudaStageDtoH) if (!on_device(a.srcDevice, a.ByteCount)) return CUDA_ERROR_INVALID_VALUE;
		memcpy(vcuda_shm_stage(transport.shm, a.block), fake_memory(a.srcDevice), a.ByteCount);
		END CASE(cuMemcpyHtoDAsync_v2) memcpy(fake_memory(a.dstDevice), a.srcHost, a.ByteCount);
		END CASE(cuMemcpyHtoD_v2) memcpy(fake_memory(a.dstDevice), a.srcHost, a.ByteCount);
		END CASE(cuMemcpyDtoHAsync_v2) memcpy(a.dstHost, fake_memory(a.srcDevice), a.ByteCount);
		END CASE(cuMemcpyDtoH_v2) memcpy(a.dstHost, fake_memory(a.srcDevice), a.ByteCount);
		END CASE(cuMemcpyDtoDAsync_v2) memmove(fake_memory(a.dstDevice), fake_memory(a.srcDevice), a.ByteCount);
		END CASE(cuMemsetD32Async) if (a.ui <= last_value[c->thread] && a.ui != 0) fake.out_of_order++;
		last_value[c->thread] = a.ui;
		fake.memsets++;
		queue(a.hStream);
		END CASE(vcudaStreamMemOps) write_later(a.hStream, a.ops);
		END CASE(vcudaStreamMark) fake.stream_fences++;
		if (fake.ends_fences)
			atomic_store(&((struct vcuda_shm *)transport.shm)->fences, 0);
		if (!fake.loses_fences)
			__atomic_store_n((uint32_t *)(uintptr_t)a.address, a.value, __ATOMIC_RELEASE);
		END CASE(cuStreamQuery) if (fake.busy || first_fence != last_fence) return CUDA_ERROR_NOT_READY;
		END CASE(cuEventQuery) if (fake.busy) return CUDA_ERROR_NOT_READY;
		END CASE(cuMemHostUnregister) work_off_all();
		END CASE(cuCtxSynchronize) fake.whole_waits++;
		work_off_all();
		END CASE(cuStreamSynchronize) fake.whole_waits++;
		END CASE(vcudaImageCreate) fake.image_bytes = a.total;
		a.image = (vcuda_image)ids++;
		REPLY(vcudaImageCreate)
		CASE(vcudaImageStaged)
		if (a.total > sizeof(image) || a.bytes > a.total)
			return CUDA_ERROR_OUT_OF_MEMORY;
		fake.images_staged++;
		fake.image_bytes = a.total;
		memcpy(image, vcuda_shm_stage(transport.shm, a.block), a.bytes);
		fake.image_sum = sum(image, fake.image_bytes);
		a.image = (vcuda_image)ids++;
		REPLY(vcudaImageStaged)
		CASE(vcudaImageWrite)
		if (a.offset + a.bytes > sizeof(image))
			return CUDA_ERROR_OUT_OF_MEMORY;
		memcpy(image + a.offset, vcuda_shm_stage(transport.shm, a.block), a.bytes);
		fake.image_sum = sum(image, fake.image_bytes);
		END CASE(vcudaImageOption) fake.jit_options |= 1ull << a.option;
		END CASE(vcudaImageLog)
			/* the log of buffer 3 is 4096 bytes long, that of buffer 5 longer than anyone asks for */
			a.length = a.option == CU_JIT_INFO_LOG_BUFFER && a.bytes > 4096
					   ? 4096
					   : a.bytes + (a.option == CU_JIT_ERROR_LOG_BUFFER);
		memset(vcuda_shm_stage(transport.shm, a.block), 'l', a.bytes);
		REPLY(vcudaImageLog)
		CASE(vcudaLinkCreate)
		for (uint32_t i = 0; i < a.count; i++)
			fake.jit_options |= 1ull << a.options[i];
		fake.links++;
		linked[0] = 0;
		a.link = (vcuda_link)ids++;
		REPLY(vcudaLinkCreate)
		CASE(vcudaLinkAdd)
		return add_part(&a);
		END CASE(vcudaLinkComplete) if (!linked[0]) return CUDA_ERROR_INVALID_VALUE;
		strcpy(image, linked);
		a.linked = (vcuda_image)ids++;
		a.bytes = strlen(linked) + 1;
		REPLY(vcudaLinkComplete)
		CASE(vcudaLinkDestroy) fake.links--;
		END CASE(vcudaLinkLog) /* the log so far */
			a.length = strnlen(linked, a.bytes);
		memcpy(vcuda_shm_stage(transport.shm, a.block), linked, a.length);
		REPLY(vcudaLinkLog)
		CASE(vcudaImageRead) memcpy(vcuda_shm_stage(transport.shm, a.block), image + a.offset, a.bytes);
		END CASE(cuModuleLoadData) a.module = (CUmodule)ids++;
		REPLY(cuModuleLoadData)
		CASE(cuLibraryLoadData) a.library = (CUlibrary)ids++;
		REPLY(cuLibraryLoadData)
		CASE(cuModuleGetFunction)
		if (strcmp(a.name, "kernel"))
			return CUDA_ERROR_NOT_FOUND;
		a.hfunc = (CUfunction)ids++;
		REPLY(cuModuleGetFunction)
		CASE(vcudaFunctionInfo)
		a.info = (vcuda_function_info){.param_count = 2, .param_bytes = 12};
		a.info.params[0].size = 8;
		a.info.params[1].offset = 8;
		a.info.params[1].size = 4;
		a.info.attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 512;
		a.info.attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 49152;
		REPLY(vcudaFunctionInfo)
		CASE(vcudaLaunchKernel)
		if (c->flags & VCUDA_COMMAND_SYNC)
			fake.launches_sync++;
		else
			fake.launches_async++;
		fake.last_param_bytes = a.paramBytes;
		fake.last_param_sum = sum(a.params, a.paramBytes);
		END CASE(cuStreamCreateWithPriority) a.phStream = (CUstream)ids++;
		REPLY(cuStreamCreateWithPriority)
		CASE(cuStreamGetFlags)
		REPLY(cuStreamGetFlags)
		CASE(vcudaOutputRead)
		a.bytes = (unsigned int)strlen(FAKE_OUTPUT);
		memcpy(a.text, FAKE_OUTPUT, a.bytes);
		atomic_store(&((struct vcuda_shm *)transport.shm)->output, 0);
		fake.outputs++;
		REPLY(vcudaOutputRead)
		CASE(cuEventCreate)
		fake.events++;
		a.phEvent = (CUevent)ids++;
		REPLY(cuEventCreate)
		CASE(cuEventElapsedTime_v2)
		REPLY(cuEventElapsedTime_v2)
		CASE(cuStreamWaitEvent)
		fake.event_waits++;
		END default : return CUDA_SUCCESS;
	}
}

static CUresult answer(const struct vcuda_command *c, struct vcuda_writer *w)
{
	if (c->op != VCUDA_OP_vcudaStageIn)
		read_staged(0);
	if (c->op >= VCUDA_OP_vcudaGraphCreate && c->op <= VCUDA_OP_vcudaGraphDestroy)
		return fake_graph_answer(c, w);
	if (fake_mapped_has(c->op))
		return fake_mapped_answer(c, w);
	return answer_most(c, w);
}

static void serve(const struct vcuda_command *c)
{
	static uint8_t reply[VCUDA_REPLY_MAX];
	struct vcuda_writer w = vcuda_writer_init(reply, sizeof(reply));
	CUresult result;
	uint32_t bytes;

	fake.commands++;
	if (!(c->flags & VCUDA_COMMAND_SYNC)) {
		fake.async_commands++;
		answer(c, &w);
		return;
	}
	if (fake.delay_us)
		usleep((useconds_t)fake.delay_us);
	result = answer(c, &w);
	if (fake.fail_next) {
		result = (CUresult)fake.fail_next;
		fake.fail_next = 0;
	}
	bytes = result == CUDA_SUCCESS ? (uint32_t)(w.at - reply) : 0;
	memcpy(vcuda_shm_slot(transport.shm, c->slot)->data, reply, bytes);
	if (vcuda_complete_slot(transport.shm, c->slot, c->seq, result, bytes))
		wake();
}

static void *work(void *unused)
{
	static _Alignas(8) uint8_t command[VCUDA_COMMAND_MAX];
	struct vcuda_consumer consumer;
	uint64_t rings;

	vcuda_consumer_init(&consumer, transport.shm);
	for (;;) {
		int n;

		while (fake.holds)
			usleep(10);
		n = vcuda_consumer_take(&consumer, command);
		if (n < 0) {
			fprintf(stderr, "fake worker: the ring is broken\n");
			abort();
		}
		if (n && vcuda_consumer_made_room(&consumer))
			wake();
		if (n)
			serve((const struct vcuda_command *)command);
		else if (vcuda_consumer_prepare_sleep(&consumer) &&
			 read(doorbell, &rings, sizeof(rings)) == sizeof(rings))
			vcuda_consumer_awake(&consumer);
	}
	return unused;
}

static int fake_open(struct client_transport **t, const char *where)
{
	pthread_t thread;

	transport.ops = &client_transport_local;
	transport.host_minor = VCUDA_PROTOCOL_MINOR;
	transport.shm = mmap(NULL, VCUDA_SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	madvise(transport.shm, VCUDA_SHM_BYTES, MADV_DONTFORK);
	doorbell = eventfd(0, 0);
	if (transport.shm == MAP_FAILED || doorbell < 0 || pthread_create(&thread, NULL, work, NULL) ||
	    pthread_create(&thread, NULL, work_slowly, NULL))
		return -ENOMEM;
	*t = &transport;
	return 0;
}

static int no_device(struct client_transport **t, const char *where)
{
	return -ENOENT;
}

static int ring(struct client_transport *t)
{
	fake.doorbells++;
	if (write(doorbell, &(uint64_t){1}, 8) != 8)
		abort();
	return 0;
}

static int wait_word(struct client_transport *t, uint32_t seen, uint32_t timeout_us)
{
	struct vcuda_shm *shm = t->shm;
	struct timespec limit = {.tv_sec = timeout_us / 1000000, .tv_nsec = timeout_us % 1000000 * 1000L};

	if (syscall(SYS_futex, &shm->wake, FUTEX_WAIT, seen, timeout_us ? &limit : NULL, NULL, 0) == 0 ||
	    errno == EAGAIN)
		return fake.gone ? -EPIPE : 0;
	return fake.gone ? -EPIPE : -errno;
}

static int mapping_create(struct client_transport *t, void *address, size_t bytes)
{
	if (mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		return -errno;
	fake.mappings++;
	return 0;
}

static int mapping_register(struct client_transport *t, void *address, size_t bytes, bool writable,
			    enum client_mapping_release *pages)
{
	*pages = CLIENT_MAPPING_KEEP_PAGES;
	fake.mappings++;
	return 0;
}

static int mapping_release(struct client_transport *t, void *address, size_t bytes, enum client_mapping_release pages)
{
	if (fake.releases_fail) {
		fake.releases_fail--;
		return -EBUSY;
	}
	fake.mappings--;
	if (pages == CLIENT_MAPPING_REMOVE_PAGES)
		mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	return 0;
}

int client_local_dialog(const char *where, struct vcuda_own_descriptor *own)
{
	return -ENOENT;
}

const struct client_transport_ops client_transport_virtio = {.name = "virtio", .open = no_device};
const struct client_transport_ops client_transport_local = {
	.name = "local",
	.gpu_spin_ns = 1000000,
	.open = fake_open,
	.doorbell = ring,
	.wait = wait_word,
	.mapping_create = mapping_create,
	.mapping_register = mapping_register,
	.mapping_release = mapping_release,
};
