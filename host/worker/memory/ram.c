/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/ram.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "protocol/ipc/channel.h"
#include "common/log.h"
#include "protocol/backend.h"
#include "common/start-thread.h"

enum stage { NOT_REGISTERED, REGISTERING, REGISTERED, IMPOSSIBLE };

struct file {
	int fd;
	char *start; /* NULL: not mapped */
	uint64_t bytes;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool wanted;
	struct file files[VCUDA_CHANNEL_MAX_FDS];
	unsigned int count;
	bool mapped;
	const struct vcuda_backend_ops *ops;
	enum stage stage;
	CUcontext context;   /* the context of the registration so far; NULL: none */
	unsigned int file;   /* registered are the files before this one, */
	uint64_t registered; /* and so many bytes of this one */
	unsigned int closed; /* calls that may end a context */
	unsigned int users;
} ram = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

void worker_ram_want(void)
{
	ram.wanted = true;
}

bool worker_ram_is_wanted(void)
{
	return ram.wanted;
}

void worker_ram_files(const int *fds, unsigned int count)
{
	for (unsigned int i = 0; i < count && i < VCUDA_CHANNEL_MAX_FDS; i++)
		ram.files[ram.count++] = (struct file){.fd = fds[i]};
}

/* ---- mapping; with the lock ---- */

/* Maps the file without touching its pages. */
static int map(struct file *f)
{
	struct stat stat;
	void *p;

	if (fstat(f->fd, &stat))
		return -errno;
	p = mmap(NULL, (size_t)stat.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, f->fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	f->start = p;
	f->bytes = (uint64_t)stat.st_size;
	return 0;
}

static int map_all(void)
{
	static bool told;
	int err = 0;

	for (unsigned int i = 0; i < ram.count && !err; i++)
		if (!ram.files[i].start)
			err = map(&ram.files[i]);
	ram.mapped = !err;
	if (err && !told)
		vcuda_log("the VM's memory cannot be mapped (%s): large copies of its programs go by staging memory",
			  strerror(-err));
	told = told || err;
	return err;
}

int worker_ram_find(unsigned int file, uint64_t offset, uint64_t length, char **address)
{
	int err = 0;

	if (!ram.wanted)
		return -EOPNOTSUPP;
	pthread_mutex_lock(&ram.lock);
	if (!ram.mapped)
		err = map_all();
	if (!err && (file >= ram.count || offset > ram.files[file].bytes || length > ram.files[file].bytes - offset))
		err = -EINVAL;
	if (!err)
		*address = ram.files[file].start + offset;
	pthread_mutex_unlock(&ram.lock);
	return err;
}

/* ---- registering ---- */

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* The next piece; with the lock. False: none is left, or worker_ram_close() has been called. */
static bool next_piece(char **start, uint64_t *bytes)
{
	const struct file *f;

	while (ram.file < ram.count && ram.registered == ram.files[ram.file].bytes) {
		ram.file++;
		ram.registered = 0;
	}
	if (ram.closed || ram.file == ram.count)
		return false;
	f = &ram.files[ram.file];
	*start = f->start + ram.registered;
	*bytes = WORKER_RAM_PIECE - (uintptr_t)*start % WORKER_RAM_PIECE;
	if (*bytes > f->bytes - ram.registered)
		*bytes = f->bytes - ram.registered;
	return true;
}

/*
 * Without the lock. The driver has all others wait while it registers, 50 us a MiB of memory that is there, and ten times
 * that of pages which the guest never touched: so these are made before, and others get their turn after.
 */
static CUresult register_piece(char *start, uint64_t bytes)
{
	uint64_t begun;
	CUresult result;

	/* The driver reports pages that are not available. */
	madvise(start, bytes, MADV_POPULATE_WRITE);
	begun = now_us();
	result = ram.ops->cuMemHostRegister_v2(start, (size_t)bytes, CU_MEMHOSTREGISTER_PORTABLE);
	usleep((useconds_t)(now_us() - begun));
	/* By a context that was to end and did not. */
	return result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED ? CUDA_SUCCESS : result;
}

static void *register_all(void *unused)
{
	const struct vcuda_backend_ops *ops = ram.ops;
	CUresult result = ops->cuCtxSetCurrent(ram.context);
	uint64_t bytes;
	char *start;

	pthread_mutex_lock(&ram.lock);
	while (result == CUDA_SUCCESS && next_piece(&start, &bytes)) {
		pthread_mutex_unlock(&ram.lock);
		result = register_piece(start, bytes);
		pthread_mutex_lock(&ram.lock);
		if (result == CUDA_SUCCESS)
			ram.registered += bytes;
	}
	pthread_mutex_unlock(&ram.lock);
	/* Before the context may end: a thread must not have one that does. */
	ops->cuCtxSetCurrent(NULL);
	if (result != CUDA_SUCCESS)
		vcuda_log("the VM's memory cannot be registered with the device (CUDA error %d): large copies go by "
			  "staging memory, and --register-ram is of no use here",
			  (int)result);
	pthread_mutex_lock(&ram.lock);
	ram.stage = result != CUDA_SUCCESS ? IMPOSSIBLE : ram.file == ram.count ? REGISTERED : NOT_REGISTERED;
	pthread_cond_broadcast(&ram.changed);
	pthread_mutex_unlock(&ram.lock);
	return unused;
}

/* With the lock. */
static void begin(const struct vcuda_backend_ops *ops)
{
	if (!ops->cuMemHostRegister_v2 || !ops->cuCtxGetCurrent || map_all()) {
		ram.stage = IMPOSSIBLE;
		return;
	}
	/* One that was to end and did not has some of it already. */
	if (!ram.context && (ops->cuCtxGetCurrent(&ram.context) != CUDA_SUCCESS || !ram.context))
		return;
	ram.ops = ops;
	ram.stage = REGISTERING;
	if (!vcuda_thread_start(register_all, NULL))
		ram.stage = NOT_REGISTERED;
}

bool worker_ram_is_ready(const struct vcuda_backend_ops *ops)
{
	bool ready;

	if (!ram.wanted || !ram.count)
		return false;
	pthread_mutex_lock(&ram.lock);
	if (ram.stage == NOT_REGISTERED && !ram.closed)
		begin(ops);
	ready = ram.stage == REGISTERED && !ram.closed;
	pthread_mutex_unlock(&ram.lock);
	return ready;
}

bool worker_ram_use(void)
{
	bool ready;

	pthread_mutex_lock(&ram.lock);
	ready = ram.stage == REGISTERED && !ram.closed;
	ram.users += ready;
	pthread_mutex_unlock(&ram.lock);
	return ready;
}

void worker_ram_leave(void)
{
	pthread_mutex_lock(&ram.lock);
	if (!--ram.users)
		pthread_cond_broadcast(&ram.changed);
	pthread_mutex_unlock(&ram.lock);
}

/*
 * With the lock. NULL: the context is unknown, for example after a fault. Then pieces stay registered, or are
 * registered again.
 */
static bool is_ours(CUcontext context)
{
	return ram.context && (!context || ram.context == context);
}

void worker_ram_close(CUcontext context)
{
	pthread_mutex_lock(&ram.lock);
	ram.closed++;
	while (is_ours(context) && (ram.users || ram.stage == REGISTERING))
		pthread_cond_wait(&ram.changed, &ram.lock);
	pthread_mutex_unlock(&ram.lock);
}

void worker_ram_reopen(CUcontext context, bool ended)
{
	pthread_mutex_lock(&ram.lock);
	ram.closed--;
	if (ended && is_ours(context)) {
		ram.stage = NOT_REGISTERED;
		ram.context = NULL;
		ram.file = 0;
		ram.registered = 0;
	}
	pthread_mutex_unlock(&ram.lock);
}
