/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile peer of a worker's control channel: a guest process (local) or a vcudad that lets everything pass (virtio).
 *
 * Input: a byte (bit 0: virtio), then messages: how many descriptors (1 byte), which (1), how many extents (1), the
 * message's type and flags (1 each), its address, length and offset (8 each), and the extents (24 each). The first one
 * is ATTACH, whatever its type.
 */
#include "fuzz.h"

#include <dirent.h>
#include <stdlib.h>

#include "common/fds.h"
/* The file itself: what it does with one request has no other name. */
#include "host/worker/process/channel-request.c"
#include "host/worker/process/channel.c"

#define RAM_BYTES (8u << 20)
#define MOST_MESSAGES 32

const struct vcuda_log_program vcuda_log_program = {.name = "fuzz-channel"};
const char *worker_backend = "cpu";
struct worker_mappings *worker_mappings;

/* Replacements of the functions of a warm worker. */
void worker_warm_claim(void)
{
}

void worker_warm_start(int device)
{
}

const char *sandbox_mode(void)
{
	return "off";
}

/* There is no vcudad that knows a keeper. */
int worker_keeper_descriptor(const uint64_t key[2])
{
	return -ENOTCONN;
}

/* The worker keeps the files that it is given once. A process of many sessions has these. */
void worker_ram_files(const int *fds, unsigned int count)
{
}

bool worker_ram_is_wanted(void)
{
	return false;
}

int worker_ram_find(unsigned int file, uint64_t offset, uint64_t length, char **address)
{
	static char memory[RAM_BYTES];

	*address = memory + offset % RAM_BYTES;
	return file < channel.ram_count && offset <= RAM_BYTES && length <= RAM_BYTES - offset ? 0 : -EINVAL;
}

static struct worker_session session;
static int peer = -1, files[3]; /* an event, guest RAM, a file on a tmpfs that ends early */

struct bytes {
	const uint8_t *at, *end;
};

static void take(struct bytes *b, void *to, size_t count)
{
	size_t there = (size_t)(b->end - b->at) < count ? (size_t)(b->end - b->at) : count;

	memset(to, 0, count);
	memcpy(to, b->at, there);
	b->at += there;
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
	int ends[2];

	vcuda_log_quiet(true);
	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	peer = fcntl(ends[0], F_DUPFD_CLOEXEC, 20);
	close(ends[0]);
	CHECK(dup2(ends[1], VCUDA_CHANNEL_FD) == VCUDA_CHANNEL_FD);
	if (ends[1] != VCUDA_CHANNEL_FD)
		close(ends[1]);
	files[0] = eventfd(0, EFD_CLOEXEC);
	files[1] = memfd_create("ram", MFD_CLOEXEC);
	files[2] = memfd_create("short", MFD_CLOEXEC);
	CHECK(!ftruncate(files[1], RAM_BYTES) && !ftruncate(files[2], 4096));
}

/* Before libFuzzer opens files: the channel has a number that one of these could have. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	set_up();
	return 0;
}

/* Returns the request as the worker will have it. */
static struct vcuda_channel_message send_message(struct bytes *in, unsigned int type)
{
	static struct vcuda_channel_extent runs[256];
	struct vcuda_channel_message m = {.major = VCUDA_PROTOCOL_MAJOR, .minor = VCUDA_PROTOCOL_MINOR};
	int fds[8];
	struct iovec parts[2] = {{&m, sizeof(m)}, {runs, 0}};
	uint8_t head[5];
	unsigned int count;

	take(in, head, sizeof(head));
	take(in, &m.address, 24);
	m.type = type ? type : head[3];
	m.flags = head[4];
	m.extents = head[2];
	take(in, runs, m.extents * sizeof(runs[0]));
	parts[1].iov_len = m.extents * sizeof(runs[0]);
	count = head[0] & 7;
	for (unsigned int i = 0; i < count; i++)
		fds[i] = files[i < 2 && type ? 0 : (head[1] + i) % 3];
	CHECK(vcuda_fds_send(peer, parts, 2, fds, count, 0) >= 0);
	return m;
}

/* One answer, with what comes with it. */
static void read_answer(void)
{
	struct vcuda_channel_message m;
	const struct iovec part = {&m, sizeof(m)};
	struct vcuda_fds fds;

	CHECK(vcuda_fds_receive(peer, &part, 1, &fds, 0) == sizeof(m));
	vcuda_fds_close(&fds, 0);
}

static void answer_one(void)
{
	static struct worker_request q;
	bool replied = false;
	int err;

	CHECK(worker_request_receive(&q) == 1);
	err = serve_request(&session, &q, &replied);
	if (!replied)
		worker_request_reply(&q, err, NULL, 0);
	worker_request_close_fds(&q);
}

static void end_session(const struct worker_request *mapped, unsigned int count)
{
	uint64_t at = (uint64_t)(uintptr_t)session.shm;
	bool own = at >= WORKER_ARENA_END && at < WORKER_ARENA_END + WORKER_OWN_AREAS * WORKER_OWN_BYTES;

	for (unsigned int i = 0; i < count; i++)
		remove_mapping(&session, &mapped[i]);
	if (session.shm)
		munmap(session.shm, own ? WORKER_OWN_BYTES : channel.local ? VCUDA_SHM_BYTES : MAX_SHARED_BYTES);
	worker_mappings_destroy(session.mappings);
	worker_request_close_fds(&attached);
	channel.ram_count = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct worker_request mapped[MOST_MESSAGES];
	struct bytes in = {data + 1, data + bytes};
	unsigned int count = 0, before;
	int err;

	if (peer < 0)
		set_up();
	if (!bytes)
		return 0;
	before = count_descriptors();
	session = (struct worker_session){.doorbell = -1, .notify = -1, .mappings = worker_mappings_create()};
	CHECK(session.mappings);
	send_message(&in, VCUDA_CHANNEL_ATTACH);
	err = worker_channel_attach(&session, data[0] & 1 ? WORKER_CHANNEL_VIRTIO : WORKER_CHANNEL_LOCAL);
	read_answer();
	while (!err && count < MOST_MESSAGES && in.at < in.end) {
		mapped[count++].m = send_message(&in, 0);
		answer_one();
		read_answer();
	}
	end_session(mapped, count);
	CHECK(count_descriptors() == before);
	return 0;
}

/* ---- inputs that a worker takes ---- */

static uint8_t *put(uint8_t *at, const void *from, size_t bytes)
{
	memcpy(at, from, bytes);
	return at + bytes;
}

static uint8_t *put_message(uint8_t *at, const uint8_t *head, uint64_t address, uint64_t length,
			    const struct vcuda_channel_extent *extent)
{
	const uint64_t numbers[] = {address, length, 0};

	at = put(at, head, 5);
	at = put(at, numbers, sizeof(numbers));
	return extent ? put(at, extent, sizeof(*extent)) : at;
}

size_t fuzz_seed(unsigned int number, uint8_t *buffer, size_t room)
{
	const struct vcuda_channel_extent shared = {0, 0, 0, VCUDA_SHM_BYTES}, part = {0, 0, 0x1000, 0x4000};
	const uint8_t attach_local[] = {0, 0, 0, 0, 0}, attach_virtio[] = {3, 2, 1, 0, 0};
	const uint8_t create[] = {0, 0, 0, VCUDA_CHANNEL_MAPPING_CREATE, 0},
		      adopt[] = {1, 1, 0, VCUDA_CHANNEL_MAPPING_ADOPT, 1};
	const uint8_t map[] = {0, 0, 1, VCUDA_CHANNEL_MAPPING_MAP,
			       (uint8_t)(VCUDA_MAP_LAST | (number & 2 ? VCUDA_MAP_DIRECT : 1))};
	const uint8_t unmap[] = {0, 0, 0, VCUDA_CHANNEL_MAPPING_UNMAP, 0};
	uint8_t *at = buffer;

	*at++ = number & 1;
	if (number & 1) {
		at = put_message(at, attach_virtio, 0, 0, &shared);
		at = put_message(at, map, WORKER_ARENA_START, 0x4000, &part);
	} else {
		at = put_message(at, attach_local, 0, 0, NULL);
		at = put_message(at, number & 2 ? create : adopt, WORKER_ARENA_START, 0x4000, NULL);
	}
	at = put_message(at, unmap, WORKER_ARENA_START, 0x4000, NULL);
	return (size_t)(at - buffer);
}
