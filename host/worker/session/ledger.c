/* SPDX-License-Identifier: Apache-2.0 */
#include "session/ledger.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "protocol/ipc/ledger.h"

#define CHUNK_BYTES (32ull << 20)

/* Of a limit: the chunk, and of what is left of it: the surplus that may stay. */
#define CHUNK_PART 64
#define SURPLUS_PART 8

static struct {
	pthread_once_t once;
	pthread_mutex_t lock;
	const struct vcuda_ledger_page *page; /* NULL: there is no ledger */
	bool unsettled;                       /* vcudad was told what the page may not show yet */
	struct {
		uint64_t granted; /* less than `used` only where a note did not find room in the socket */
		uint64_t used;
	} gpus[VCUDA_LEDGER_GPUS];
} ledger = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static bool is_limited(void)
{
	return atomic_load(&ledger.page->limit) < VCUDA_LEDGER_NO_LIMIT ||
	       atomic_load(&ledger.page->process_limit) < VCUDA_LEDGER_NO_LIMIT;
}

static bool tell(uint32_t type, unsigned int gpu, uint64_t bytes)
{
	struct vcuda_ledger_message m = {.type = type, .gpu = gpu, .bytes = bytes};

	ledger.unsettled = true;
	return send(VCUDA_LEDGER_FD, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(m);
}

/* The reply to `m` replaces `m`. *fd: the descriptor that comes with the reply, -1: none. */
static bool ask(struct vcuda_ledger_message *m, int *fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {m, sizeof(*m)};
	struct msghdr h = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	const struct cmsghdr *c;
	ssize_t n;

	*fd = -1;
	if (send(VCUDA_LEDGER_FD, m, sizeof(*m), MSG_NOSIGNAL) != sizeof(*m))
		return false;
	do {
		n = recvmsg(VCUDA_LEDGER_FD, &h, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	c = n == sizeof(*m) ? CMSG_FIRSTHDR(&h) : NULL;
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(c), sizeof(int));
	ledger.unsettled = false;
	return n == sizeof(*m);
}

static void join(void)
{
	struct vcuda_ledger_message m = {.type = VCUDA_LEDGER_JOIN};
	void *page;
	int fd;

	if (!ask(&m, &fd) || fd < 0)
		return;
	page = mmap(NULL, sizeof(*ledger.page), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (page != MAP_FAILED)
		ledger.page = page;
}

static bool has_ledger(void)
{
	pthread_once(&ledger.once, join);
	return ledger.page;
}

static uint64_t chunk(void)
{
	uint64_t limit = least(atomic_load(&ledger.page->limit), atomic_load(&ledger.page->process_limit)) / CHUNK_PART;

	return least(CHUNK_BYTES, limit);
}

/* ---- with the lock held ---- */

static uint64_t surplus(unsigned int gpu)
{
	return ledger.gpus[gpu].granted > ledger.gpus[gpu].used ? ledger.gpus[gpu].granted - ledger.gpus[gpu].used : 0;
}

/* Of the limit of all workers and of this one's. */
static uint64_t left_in_vcudad(unsigned int gpu)
{
	uint64_t limit = atomic_load(&ledger.page->limit), granted = atomic_load(&ledger.page->granted[gpu]);
	uint64_t own_limit = atomic_load(&ledger.page->process_limit), own = ledger.gpus[gpu].granted;

	return least(granted < limit ? limit - granted : 0, own < own_limit ? own_limit - own : 0);
}

static bool more(unsigned int gpu, uint64_t bytes)
{
	uint64_t spare = chunk();

	if (!is_limited()) {
		if (tell(VCUDA_LEDGER_NOTE, gpu, bytes + spare))
			ledger.gpus[gpu].granted += bytes + spare;
		return true;
	}
	for (int attempt = 0; attempt < 2; attempt++) {
		struct vcuda_ledger_message m = {VCUDA_LEDGER_TAKE, gpu, bytes, spare};
		int fd;

		if (!ask(&m, &fd))
			return false;
		ledger.gpus[gpu].granted += m.bytes;
		if (m.bytes >= bytes)
			return true;
	}
	return false;
}

static bool take(unsigned int gpu, uint64_t bytes)
{
	uint64_t want = ledger.gpus[gpu].used + bytes;

	if (want < bytes || (want > ledger.gpus[gpu].granted && !more(gpu, want - ledger.gpus[gpu].granted)))
		return false;
	ledger.gpus[gpu].used = want;
	return true;
}

/* Half of the most that may stay does: the next allocation of that size asks nobody either. */
static void give(unsigned int gpu, uint64_t bytes)
{
	uint64_t stays = least(chunk(), is_limited() ? left_in_vcudad(gpu) / SURPLUS_PART : CHUNK_BYTES), goes;

	ledger.gpus[gpu].used -= bytes;
	goes = surplus(gpu) > 2 * stays ? surplus(gpu) - stays : 0;
	/* What does not find room in the socket goes with what is freed next. */
	if (goes && tell(VCUDA_LEDGER_GIVE, gpu, goes))
		ledger.gpus[gpu].granted -= goes;
}

static void settle(void)
{
	struct vcuda_ledger_message m = {.type = VCUDA_LEDGER_SYNC};
	int fd;

	ask(&m, &fd);
}

/* ---- from outside ---- */

static bool meter_take(unsigned int gpu, uint64_t bytes)
{
	bool taken;

	if (!has_ledger())
		return true;
	if (gpu >= VCUDA_LEDGER_GPUS)
		return !is_limited();
	pthread_mutex_lock(&ledger.lock);
	taken = take(gpu, bytes);
	pthread_mutex_unlock(&ledger.lock);
	return taken;
}

static void meter_give(unsigned int gpu, uint64_t bytes)
{
	if (!has_ledger() || gpu >= VCUDA_LEDGER_GPUS)
		return;
	pthread_mutex_lock(&ledger.lock);
	give(gpu, bytes);
	pthread_mutex_unlock(&ledger.lock);
}

static bool meter_limit(unsigned int gpu, uint64_t *limit, uint64_t *left)
{
	if (!has_ledger() || gpu >= VCUDA_LEDGER_GPUS || !is_limited())
		return false;
	pthread_mutex_lock(&ledger.lock);
	if (ledger.unsettled)
		settle();
	*limit = least(atomic_load(&ledger.page->limit), atomic_load(&ledger.page->process_limit));
	*left = left_in_vcudad(gpu) + surplus(gpu);
	pthread_mutex_unlock(&ledger.lock);
	return true;
}

void worker_ledger_join(void)
{
	has_ledger();
}

uint64_t worker_ledger_process_limit(enum vcuda_ledger_process_limit which)
{
	static const uint64_t defaults[VCUDA_LEDGER_PROCESS_LIMITS] = {
		[VCUDA_LEDGER_STREAMS] = VCUDA_LEDGER_STREAMS_DEFAULT,
		[VCUDA_LEDGER_HANDLES] = VCUDA_LEDGER_HANDLES_DEFAULT,
		[VCUDA_LEDGER_QUEUED_COMMANDS] = VCUDA_LEDGER_QUEUED_COMMANDS_DEFAULT,
		[VCUDA_LEDGER_QUEUED_BYTES] = VCUDA_LEDGER_QUEUED_BYTES_DEFAULT,
		[VCUDA_LEDGER_MODULE_BYTES] = VCUDA_LEDGER_MODULE_BYTES_DEFAULT,
	};

	return has_ledger() ? atomic_load_explicit(&ledger.page->process_limits[which], memory_order_relaxed)
			    : defaults[which];
}

static void meter_queue(uint64_t *commands, uint64_t *bytes)
{
	*commands = worker_ledger_process_limit(VCUDA_LEDGER_QUEUED_COMMANDS);
	*bytes = worker_ledger_process_limit(VCUDA_LEDGER_QUEUED_BYTES);
}

static uint64_t meter_modules(void)
{
	return worker_ledger_process_limit(VCUDA_LEDGER_MODULE_BYTES);
}

void worker_ledger_refused(enum vcuda_ledger_process_limit which)
{
	if (!has_ledger())
		return;
	pthread_mutex_lock(&ledger.lock);
	tell(VCUDA_LEDGER_REFUSED, which, 0);
	pthread_mutex_unlock(&ledger.lock);
}

static void meter_queue_refused(void)
{
	worker_ledger_refused(VCUDA_LEDGER_QUEUED_BYTES);
}

static void meter_module_refused(void)
{
	worker_ledger_refused(VCUDA_LEDGER_MODULE_BYTES);
}

const struct vcuda_meter worker_ledger_meter = {meter_take,    meter_give,          meter_limit,         meter_queue,
						meter_modules, meter_queue_refused, meter_module_refused};
