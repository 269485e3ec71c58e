/* SPDX-License-Identifier: Apache-2.0 */
#include "session/ledger.h"

#include <errno.h>
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/fds.h"
#include "common/log.h"
#include "protocol/cpu-devices.h"
#include "protocol/ipc/ledger.h"
#include "session/host-memory.h"

#define CHUNK_BYTES (32ull << 20)

/*
 * The chunk is the limit divided by CHUNK_PART. The surplus that may stay is the rest of the limit divided by
 * SURPLUS_PART.
 */
#define CHUNK_PART 64
#define SURPLUS_PART 8

/* The worker's memory is measured when it may have grown by so much. */
#define MEASURE_BYTES (1ull << 20)

static struct {
	pthread_once_t once;
	pthread_mutex_t lock;
	const struct vcuda_ledger_page *page; /* NULL: there is no ledger */
	struct vcuda_turns turns;             /* demand NULL: the VM has no share */
	bool unsettled;                       /* vcudad was told what the page may not show yet */
	struct ledger_gpu {
		uint64_t granted; /* less than `used` only where a note did not find room in the socket */
		uint64_t used;
	} gpus[VCUDA_LEDGER_GPUS];
	uint8_t moved[VCUDA_LEDGER_GPUS]; /* the GPU of each device, XOR the device's number */
	struct {
		bool counts;
		_Atomic uint64_t unmeasured; /* announced since the last measurement, or enough for the next one */
		_Atomic uint64_t held;       /* announced, and perhaps not written yet */
		_Atomic uint64_t in_files;   /* device memory that is not this worker's alone */
		uint64_t charged;            /* to GPU 0 */
	} host;
} ledger = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct {
	bool is_patient, waits;
	uint32_t seen; /* `room` in the page before the worker asked */
} patience;

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

/* The reply to `m` replaces `m`. fds: the descriptors that come with the reply, -1: none. The caller closes them. */
static bool ask(struct vcuda_ledger_message *m, int fds[VCUDA_LEDGER_JOIN_FDS])
{
	const struct iovec part = {m, sizeof(*m)};
	struct vcuda_fds received;
	ssize_t n;

	fds[0] = fds[1] = fds[2] = -1;
	if (send(VCUDA_LEDGER_FD, m, sizeof(*m), MSG_NOSIGNAL) != sizeof(*m))
		return false;
	n = vcuda_fds_receive(VCUDA_LEDGER_FD, &part, 1, &received, 0);
	vcuda_fds_close(&received, n == sizeof(*m) ? VCUDA_LEDGER_JOIN_FDS : 0);
	memcpy(fds, received.fd, received.count * sizeof(*fds));
	ledger.unsettled = false;
	return n == sizeof(*m);
}

/* NULL: no descriptor, or no memory. */
static void *map(int fd, size_t bytes, int protection)
{
	void *page = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	if (page == MAP_FAILED)
		return NULL;
	madvise(page, bytes, MADV_DONTFORK);
	return page;
}

static void join(void)
{
	struct vcuda_ledger_message m = {.type = VCUDA_LEDGER_JOIN};
	struct vcuda_ledger_page *page;
	int fds[VCUDA_LEDGER_JOIN_FDS];

	if (!ask(&m, fds))
		return;
	page = map(fds[0], sizeof(*page), PROT_READ);
	ledger.page = page;
	if (page)
		ledger.turns.state = &page->turns;
	ledger.turns.drained = fds[2];
	ledger.turns.demand = map(fds[1], sizeof(*ledger.turns.demand), PROT_READ | PROT_WRITE);
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

/* The bytes left of the limit of all workers, or of this worker's limit if that is less. */
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
		struct vcuda_ledger_message m = {patience.is_patient ? VCUDA_LEDGER_TAKE : VCUDA_LEDGER_TAKE_NOW, gpu,
						 bytes, spare};
		int none[VCUDA_LEDGER_JOIN_FDS];

		patience.seen = atomic_load(&ledger.page->room);
		if (!ask(&m, none))
			return false;
		ledger.gpus[gpu].granted += m.bytes;
		if (m.bytes >= bytes)
			return true;
		patience.waits = m.spare == VCUDA_LEDGER_WAIT;
		patience.is_patient &= m.spare != VCUDA_LEDGER_NO_ROOM;
		if (m.spare != VCUDA_LEDGER_ASK_AGAIN)
			return false;
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

/* A surplus of up to twice `stays` is kept, else `stays`: the next allocation of that size needs no message. */
static void give(unsigned int gpu, uint64_t bytes)
{
	uint64_t stays = least(chunk(), is_limited() ? left_in_vcudad(gpu) / SURPLUS_PART : CHUNK_BYTES), goes;

	ledger.gpus[gpu].used -= bytes;
	goes = surplus(gpu) > 2 * stays ? surplus(gpu) - stays : 0;
	/* If the socket is full, the bytes are given back with the next ones. */
	if (goes && tell(VCUDA_LEDGER_GIVE, gpu, goes))
		ledger.gpus[gpu].granted -= goes;
}

static void settle(void)
{
	struct vcuda_ledger_message m = {.type = VCUDA_LEDGER_SYNC};
	int none[VCUDA_LEDGER_JOIN_FDS];

	ask(&m, none);
}

/* ---- the host's memory, with the lock held ---- */

static uint64_t available(unsigned int gpu)
{
	return left_in_vcudad(gpu) + surplus(gpu);
}

/* The worker's host memory, `more` included, without device memory and without the free amount. */
static uint64_t host_due(uint64_t more)
{
	uint64_t bytes = worker_own_memory() + atomic_load(&ledger.host.held) + more;
	uint64_t counted = WORKER_LEDGER_HOST_FREE - ledger.host.charged;

	for (unsigned int i = 0; i < VCUDA_CPU_DEVICES_MOST; i++)
		counted += ledger.gpus[i].used;
	counted -= least(counted, atomic_load(&ledger.host.in_files));
	return bytes > counted ? bytes - counted : 0;
}

/*
 * Returns the bytes that the quota lacks. The rest of the quota is charged even then, so that no device memory is
 * allocated on top.
 */
static uint64_t charge_host(uint64_t more)
{
	uint64_t due = host_due(more), lacks, part;

	if (due <= ledger.host.charged) {
		give(0, ledger.host.charged - due);
		ledger.host.charged = due;
		return 0;
	}
	lacks = due - ledger.host.charged;
	part = least(lacks, available(0));
	if (!take(0, part))
		return lacks;
	ledger.host.charged += part;
	return lacks - part;
}

/* The C library keeps memory that was freed, which may be what is too much. */
static uint64_t trim_and_charge_host(uint64_t more)
{
	malloc_trim(0);
	return charge_host(more);
}

static bool take_host(uint64_t more)
{
	uint64_t lacks = charge_host(more);

	if (lacks)
		lacks = trim_and_charge_host(more);
	/* vcudad counts and logs that it refuses. */
	if (!take(0, lacks))
		return false;
	ledger.host.charged += lacks;
	return true;
}

/* Device memory may take the place of host memory that has been freed since it was charged. */
static void free_host(uint64_t wanted)
{
	if (ledger.host.charged && wanted > available(0))
		trim_and_charge_host(0);
}

/* ---- from outside ---- */

static unsigned int gpu_of(unsigned int device)
{
	return device ^ ledger.moved[device];
}

void worker_ledger_swap(unsigned int gpu, unsigned int other)
{
	struct ledger_gpu one;

	if (!has_ledger() || gpu >= VCUDA_LEDGER_GPUS || other >= VCUDA_LEDGER_GPUS)
		return;
	pthread_mutex_lock(&ledger.lock);
	one = ledger.gpus[gpu];
	ledger.gpus[gpu] = ledger.gpus[other];
	ledger.gpus[other] = one;
	for (unsigned int device = 0; device < VCUDA_LEDGER_GPUS; device++) {
		if (gpu_of(device) == gpu)
			ledger.moved[device] = (uint8_t)(device ^ other);
		else if (gpu_of(device) == other)
			ledger.moved[device] = (uint8_t)(device ^ gpu);
	}
	pthread_mutex_unlock(&ledger.lock);
}

unsigned int worker_ledger_gpu(unsigned int device)
{
	return device < VCUDA_LEDGER_GPUS ? gpu_of(device) : device;
}

int worker_ledger_keeper(void)
{
	struct vcuda_ledger_message m = {.type = VCUDA_LEDGER_KEEPER};
	int fds[VCUDA_LEDGER_JOIN_FDS] = {-1, -1, -1};

	if (!has_ledger())
		return -1;
	pthread_mutex_lock(&ledger.lock);
	ask(&m, fds);
	pthread_mutex_unlock(&ledger.lock);
	return fds[0];
}

static bool meter_take(unsigned int gpu, uint64_t bytes)
{
	bool taken;

	if (!has_ledger())
		return true;
	if (gpu >= VCUDA_LEDGER_GPUS)
		return !is_limited();
	pthread_mutex_lock(&ledger.lock);
	if (gpu == 0)
		free_host(bytes);
	taken = take(gpu_of(gpu), bytes);
	pthread_mutex_unlock(&ledger.lock);
	return taken;
}

static void meter_give(unsigned int gpu, uint64_t bytes)
{
	if (!has_ledger() || gpu >= VCUDA_LEDGER_GPUS)
		return;
	pthread_mutex_lock(&ledger.lock);
	give(gpu_of(gpu), bytes);
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
	*left = available(gpu_of(gpu));
	pthread_mutex_unlock(&ledger.lock);
	return true;
}

static bool meter_limited(void)
{
	return has_ledger() && is_limited();
}

static void log_host(void)
{
	uint64_t limit = atomic_load(&ledger.page->limit), own = atomic_load(&ledger.page->process_limit);

	vcuda_log_once("the guest process has used up its %llu MiB of device memory: modules, machine code, queued "
		       "commands and objects take %llu MiB of the host's memory, of which %llu MiB are free and the "
		       "rest counts as device memory (raise vcudad's %s)",
		       (unsigned long long)least(limit, own) >> 20,
		       (unsigned long long)(ledger.host.charged + WORKER_LEDGER_HOST_FREE) >> 20,
		       WORKER_LEDGER_HOST_FREE >> 20,
		       own < limit ? "--max-process-device-memory" : "--max-device-memory");
}

/* announced: more than at the last measurement; of that, `more` is not held. */
static bool host_room(uint64_t announced, uint64_t more)
{
	bool room;

	if (!ledger.host.counts || !meter_limited())
		return true;
	if (atomic_fetch_add(&ledger.host.unmeasured, announced) + announced < MEASURE_BYTES)
		return true;
	pthread_mutex_lock(&ledger.lock);
	room = take_host(more);
	atomic_store(&ledger.host.unmeasured, room ? 0 : MEASURE_BYTES);
	/* Other VMs may make room: then the call runs again. */
	if (!room && !patience.waits)
		log_host();
	pthread_mutex_unlock(&ledger.lock);
	return room;
}

bool worker_ledger_host_room(uint64_t bytes)
{
	return host_room(bytes, bytes);
}

bool worker_ledger_host_hold(uint64_t bytes)
{
	/* First, so that threads that hold at once see one another. */
	atomic_fetch_add(&ledger.host.held, bytes);
	if (host_room(bytes, 0))
		return true;
	worker_ledger_host_release(bytes);
	return false;
}

void worker_ledger_host_release(uint64_t bytes)
{
	atomic_fetch_sub(&ledger.host.held, bytes);
}

static void meter_in_files(int64_t bytes)
{
	atomic_fetch_add(&ledger.host.in_files, (uint64_t)bytes);
}

void worker_ledger_count_host(void)
{
	ledger.host.counts = worker_own_memory_open();
}

void worker_ledger_set_patient(bool patient)
{
	patience.is_patient = patient;
	patience.waits = false;
}

bool worker_ledger_wait_for_room(void)
{
	if (!patience.waits)
		return false;
	patience.waits = false;
	while (atomic_load(&ledger.page->room) == patience.seen)
		syscall(SYS_futex, &ledger.page->room, FUTEX_WAIT, patience.seen, NULL, NULL, 0);
	return true;
}

void worker_ledger_join(void)
{
	has_ledger();
}

const struct vcuda_turns *worker_ledger_turns(void)
{
	return has_ledger() && ledger.turns.demand ? &ledger.turns : NULL;
}

uint64_t worker_ledger_process_limit(enum vcuda_ledger_process_limit which)
{
	static const uint64_t defaults[VCUDA_LEDGER_PROCESS_LIMITS] = {
		[VCUDA_LEDGER_STREAMS] = VCUDA_LEDGER_STREAMS_DEFAULT,
		[VCUDA_LEDGER_HANDLES] = VCUDA_LEDGER_HANDLES_DEFAULT,
		[VCUDA_LEDGER_QUEUED_COMMANDS] = VCUDA_LEDGER_QUEUED_COMMANDS_DEFAULT,
		[VCUDA_LEDGER_QUEUED_BYTES] = VCUDA_LEDGER_QUEUED_BYTES_DEFAULT,
		[VCUDA_LEDGER_MODULE_BYTES] = VCUDA_LEDGER_MODULE_BYTES_DEFAULT,
		[VCUDA_LEDGER_COMPILE_SECONDS] = VCUDA_LEDGER_COMPILE_SECONDS_DEFAULT,
		[VCUDA_LEDGER_KERNEL_SECONDS] = VCUDA_LEDGER_KERNEL_SECONDS_DEFAULT,
		[VCUDA_LEDGER_COMPILE_BYTES] = VCUDA_LEDGER_COMPILE_BYTES_DEFAULT,
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

const struct vcuda_meter worker_ledger_meter = {
	.take = meter_take,
	.give = meter_give,
	.limited = meter_limited,
	.limit = meter_limit,
	.host_room = worker_ledger_host_room,
	.in_files = meter_in_files,
	.queue = meter_queue,
	.modules = meter_modules,
	.queue_refused = meter_queue_refused,
	.module_refused = meter_module_refused,
};
