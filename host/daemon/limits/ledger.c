/* SPDX-License-Identifier: Apache-2.0 */
#include "limits/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "options/quotas.h"

#define MESSAGES_PER_TURN 16

/* Beyond what a worker needs it gets at most this part of what is left, so that little of a scarce rest is idle. */
#define SPARE_PART 8

static struct {
	struct vcuda_ledger_page *page; /* also the daemon's own books: workers cannot write it */
	int fd;                         /* -1: there is no page */
} ledger = {.fd = -1};

/* The seals leave this process's mapping the only one that can write, and keep the size. */
static int make_page(void)
{
	int fd = memfd_create("vcuda-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING), error;

	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, sizeof(*ledger.page))) {
		ledger.page = mmap(NULL, sizeof(*ledger.page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (ledger.page != MAP_FAILED &&
		    !fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
			ledger.fd = fd;
			return 0;
		}
	}
	error = -errno;
	close(fd);
	return error;
}

static void show(_Atomic uint64_t *limit, uint64_t value)
{
	if (atomic_load_explicit(limit, memory_order_relaxed) != value)
		atomic_store(limit, value);
}

static const enum daemon_quota process_quotas[VCUDA_LEDGER_PROCESS_LIMITS] = {
	[VCUDA_LEDGER_STREAMS] = DAEMON_QUOTA_STREAMS,
	[VCUDA_LEDGER_HANDLES] = DAEMON_QUOTA_HANDLES,
	[VCUDA_LEDGER_QUEUED_COMMANDS] = DAEMON_QUOTA_QUEUED_COMMANDS,
	[VCUDA_LEDGER_QUEUED_BYTES] = DAEMON_QUOTA_QUEUED,
	[VCUDA_LEDGER_MODULE_BYTES] = DAEMON_QUOTA_MODULE_BYTES,
};

int daemon_ledger_refresh(const struct daemon_options *options)
{
	int status = ledger.fd < 0 ? make_page() : 0;
	struct vcuda_ledger_page *page = ledger.page;

	if (status)
		return status;
	show(&page->limit, options->max_device_memory);
	show(&page->process_limit, options->max_process_device_memory);
	for (unsigned int i = 0; i < VCUDA_LEDGER_PROCESS_LIMITS; i++)
		show(&page->process_limits[i], daemon_quota_get(options, process_quotas[i]));
	return 0;
}

uint64_t daemon_ledger_granted(unsigned int gpu)
{
	return ledger.fd >= 0 && gpu < VCUDA_LEDGER_GPUS ? atomic_load(&ledger.page->granted[gpu]) : 0;
}

uint64_t daemon_ledger_most_granted(void)
{
	uint64_t most = 0;

	for (unsigned int gpu = 0; gpu < VCUDA_LEDGER_GPUS; gpu++)
		if (daemon_ledger_granted(gpu) > most)
			most = daemon_ledger_granted(gpu);
	return most;
}

uint64_t daemon_ledger_row_most_granted(const struct daemon_ledger_row *row)
{
	uint64_t most = 0;

	for (unsigned int gpu = 0; gpu < VCUDA_LEDGER_GPUS; gpu++)
		if (row->granted[gpu] > most)
			most = row->granted[gpu];
	return most;
}

uint64_t daemon_ledger_row_granted(const struct daemon_ledger_row *row)
{
	uint64_t sum = 0;

	for (unsigned int gpu = 0; gpu < VCUDA_LEDGER_GPUS; gpu++)
		sum += row->granted[gpu];
	return sum;
}

static uint64_t left(uint64_t limit, uint64_t granted)
{
	return granted < limit ? limit - granted : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t room(const struct daemon_ledger_row *row, unsigned int gpu)
{
	return least(left(atomic_load(&ledger.page->limit), daemon_ledger_granted(gpu)),
		     left(atomic_load(&ledger.page->process_limit), row->granted[gpu]));
}

/* At most the room that is left. */
static void grant(struct daemon_ledger_row *row, unsigned int gpu, uint64_t bytes)
{
	row->granted[gpu] += bytes;
	atomic_fetch_add(&ledger.page->granted[gpu], bytes);
}

static void take_back(struct daemon_ledger_row *row, unsigned int gpu, uint64_t bytes)
{
	bytes = least(bytes, row->granted[gpu]);
	row->granted[gpu] -= bytes;
	atomic_fetch_sub(&ledger.page->granted[gpu], bytes);
}

static void take_all_back(struct daemon_ledger_row *row)
{
	for (unsigned int gpu = 0; gpu < VCUDA_LEDGER_GPUS; gpu++)
		if (row->granted[gpu])
			take_back(row, gpu, row->granted[gpu]);
}

static void log_refusal(const struct daemon_ledger_row *row, unsigned int gpu, uint64_t bytes, bool by_process)
{
	vcuda_log_peer(
		"guest process %u (worker %d) cannot have %llu KiB more of GPU %u: of %llu MiB that %s may have, %llu "
		"MiB are "
		"in use (raise %s)",
		*row->guest_pid, row->worker, (unsigned long long)(bytes >> 10), gpu,
		(unsigned long long)((by_process ? atomic_load(&ledger.page->process_limit)
						 : atomic_load(&ledger.page->limit)) >>
				     20),
		by_process ? "one process" : "all processes",
		(unsigned long long)((by_process ? row->granted[gpu] : daemon_ledger_granted(gpu)) >> 20),
		by_process ? "--max-process-device-memory" : "--max-device-memory");
}

/* A worker asks twice before it refuses its guest process the memory. The log has the first refusal since a grant. */
static void refuse(struct daemon_ledger_row *row, unsigned int gpu, uint64_t bytes)
{
	bool by_process = bytes > left(atomic_load(&ledger.page->process_limit), row->granted[gpu]);

	if (++row->refusals % 2)
		return;
	daemon_quota_refuse(by_process ? DAEMON_QUOTA_PROCESS_DEVICE_MEMORY : DAEMON_QUOTA_DEVICE_MEMORY);
	if (row->refusals == 2)
		log_refusal(row, gpu, bytes, by_process);
}

/* False: the worker does not read. */
static bool reply(struct daemon_ledger_row *row, const struct vcuda_ledger_message *m, int page)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {(void *)m, sizeof(*m)};
	struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};

	if (page >= 0) {
		h.msg_control = &control;
		h.msg_controllen = sizeof(control);
		control.align = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.align), &page, sizeof(int));
	}
	/* A worker that has ended meanwhile broke no rule. */
	return sendmsg(row->fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(*m) || errno == EPIPE || errno == ECONNRESET;
}

static bool serve_take(struct daemon_ledger_row *row, const struct vcuda_ledger_message *m)
{
	struct vcuda_ledger_message answer = {.type = m->type, .gpu = m->gpu};
	uint64_t there = room(row, m->gpu);

	if (m->bytes && m->bytes <= there) {
		answer.bytes = m->bytes + least(m->spare, (there - m->bytes) / SPARE_PART);
		row->refusals = 0;
	} else {
		refuse(row, m->gpu, m->bytes);
	}
	if (!reply(row, &answer, -1))
		return false;
	grant(row, m->gpu, answer.bytes);
	return true;
}

/* False: the worker breaks the rules. */
static bool serve(struct daemon_ledger_row *row, const struct vcuda_ledger_message *m)
{
	if (m->gpu >= VCUDA_LEDGER_GPUS)
		return false;
	switch (m->type) {
	case VCUDA_LEDGER_JOIN:
		take_all_back(row);
		return reply(row, m, ledger.fd);
	case VCUDA_LEDGER_TAKE:
		return serve_take(row, m);
	case VCUDA_LEDGER_NOTE:
		/* Where a limit has come meanwhile, no more than fits is in the books: it is no way around the limit.
		 */
		grant(row, m->gpu, least(m->bytes, room(row, m->gpu)));
		return true;
	case VCUDA_LEDGER_GIVE:
		take_back(row, m->gpu, m->bytes);
		return true;
	case VCUDA_LEDGER_SYNC:
		return reply(row, m, -1);
	case VCUDA_LEDGER_REFUSED:
		if (m->gpu >= VCUDA_LEDGER_PROCESS_LIMITS)
			return false;
		daemon_quota_refuse(process_quotas[m->gpu]);
		return true;
	default:
		return false;
	}
}

static void close_socket(struct daemon_ledger_row *row)
{
	daemon_source_remove(row->loop, &row->source);
	if (row->fd >= 0)
		close(row->fd);
	row->fd = -1;
}

static void ready(struct daemon_source *source, uint32_t events)
{
	struct daemon_ledger_row *row = container_of(source, struct daemon_ledger_row, source);

	/* No room for control data: descriptors that a worker sends us are closed by the kernel. */
	for (int turn = 0; turn < MESSAGES_PER_TURN; turn++) {
		struct vcuda_ledger_message m;
		ssize_t bytes = recv(row->fd, &m, sizeof(m), MSG_DONTWAIT | MSG_TRUNC);

		if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (bytes <= 0) {
			/* It ends, or does without; what it was granted stays in its row until it is gone. */
			close_socket(row);
			return;
		}
		if (bytes == sizeof(m) && serve(row, &m))
			continue;
		vcuda_log_peer("worker %d breaks the rules of the ledger of device memory: it is killed", row->worker);
		close_socket(row);
		row->broken(row);
		return;
	}
}

int daemon_ledger_open(struct daemon_ledger_row *row, struct daemon_loop *loop, int *worker_end)
{
	int error, pair[2];

	*row = (struct daemon_ledger_row){.loop = loop, .fd = -1, .source = {.fd = -1, .ready = ready}};
	if (ledger.fd < 0)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	/* Above the descriptors that a worker is given, which are set one after the other. */
	*worker_end = fcntl(pair[1], F_DUPFD_CLOEXEC, VCUDA_LEDGER_FD);
	error = -errno;
	close(pair[1]);
	if (*worker_end >= 0) {
		row->fd = pair[0];
		return 0;
	}
	close(pair[0]);
	return error;
}

int daemon_ledger_start(struct daemon_ledger_row *row, pid_t worker, const uint32_t *guest_pid,
			void (*broken)(struct daemon_ledger_row *row))
{
	row->worker = worker;
	row->guest_pid = guest_pid;
	row->broken = broken;
	return daemon_source_add(row->loop, &row->source, row->fd, EPOLLIN);
}

void daemon_ledger_close(struct daemon_ledger_row *row)
{
	close_socket(row);
	if (ledger.fd >= 0)
		take_all_back(row);
}
