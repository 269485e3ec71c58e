/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "protocol/calls.h"
#include "common/log.h"
#include "ring/ring.h"
#include "guest/client/transport.h"

/* A worker that takes longer has been lost in some way that the transport does not tell. */
#define PATIENCE_US 50000
#define TRIES 600

const struct vcuda_log_program vcuda_log_program = {.name = "vcuda", .variable = "VCUDA_LOG"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct client_transport *transport; /* NULL: not connected */
static struct vcuda_producer producer;

static const struct nvml_host no_host;
/* Readers have no lock. */
static _Atomic(const struct nvml_host *) host = &no_host;

/* ---- one command and its reply; the caller holds the lock ---- */

struct command {
	struct vcuda_command *command;
	struct vcuda_writer writer;
	struct vcuda_reader reader;
};

static int begin(struct command *c, unsigned int op, size_t bytes)
{
	if (vcuda_call_table[op].since_minor > transport->host_minor)
		return -ENOSYS;
	/* Nothing else is in the ring, so there is room. */
	c->command = vcuda_producer_reserve(&producer, (uint32_t)(sizeof(*c->command) + bytes));
	if (!c->command)
		return -EPIPE;
	c->command->op = (uint16_t)op;
	c->command->flags = VCUDA_COMMAND_SYNC;
	c->command->context = 0;
	c->command->slot = 0;
	c->command->thread = 0;
	c->writer = vcuda_writer_init(c->command + 1, bytes);
	return 0;
}

struct reply {
	struct vcuda_slot *slot;
	uint64_t seq;
};

static bool is_missing(void *reply)
{
	const struct reply *r = reply;

	return atomic_load(&r->slot->done) != r->seq;
}

static int wait_transport(void *unused, uint32_t seen, uint32_t timeout_us)
{
	(void)unused;
	return transport->ops->wait(transport, seen, timeout_us);
}

static int wait_reply(struct vcuda_slot *slot, uint64_t seq)
{
	struct reply reply = {slot, seq};
	struct vcuda_shm *shm = transport->shm;

	for (int i = 0; i < TRIES; i++) {
		int err = vcuda_shm_sleep(shm, wait_transport, NULL, PATIENCE_US, is_missing, &reply);

		if (!is_missing(&reply))
			return 0;
		if (err == -EPIPE || err == -ENODEV || err == -EBADF || atomic_load(&shm->lost))
			return -EPIPE;
	}
	return -ETIMEDOUT;
}

static int submit(struct command *c)
{
	struct vcuda_slot *slot = vcuda_shm_slot(transport->shm, 0);
	uint64_t seq = producer.seq + 1;
	uint32_t bytes;
	int err;

	if (vcuda_producer_publish(&producer, c->command, (uint32_t)(c->writer.at - (uint8_t *)c->command)) &&
	    transport->ops->doorbell(transport))
		return -EPIPE;
	err = wait_reply(slot, seq);
	if (err)
		return err;
	bytes = slot->bytes;
	c->reader = vcuda_reader_init(slot->data, bytes > VCUDA_REPLY_MAX ? 0 : bytes);
	return slot->result == CUDA_SUCCESS ? 0 : -EIO;
}

/* Sends `a` and reads the reply into it. */
#define CALL(name, a)                                                                                                  \
	({                                                                                                             \
		struct command c_;                                                                                     \
		int err_ = begin(&c_, VCUDA_OP_##name, vcuda_size_##name(a));                                          \
                                                                                                                       \
		if (!err_) {                                                                                           \
			vcuda_encode_##name(&c_.writer, a);                                                            \
			err_ = submit(&c_);                                                                            \
		}                                                                                                      \
		if (!err_) {                                                                                           \
			vcuda_decode_reply_##name(&c_.reader, a);                                                      \
			err_ = vcuda_reader_finished(&c_.reader) ? 0 : -EPROTO;                                        \
		}                                                                                                      \
		err_;                                                                                                  \
	})

/* ---- connecting ---- */

static void disconnect(void)
{
	if (!transport)
		return;
	transport->ops->forked(transport);
	munmap(transport->shm, VCUDA_SHM_BYTES);
	free(transport);
	transport = NULL;
}

static int open_transport(void)
{
	static const struct client_transport_ops *const all[] = {&client_transport_virtio, &client_transport_local};
	const char *only = getenv("VCUDA_TRANSPORT");
	int err = -ENOENT;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && err == -ENOENT; i++) {
		if (only && *only && strcmp(only, all[i]->name))
			continue;
		err = all[i]->open(&transport, NULL);
		if (err)
			transport = NULL;
	}
	return err;
}

static int ask_devices(struct nvml_host *h)
{
	for (int i = 0; i < h->count; i++) {
		struct vcuda_args_vcudaDeviceInfo a = {.dev = i};
		int err = CALL(vcudaDeviceInfo, &a);

		if (err)
			return err;
		h->devices[i] = a.info;
		h->devices[i].name[sizeof(a.info.name) - 1] = 0;
		h->devices[i].pci_bus_id[sizeof(a.info.pci_bus_id) - 1] = 0;
	}
	return 0;
}

static int ask_host(struct nvml_host *h)
{
	struct vcuda_args_vcudaHello hello = {.environment = ""};
	struct vcuda_args_vcudaSystemInfo system = {0};
	int err = CALL(vcudaHello, &hello);

	if (err)
		return err;
	h->is_local = transport->ops == &client_transport_local;
	h->is_software = !strncmp(hello.info.backend, "cpu", sizeof(hello.info.backend));
	h->driver_version = hello.info.driver_version;
	h->count = hello.info.device_count < 0              ? 0
		   : hello.info.device_count > NVML_DEVICES ? NVML_DEVICES
							    : hello.info.device_count;
	err = CALL(vcudaSystemInfo, &system);
	if (err && err != -ENOSYS)
		return err;
	h->system = system.info;
	h->system.driver_version[sizeof(h->system.driver_version) - 1] = 0;
	return ask_devices(h);
}

/* The description is kept where it says the same as before. */
static int ask(void)
{
	struct nvml_host *h = calloc(1, sizeof(*h));
	int err = h ? ask_host(h) : -ENOMEM;

	if (err || !memcmp(h, atomic_load(&host), sizeof(*h)))
		free(h);
	else
		atomic_store(&host, h);
	return err;
}

static int connect_locked(void)
{
	int err;

	if (transport && !atomic_load(&((struct vcuda_shm *)transport->shm)->lost))
		return 0;
	disconnect();
	err = open_transport();
	if (err)
		return err;
	vcuda_producer_init(&producer, transport->shm);
	err = ask();
	if (err)
		disconnect();
	return err;
}

int nvml_client_open(void)
{
	int err;

	pthread_mutex_lock(&lock);
	err = connect_locked();
	pthread_mutex_unlock(&lock);
	return err;
}

void nvml_client_close(void)
{
	pthread_mutex_lock(&lock);
	disconnect();
	pthread_mutex_unlock(&lock);
}

const struct nvml_host *nvml_client_host(void)
{
	return atomic_load(&host);
}

/* The next call starts anew. */
static void disconnect_if_lost(int err)
{
	if (err == -EPIPE || err == -ETIMEDOUT || err == -EPROTO)
		disconnect();
}

static int processes_locked(int device, struct nvml_processes *to)
{
	struct vcuda_args_vcudaProcesses a = {
		.dev = device, .room = VCUDA_PROCESSES, .pids = to->pids, .bytes = to->bytes};
	int err = connect_locked();

	to->count = 0;
	if (!err)
		err = CALL(vcudaProcesses, &a);
	if (!err)
		to->count = a.count < VCUDA_PROCESSES ? a.count : VCUDA_PROCESSES;
	disconnect_if_lost(err);
	return err;
}

int nvml_client_processes(int device, struct nvml_processes *to)
{
	int err;

	pthread_mutex_lock(&lock);
	err = processes_locked(device, to);
	pthread_mutex_unlock(&lock);
	return err;
}

int nvml_client_peer_status(int device, int peer, int status[NVML_P2P_CAPABILITIES])
{
	struct vcuda_args_vcudaPeerStatus a = {.dev = device, .peer = peer, .status = status};
	int err;

	pthread_mutex_lock(&lock);
	err = connect_locked();
	if (!err)
		err = CALL(vcudaPeerStatus, &a);
	disconnect_if_lost(err);
	pthread_mutex_unlock(&lock);
	return err;
}

int nvml_client_figure(int device, unsigned int figure, uint32_t arguments[], uint64_t values[], unsigned int *result)
{
	struct vcuda_args_vcudaFigure a = {.dev = device, .figure = figure, .arguments = arguments, .values = values};
	int err;

	pthread_mutex_lock(&lock);
	err = connect_locked();
	if (!err)
		err = CALL(vcudaFigure, &a);
	disconnect_if_lost(err);
	pthread_mutex_unlock(&lock);
	*result = a.answer;
	return err;
}

int nvml_client_samples(int device, uint64_t after, struct nvml_samples *to)
{
	struct vcuda_args_vcudaProcessSamples a = {.dev = device,
						   .after = after,
						   .room = VCUDA_PROCESSES,
						   .pids = to->pids,
						   .times = to->times,
						   .sm = to->sm,
						   .memory = to->memory};
	int err;

	pthread_mutex_lock(&lock);
	err = connect_locked();
	if (!err)
		err = CALL(vcudaProcessSamples, &a);
	disconnect_if_lost(err);
	pthread_mutex_unlock(&lock);
	to->result = a.answer;
	to->count = a.count < VCUDA_PROCESSES ? a.count : VCUDA_PROCESSES;
	return err;
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

/* The session is the parent's; the child has no copy of the shared memory, and connects anew when it asks. */
static void after_fork_in_child(void)
{
	if (transport)
		transport->ops->forked(transport);
	transport = NULL;
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void start(void)
{
	const char *verbose = getenv("VCUDA_VERBOSE");

	vcuda_log_verbose(verbose && *verbose);
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
