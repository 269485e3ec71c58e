/* SPDX-License-Identifier: Apache-2.0 */
#include "limits/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/descriptors.h"
#include "common/fds.h"
#include "common/log.h"
#include "options/quotas.h"

#define MESSAGES_PER_TURN 16

/* Beyond what a worker needs it gets at most this part of what is left, so that little of a scarce rest is idle. */
#define SPARE_PART 8

static uint64_t left(uint64_t limit, uint64_t granted)
{
	return granted < limit ? limit - granted : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static struct {
	struct vcuda_ledger_page *page; /* also the daemon's own books: workers cannot write it */
	int fd;                         /* -1: there is no page */
	bool is_overcommitted;          /* the limit of all workers is that of all VMs */
	bool may_be_on_gpu;
	bool has_demand;                             /* the workers have pages that say what they do */
	uint32_t next_number;                        /* of the last worker with such a page */
	void (*drained)(void);                       /* NULL: not of interest */
	const struct daemon_ledger_growth *growth;   /* NULL: the limits alone decide */
	uint64_t waits;                              /* how many rows have begun to wait */
	const struct daemon_ledger_keepers *keepers; /* NULL: there are none */
	struct vcuda_list rows;
} ledger = {.fd = -1, .rows = {&ledger.rows, &ledger.rows}};

/*
 * A page of zeroes that keeps its size. With F_SEAL_FUTURE_WRITE in `seals` this process's mapping stays the only one
 * that can write. Returns the descriptor, or -errno.
 */
static int make_page(const char *name, size_t bytes, int seals, void **page)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), error;

	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, (off_t)bytes)) {
		*page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (*page != MAP_FAILED && !fcntl(fd, F_ADD_SEALS, seals | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
			return fd;
		error = -errno;
		if (*page != MAP_FAILED)
			munmap(*page, bytes);
	} else {
		error = -errno;
	}
	*page = NULL;
	close(fd);
	return error;
}

static int make_ledger_page(void)
{
	void *page;
	int fd = make_page("vcuda-ledger", sizeof(*ledger.page), F_SEAL_FUTURE_WRITE, &page);

	if (fd < 0)
		return fd;
	ledger.page = page;
	ledger.fd = fd;
	return 0;
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
	[VCUDA_LEDGER_COMPILE_SECONDS] = DAEMON_QUOTA_COMPILE_TIME,
	[VCUDA_LEDGER_COMPILE_BYTES] = DAEMON_QUOTA_COMPILE_MEMORY,
	[VCUDA_LEDGER_KERNEL_SECONDS] = DAEMON_QUOTA_KERNEL_TIME,
};

int daemon_ledger_refresh(const struct daemon_options *options)
{
	int status = ledger.fd < 0 ? make_ledger_page() : 0;
	struct vcuda_ledger_page *page = ledger.page;

	if (status)
		return status;
	ledger.has_demand = options->share || options->overcommit;
	ledger.may_be_on_gpu = strcmp(options->backend, "cpu");
	ledger.is_overcommitted = options->overcommit && options->overcommit < options->max_device_memory;
	/* No VM has more than there is for all of them. */
	show(&page->limit,
	     options->overcommit ? least(options->max_device_memory, options->overcommit) : options->max_device_memory);
	show(&page->process_limit, options->max_process_device_memory);
	for (unsigned int i = 0; i < VCUDA_LEDGER_PROCESS_LIMITS; i++)
		show(&page->process_limits[i], daemon_quota_get(options, process_quotas[i]));
	return 0;
}

bool daemon_ledger_may_be_on_gpu(void)
{
	return ledger.may_be_on_gpu;
}

uint64_t daemon_ledger_granted(unsigned int gpu)
{
	return ledger.fd >= 0 && gpu < VCUDA_LEDGER_GPUS ? atomic_load(&ledger.page->granted[gpu]) : 0;
}

static uint64_t count_of(const struct daemon_ledger_row *row, unsigned int gpu)
{
	return row->granted[gpu] + row->surplus[gpu];
}

uint64_t daemon_ledger_limit(void)
{
	return atomic_load(&ledger.page->limit);
}

uint64_t daemon_ledger_process_limit(void)
{
	return atomic_load(&ledger.page->process_limit);
}

static uint64_t room(const struct daemon_ledger_row *row, unsigned int gpu)
{
	return least(left(atomic_load(&ledger.page->limit), daemon_ledger_granted(gpu)),
		     left(atomic_load(&ledger.page->process_limit), count_of(row, gpu)));
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

void daemon_ledger_on_keepers(const struct daemon_ledger_keepers *keepers)
{
	ledger.keepers = keepers;
}

void daemon_ledger_keep(unsigned int gpu, uint64_t before, uint64_t bytes)
{
	if (ledger.fd >= 0)
		atomic_fetch_add(&ledger.page->granted[gpu], bytes - before);
}

static void take_all_back(struct daemon_ledger_row *row)
{
	if (ledger.keepers)
		ledger.keepers->leave(row);
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
		(unsigned long long)((by_process ? count_of(row, gpu) : daemon_ledger_granted(gpu)) >> 20),
		by_process                ? "--max-process-device-memory"
		: ledger.is_overcommitted ? "--overcommit"
					  : "--max-device-memory");
}

/* A worker asks twice before it refuses its guest process the memory. The log has the first refusal since a grant. */
static void refuse(struct daemon_ledger_row *row, unsigned int gpu, uint64_t bytes)
{
	bool by_process = bytes > left(atomic_load(&ledger.page->process_limit), count_of(row, gpu));

	if (++row->refusals % 2)
		return;
	daemon_quota_refuse(by_process ? DAEMON_QUOTA_PROCESS_DEVICE_MEMORY : DAEMON_QUOTA_DEVICE_MEMORY);
	if (row->refusals == 2)
		log_refusal(row, gpu, bytes, by_process);
}

/* False: the worker does not read. */
static bool reply_with(struct daemon_ledger_row *row, const struct vcuda_ledger_message *m, const int *fds,
		       unsigned int count)
{
	const struct iovec part = {(void *)m, sizeof(*m)};
	ssize_t bytes = vcuda_fds_send(row->fd, &part, 1, fds, count, MSG_DONTWAIT);

	/* A worker that has ended meanwhile broke no rule. */
	return bytes == sizeof(*m) || bytes == -EPIPE || bytes == -ECONNRESET;
}

static bool reply(struct daemon_ledger_row *row, const struct vcuda_ledger_message *m)
{
	return reply_with(row, m, NULL, 0);
}

/* The reply carries the descriptors of the ledger's page, and of turns if the worker takes part in them. */
static bool serve_join(struct daemon_ledger_row *row, const struct vcuda_ledger_message *m)
{
	const int fds[VCUDA_LEDGER_JOIN_FDS] = {ledger.fd, row->demand_fd, row->drained_fd};

	take_all_back(row);
	row->want = row->refused = 0;
	return reply_with(row, m, fds, row->demand_fd >= 0 ? VCUDA_LEDGER_JOIN_FDS : 1);
}

static bool serve_keeper(struct daemon_ledger_row *row, const struct vcuda_ledger_message *m)
{
	int fd = ledger.keepers ? ledger.keepers->connect(row) : -1;
	bool done = reply_with(row, m, &fd, fd >= 0);

	if (fd >= 0)
		close(fd);
	return done;
}

/* ---- growth that other VMs must make room for ---- */

static uint64_t growth_room(bool now)
{
	return ledger.growth ? ledger.growth->room(now) : UINT64_MAX;
}

static enum vcuda_ledger_room refuse_growth(struct daemon_ledger_row *row, uint64_t bytes)
{
	daemon_quota_refuse(DAEMON_QUOTA_DEVICE_MEMORY);
	if (!row->refusals++)
		vcuda_log_peer(
			"guest process %u (worker %d) cannot have %llu KiB more of the device's memory: other VMs "
			"have it, and do not make room (see --overcommit)",
			*row->guest_pid, row->worker, (unsigned long long)(bytes >> 10));
	row->refused = 0;
	return VCUDA_LEDGER_NO_ROOM;
}

/* The limits let the worker have it, and the VM has no room for it now. */
static enum vcuda_ledger_room defer(struct daemon_ledger_row *row, uint64_t bytes, bool now)
{
	if (now || (row->refused && bytes >= row->refused))
		return refuse_growth(row, bytes);
	if (!row->want)
		row->order = ++ledger.waits;
	row->want = bytes > row->want ? bytes : row->want;
	ledger.growth->want();
	return VCUDA_LEDGER_WAIT;
}

void daemon_ledger_on_growth(const struct daemon_ledger_growth *growth)
{
	ledger.growth = growth;
}

static void choose_first(struct daemon_ledger_row *row, void *first)
{
	struct daemon_ledger_row **chosen = first;

	if (row->want && ledger.growth->counts(row) && (!*chosen || row->order < (*chosen)->order))
		*chosen = row;
}

/* NULL: no row waits that counts. */
static struct daemon_ledger_row *first_waiting(void)
{
	struct daemon_ledger_row *first = NULL;

	if (ledger.growth)
		daemon_ledger_each(choose_first, &first);
	return first;
}

uint64_t daemon_ledger_wanted(void)
{
	const struct daemon_ledger_row *first = first_waiting();

	return first ? first->want : 0;
}

static void end_wait(struct daemon_ledger_row *row, void *unused)
{
	row->want = row->refused = 0;
}

void daemon_ledger_end_wait(bool refused)
{
	struct daemon_ledger_row *first = refused ? first_waiting() : NULL;
	uint64_t bytes = first ? first->want : 0;

	daemon_ledger_each(end_wait, NULL);
	if (first)
		first->refused = bytes;
	atomic_fetch_add(&ledger.page->room, 1);
	syscall(SYS_futex, &ledger.page->room, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool serve_take(struct daemon_ledger_row *row, const struct vcuda_ledger_message *m)
{
	struct vcuda_ledger_message answer = {.type = m->type, .gpu = m->gpu};
	uint64_t there = room(row, m->gpu), growth = growth_room(false);
	bool now = m->type == VCUDA_LEDGER_TAKE_NOW;

	if (!m->bytes || m->bytes > there) {
		refuse(row, m->gpu, m->bytes);
	} else if (m->bytes > (now ? growth_room(true) : growth)) {
		answer.spare = defer(row, m->bytes, now);
	} else {
		answer.bytes =
			m->bytes + least(least(m->spare, (there - m->bytes) / SPARE_PART), left(growth, m->bytes));
		row->refusals = 0;
		/* Another thread of the worker may wait still. */
		if (m->bytes >= row->refused)
			row->refused = 0;
	}
	/* The page has it when the worker hears of it. A worker that does not read is killed, and its grants go. */
	grant(row, m->gpu, answer.bytes);
	return reply(row, &answer);
}

/* False: the worker breaks the rules. */
static bool serve(struct daemon_ledger_row *row, const struct vcuda_ledger_message *m)
{
	if (m->gpu >= VCUDA_LEDGER_GPUS)
		return false;
	switch (m->type) {
	case VCUDA_LEDGER_JOIN:
		return serve_join(row, m);
	case VCUDA_LEDGER_TAKE:
	case VCUDA_LEDGER_TAKE_NOW:
		return serve_take(row, m);
	case VCUDA_LEDGER_NOTE:
		/* Where a limit has come meanwhile, no more than fits is in the books: it is no way around the limit.
		 */
		grant(row, m->gpu, least(least(m->bytes, growth_room(true)), room(row, m->gpu)));
		return true;
	case VCUDA_LEDGER_GIVE:
		/* The keeper's count must include memory that descriptors hold before it is taken off here. */
		if (ledger.keepers)
			ledger.keepers->settle(row);
		take_back(row, m->gpu, m->bytes);
		return true;
	case VCUDA_LEDGER_SYNC:
		return reply(row, m);
	case VCUDA_LEDGER_KEEPER:
		return serve_keeper(row, m);
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
			/*
			 * The worker is ending, or goes on without the ledger; its grants stay in its row until it has
			 * ended.
			 */
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

static void close_demand(struct daemon_ledger_row *row)
{
	daemon_source_remove(row->loop, &row->drained);
	if (row->drained_fd >= 0)
		close(row->drained_fd);
	if (row->demand_fd >= 0)
		close(row->demand_fd);
	if (row->demand)
		munmap(row->demand, sizeof(*row->demand));
	row->drained_fd = row->demand_fd = -1;
	row->demand = NULL;
}

static void has_number(struct daemon_ledger_row *row, void *number)
{
	if (row->number == *(const uint32_t *)number)
		*(uint32_t *)number = 0;
}

/* One that no worker has. vcudad serves fewer workers than there are numbers. */
static uint32_t free_number(void)
{
	uint32_t number;

	do {
		number = ledger.next_number = ledger.next_number % VCUDA_TURNS_MOST_NUMBER + 1;
		daemon_ledger_each(has_number, &number);
	} while (!number);
	return number;
}

/* Without the page a worker would run whenever it likes. */
static int make_demand(struct daemon_ledger_row *row)
{
	void *page = NULL;
	int status;

	if (!ledger.has_demand)
		return 0;
	row->demand_fd = make_page("vcuda-demand", sizeof(*row->demand), 0, &page);
	if (row->demand_fd < 0)
		return row->demand_fd;
	row->demand = page;
	row->number = row->demand->number = free_number();
	row->drained_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (row->drained_fd >= 0)
		return 0;
	status = -errno;
	close_demand(row);
	return status;
}

static void drained(struct daemon_source *source, uint32_t events)
{
	const struct daemon_ledger_row *row = container_of(source, struct daemon_ledger_row, drained);

	if (ledger.drained)
		ledger.drained();
	if (ledger.growth && row->demand && atomic_load(&row->demand->waiting))
		ledger.growth->waits();
}

void daemon_ledger_on_drained(void (*call)(void))
{
	ledger.drained = call;
}

void daemon_ledger_set_turns(uint32_t state)
{
	if (atomic_exchange(&ledger.page->turns, state) != state)
		syscall(SYS_futex, &ledger.page->turns, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int daemon_ledger_open(struct daemon_ledger_row *row, struct daemon_loop *loop, int *worker_end)
{
	int pair[2], status;

	*row = (struct daemon_ledger_row){.loop = loop,
					  .guest = DAEMON_LEDGER_NO_GUEST,
					  .fd = -1,
					  .demand_fd = -1,
					  .drained_fd = -1,
					  .source = {.fd = -1, .ready = ready},
					  .drained = {.fd = -1, .ready = drained}};
	vcuda_list_init(&row->entry);
	if (ledger.fd < 0)
		return -ENOMEM;
	status = make_demand(row);
	if (status)
		return status;
	/* Above the descriptors that a worker is given, which are set one after the other. */
	status = vcuda_descriptors_pair(VCUDA_LEDGER_FD, pair);
	if (status) {
		close_demand(row);
		return status;
	}
	row->fd = pair[0];
	*worker_end = pair[1];
	return 0;
}

int daemon_ledger_start(struct daemon_ledger_row *row, pid_t worker, const uint32_t *guest_pid,
			void (*broken)(struct daemon_ledger_row *row))
{
	int status = daemon_source_add(row->loop, &row->source, row->fd, EPOLLIN);

	row->worker = worker;
	row->guest_pid = guest_pid;
	row->broken = broken;
	vcuda_list_add(&row->entry, &ledger.rows);
	/* Edge triggered and never read: a read could block on a worker that has emptied the counter before. */
	if (!status && row->drained_fd >= 0)
		status = daemon_source_add(row->loop, &row->drained, row->drained_fd, EPOLLIN | EPOLLET);
	return status;
}

void daemon_ledger_end_work(struct daemon_ledger_row *row)
{
	close_demand(row);
	row->stopped = false;
}

void daemon_ledger_close(struct daemon_ledger_row *row)
{
	close_socket(row);
	vcuda_list_remove(&row->entry);
	close_demand(row);
	if (ledger.fd < 0)
		return;
	take_all_back(row);
	for (unsigned int gpu = 0; gpu < VCUDA_LEDGER_GPUS; gpu++)
		daemon_ledger_set_surplus(row, gpu, 0);
}

void daemon_ledger_each(void (*call)(struct daemon_ledger_row *row, void *argument), void *argument)
{
	struct daemon_ledger_row *row, *after;

	vcuda_list_for_each_safe (row, after, &ledger.rows, struct daemon_ledger_row, entry)
		call(row, argument);
}

void daemon_ledger_set_surplus(struct daemon_ledger_row *row, unsigned int gpu, uint64_t bytes)
{
	if (row->surplus[gpu] == bytes)
		return;
	atomic_fetch_add(&ledger.page->granted[gpu], bytes - row->surplus[gpu]);
	row->surplus[gpu] = bytes;
}

/* ---- moves ---- */

unsigned int daemon_ledger_row_gpu(const struct daemon_ledger_row *row)
{
	unsigned int most = 0;

	for (unsigned int gpu = 1; gpu < VCUDA_LEDGER_GPUS; gpu++)
		if (count_of(row, gpu) > count_of(row, most))
			most = gpu;
	return most;
}

static bool may_get(const struct daemon_ledger_row *row, unsigned int gpu, unsigned int from)
{
	return daemon_ledger_granted(gpu) - count_of(row, gpu) + count_of(row, from) <= daemon_ledger_limit();
}

bool daemon_ledger_row_may_swap(const struct daemon_ledger_row *row, unsigned int gpu, unsigned int other)
{
	if (ledger.keepers && ledger.keepers->is_connected(row))
		return false;
	return may_get(row, gpu, other) && may_get(row, other, gpu);
}

void daemon_ledger_row_swap(struct daemon_ledger_row *row, unsigned int gpu, unsigned int other)
{
	uint64_t granted = row->granted[gpu], others = row->granted[other];

	daemon_ledger_set_surplus(row, gpu, 0);
	daemon_ledger_set_surplus(row, other, 0);
	row->times[gpu] = row->times[other] = 0;
	take_back(row, gpu, granted);
	take_back(row, other, others);
	grant(row, gpu, others);
	grant(row, other, granted);
}
