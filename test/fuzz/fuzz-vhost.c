/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile VMM and a hostile guest for vcudad, in one process: vhost-user messages with descriptors, virtqueues in the
 * guest's memory, kicks. Workers are a program that ends at once.
 *
 * Input: a byte that says what comes, then:
 *   0 to 2  a message: its number (1 byte), flags (1), length (1), which descriptors (1), and its payload
 *   3       guest memory: where (2 bytes, times 8), length (1), and the bytes
 *   4       a kick of a queue (1 byte)
 *   5       a turn of the loop
 */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/virtio_ring.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fds.h"
#include "common/log.h"
#include "host/daemon/limits/ledger.h"
#include "host/daemon/vhost.h"
#include "host/daemon/worker/worker-group.h"
#include "host/daemon/worker/worker-table.h"

#define RAM_BYTES (4u << 20)
#define USER 0x10000000ull
#define MOST_STEPS 200

const struct vcuda_log_program vcuda_log_program = {.name = "fuzz-vhost"};

static struct daemon_options options = {.backend = "cpu",
					.worker = "/bin/true",
					.max_contexts = 4,
					.max_pinned = 64u << 20,
					.warm_device = -1,
					.ready_fd = -1};
static struct daemon_loop loop;
static struct daemon_warm_pool pool;
static struct daemon_vhost vhost;
static int ram = -1, kicks[VCUDA_QUEUES], vmm = -1;
static uint8_t *memory;

struct bytes {
	const uint8_t *at, *end;
};

static uint8_t next(struct bytes *b)
{
	return b->at < b->end ? *b->at++ : 0;
}

static const uint8_t *take(struct bytes *b, size_t *count)
{
	const uint8_t *at = b->at;

	*count = *count < (size_t)(b->end - b->at) ? *count : (size_t)(b->end - b->at);
	b->at += *count;
	return at;
}

/* ---- vcudad ---- */

/*
 * The rings of a queue may be in one place: then each used element makes another one available, and vcudad continues
 * with the queue turn after turn.
 */
#define MOST_TURNS 1000

static unsigned int turns;

static void after_turn(struct daemon_loop *l)
{
	daemon_device_continue(&vhost.device);
	l->stop = !l->again || ++turns == MOST_TURNS;
}

static void turn(void)
{
	turns = 0;
	loop.stop = false;
	loop.again = true;
	daemon_loop_run(&loop);
}

static unsigned int count_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int count = 0;

	CHECK(d);
	while (readdir(d))
		count++;
	closedir(d);
	return count;
}

static void set_up(void)
{
	setenv("VCUDA_LOG", "0", 0);
	vcuda_log_quiet(true);
	CHECK(!daemon_loop_init(&loop) && !daemon_ledger_refresh(&options));
	loop.idle = after_turn;
	/* No control groups: the fuzzer leaves none behind where it ends early. */
	setenv("VCUDA_TEST_GROUPS", "none", 1);
	CHECK(!daemon_worker_groups_open(&loop));
	daemon_worker_table_fd(); /* kept from the first use on */
	daemon_warm_pool_open(&pool, &loop, &options);
	CHECK(!daemon_vhost_open(&vhost, &loop, &options, &pool));
	ram = memfd_create("ram", MFD_CLOEXEC);
	CHECK(ram >= 0 && !ftruncate(ram, RAM_BYTES));
	memory = mmap(NULL, RAM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ram, 0);
	CHECK(memory != MAP_FAILED);
}

static void connect_vmm(void)
{
	int ends[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	vmm = ends[0];
	vhost.listener.accepted(&vhost.listener, ends[1]);
	for (unsigned int i = 0; i < VCUDA_QUEUES; i++)
		kicks[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

/* All that the VM had is gone, workers included. */
static void disconnect_vmm(void)
{
	close(vmm);
	for (unsigned int i = 0; i < VCUDA_QUEUES; i++)
		close(kicks[i]);
	turn();
	while (vhost.fd >= 0 || vhost.device.count) {
		struct pollfd wait = {.fd = loop.epoll, .events = POLLIN};

		poll(&wait, 1, 1000);
		turn();
	}
}

/* ---- what the VMM and the guest do ---- */

static void send_message(const void *message, size_t bytes, unsigned int which)
{
	const int files[] = {ram, kicks[which >> 4 & 1], kicks[2]};
	const struct iovec part = {(void *)(uintptr_t)message, bytes};
	unsigned int count = which & 7;
	int fds[7];

	for (unsigned int i = 0; i < count; i++)
		fds[i] = files[(i + (which >> 5)) % 3];
	vcuda_fds_send(vmm, &part, 1, fds, count, MSG_DONTWAIT);
}

static void step_message(struct bytes *in)
{
	struct daemon_vhost_message m = {.header = {next(in), 0, 0}};
	unsigned int flags = next(in), which;
	size_t bytes = next(in);
	const uint8_t *payload;

	which = next(in);
	payload = take(in, &bytes);
	m.header.flags = flags & 0x10 ? flags : 1 | (flags & 8);
	m.header.size = flags & 0x20 ? flags * 1000u : (uint32_t)bytes;
	memcpy(m.bytes, payload, bytes);
	send_message(&m, sizeof(m.header) + bytes, which);
}

static void step_memory(struct bytes *in)
{
	size_t at = next(in), bytes;
	const uint8_t *from;

	at = (at | (size_t)next(in) << 8) * 8;
	bytes = next(in);
	from = take(in, &bytes);
	memcpy(memory + at, from, bytes);
}

static void drain(void)
{
	char buffer[4096];

	while (recv(vmm, buffer, sizeof(buffer), MSG_DONTWAIT) > 0)
		continue;
}

static void step(struct bytes *in)
{
	uint64_t one = 1;

	switch (next(in) % 6) {
	case 3:
		step_memory(in);
		break;
	case 4:
		CHECK(write(kicks[next(in) % VCUDA_QUEUES], &one, sizeof(one)) == sizeof(one));
		break;
	case 5:
		turn();
		drain();
		break;
	default:
		step_message(in);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct bytes in = {data, data + bytes};
	unsigned int before;

	if (ram < 0)
		set_up();
	memset(memory, 0, 65536 * 8 + 256);
	before = count_descriptors();
	connect_vmm();
	for (unsigned int n = 0; n < MOST_STEPS && in.at < in.end; n++)
		step(&in);
	turn();
	drain();
	turn();
	disconnect_vmm();
	CHECK(count_descriptors() == before);
	return 0;
}

/* ---- a VMM that starts a driver ---- */

static void put(uint8_t **at, const void *from, size_t bytes)
{
	memcpy(*at, from, bytes);
	*at += bytes;
}

static void put_message(uint8_t **at, unsigned int number, const void *payload, unsigned int bytes, unsigned int which)
{
	const uint8_t head[] = {0, (uint8_t)number, 8, (uint8_t)bytes, (uint8_t)which};

	put(at, head, sizeof(head));
	put(at, payload, bytes);
}

static void put_memory(uint8_t **at, unsigned int where, const void *from, unsigned int bytes)
{
	const uint8_t head[] = {3, (uint8_t)(where / 8), (uint8_t)(where / 8 >> 8), (uint8_t)bytes};

	put(at, head, sizeof(head));
	put(at, from, bytes);
}

static void put_queue(uint8_t **at, uint32_t index)
{
	const uint32_t size[] = {index, 8}, base[] = {index, 0}, enable[] = {index, 1};
	const uint64_t place = USER + index * 0x1000, kick = index;
	struct {
		uint32_t index, flags;
		uint64_t descriptors, used, available, log;
	} address = {index, 0, place, place + 0x800, place + 0x400, 0};

	put_message(at, 8, size, sizeof(size), 0);
	put_message(at, 9, &address, sizeof(address), 0);
	put_message(at, 10, base, sizeof(base), 0);
	put_message(at, 18, enable, sizeof(enable), 0);
	put_message(at, 12, &kick, sizeof(kick), 0x21 + 0x10 * index);
}

/* A request of the control queue with its reply behind it, as the nth chain. */
static void put_request(uint8_t **at, unsigned int n, const struct vcuda_ctl_request *r, const struct vcuda_extent *e)
{
	const unsigned int place = 0x8000 + n * 0x200;
	const struct vring_desc d[] = {
		{place, (uint32_t)(sizeof(*r) + r->extents * sizeof(*e)), VRING_DESC_F_NEXT, (uint16_t)(2 * n + 1)},
		{place + 0x100, sizeof(struct vcuda_ctl_reply), VRING_DESC_F_WRITE, 0}};
	const uint16_t index = (uint16_t)(n + 1);

	put_memory(at, place, r, sizeof(*r));
	if (r->extents)
		put_memory(at, place + sizeof(*r), e, r->extents * sizeof(*e));
	put_memory(at, n * 2 * sizeof(d[0]), d, sizeof(d));
	put_memory(at, 0x400, (const uint16_t[]){0, index, 0, 2, 4, 6}, 12);
	put(at, (const uint8_t[]){5, 4, 0, 5}, 4);
}

size_t fuzz_seed(unsigned int number, uint8_t *buffer, size_t room)
{
	struct {
		uint32_t count, padding;
		struct {
			uint64_t gpa, size, user, offset;
		} region;
	} table = {1, 0, {0, RAM_BYTES, USER, 0}};
	const uint64_t features = 1ull << 32 | 1ull << 30, protocol = 1 | 1 << 3 | 1 << 9 | 1 << 15 | 1 << 16;
	const struct vcuda_extent shared = {0x100000, 0x2f0000}, more = {0x10000, 0x4000};
	uint8_t *at = buffer;

	put_message(&at, 1, "", 0, 0);
	put_message(&at, 2, &features, sizeof(features), 0);
	put_message(&at, 16, &protocol, sizeof(protocol), 0);
	put_message(&at, 5, &table, sizeof(table), 1);
	for (uint32_t i = 0; i < VCUDA_QUEUES; i++)
		put_queue(&at, i);
	put_request(&at, 0, &(struct vcuda_ctl_request){.type = VCUDA_CTL_HELLO, .major = VCUDA_CONTROL_MAJOR}, NULL);
	if (number % 4 > 0)
		put_request(
			&at, 1,
			&(struct vcuda_ctl_request){.type = VCUDA_CTL_CREATE, .context = 7, .major = 1, .extents = 1},
			&shared);
	if (number % 4 > 1)
		put_request(&at, 2,
			    &(struct vcuda_ctl_request){.type = VCUDA_CTL_MAP,
							.context = 7,
							.address = 0x200000000000,
							.length = 0x4000,
							.flags = VCUDA_MAP_LAST,
							.extents = 1},
			    &more);
	if (number % 4 > 2)
		put_message(&at, 11, (const uint32_t[]){0, 0}, 8, 0);
	return (size_t)(at - buffer);
}
