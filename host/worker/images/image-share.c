/* SPDX-License-Identifier: Apache-2.0 */
#include "images/image-share.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "protocol/ipc/image-message.h"
#include "common/log.h"
#include "common/start-thread.h"

/* vcudad never takes long. */
#define PATIENCE_S 2

/* What waits to be copied, besides one that may be larger. */
#define MOST_WAITING_BYTES (64u << 20)

/* What the guest waits for comes first. */
#define NICENESS 5

/* How long a worker whose guest has ended may copy: 100 MiB take a third of that. */
#define FINISH_MS 150

struct offer {
	struct offer *next;
	struct worker_image *image;
};

static struct {
	pthread_mutex_t lock; /* one request and its reply at a time */
	_Atomic bool open;
	bool was_there;
} way = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t more, done;
	struct offer *first, **last;
	uint64_t bytes; /* of those in the queue, and of the one that is being copied */
	bool runs;
} offers = {.lock = PTHREAD_MUTEX_INITIALIZER,
	    .more = PTHREAD_COND_INITIALIZER,
	    .done = PTHREAD_COND_INITIALIZER,
	    .last = &offers.first};

void worker_image_share_open(void)
{
	struct timeval patience = {.tv_sec = PATIENCE_S};
	struct stat s;

	way.open = !fstat(VCUDA_IMAGE_CHANNEL_FD, &s) && S_ISSOCK(s.st_mode);
	way.was_there = way.open;
	if (way.open)
		setsockopt(VCUDA_IMAGE_CHANNEL_FD, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

bool worker_image_share_has_way(void)
{
	return way.was_there;
}

/* ---- questions ---- */

/* *fd is the descriptor that came along, -1: none. */
static int receive_message(struct vcuda_image_message *m, int *fd)
{
	ssize_t n;
	int flags;

	do {
		flags = 0;
		n = vcuda_image_receive(VCUDA_IMAGE_CHANNEL_FD, m, fd, &flags);
	} while (n < 0 && errno == EINTR);
	return n == sizeof(*m) ? 0 : n < 0 ? -errno : -EPROTO;
}

/* A descriptor is vcudad's answer, or -1. Without an answer nothing is asked any more: replies would be mistaken. */
static int ask(struct vcuda_image_message *m)
{
	uint32_t type = m->type;
	int fd = -1, err = -EPIPE;

	pthread_mutex_lock(&way.lock);
	if (way.open) {
		err = vcuda_image_send(VCUDA_IMAGE_CHANNEL_FD, m, -1, 0);
		if (!err)
			err = receive_message(m, &fd);
		if (!err && m->type != type)
			err = -EPROTO;
		way.open = !err;
	}
	pthread_mutex_unlock(&way.lock);
	if (!err)
		return fd;
	if (fd >= 0)
		close(fd);
	m->status = err;
	return -1;
}

enum vcuda_image_look worker_image_share_look(uint64_t bytes)
{
	struct vcuda_image_message m = {.type = VCUDA_IMAGE_LOOK, .bytes = bytes};

	if (!way.open)
		return VCUDA_IMAGE_NEVER;
	ask(&m);
	return m.status ? VCUDA_IMAGE_NEVER : m.look;
}

void *worker_image_share_find(uint64_t bytes, const struct vcuda_image_name *name)
{
	struct vcuda_image_message m = {.type = VCUDA_IMAGE_FIND, .bytes = bytes, .name = *name};
	int fd = ask(&m);
	void *data;

	if (fd < 0)
		return NULL;
	data = mmap(NULL, vcuda_image_file_bytes(bytes), PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	return data == MAP_FAILED ? NULL : data;
}

/* ---- offers ---- */

static int write_all(int fd, const uint8_t *data, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(fd, data, bytes);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		data += n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* Who changes the image meanwhile has another one kept than he has, under that one's name. */
static int copy(const struct worker_image *image)
{
	int fd = memfd_create("vcuda-image", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -errno;
	err = write_all(fd, image->data, image->bytes);
	if (!err && (ftruncate(fd, (off_t)vcuda_image_file_bytes(image->bytes)) ||
		     fcntl(fd, F_ADD_SEALS, VCUDA_IMAGE_SEALS)))
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* If vcudad has too much to do it is offered by another process. */
static void give(const struct worker_image *image)
{
	struct vcuda_image_message m = {.type = VCUDA_IMAGE_OFFER, .bytes = image->bytes};
	int fd = copy(image);

	if (fd < 0) {
		vcuda_log("no copy of an image can be kept: %s", strerror(-fd));
		return;
	}
	vcuda_image_send(VCUDA_IMAGE_CHANNEL_FD, &m, fd, MSG_DONTWAIT);
	close(fd);
}

static void *run(void *unused)
{
	setpriority(PRIO_PROCESS, 0, NICENESS); /* this thread's */
	pthread_mutex_lock(&offers.lock);
	for (;;) {
		struct offer *o;
		uint64_t bytes;

		while (!offers.first)
			pthread_cond_wait(&offers.more, &offers.lock);
		o = offers.first;
		offers.first = o->next;
		if (!o->next)
			offers.last = &offers.first;
		pthread_mutex_unlock(&offers.lock);
		bytes = o->image->bytes;
		give(o->image);
		/* The last who has it frees it, which takes a while. */
		worker_image_take_back(o->image);
		free(o);
		pthread_mutex_lock(&offers.lock);
		offers.bytes -= bytes;
		pthread_cond_signal(&offers.done);
	}
	return unused;
}

/* With the lock held. */
static bool has_room(uint64_t bytes)
{
	return !offers.bytes || bytes + offers.bytes <= MOST_WAITING_BYTES;
}

static bool has_thread(void)
{
	if (!offers.runs)
		offers.runs = vcuda_thread_start(run, NULL);
	return offers.runs;
}

void worker_image_share_offer(struct worker_image *image)
{
	struct offer *o = way.open ? malloc(sizeof(*o)) : NULL;
	bool taken;

	if (!o)
		return;
	*o = (struct offer){.image = image};
	pthread_mutex_lock(&offers.lock);
	taken = has_room(image->bytes) && has_thread() && worker_image_lend(image);
	if (taken) {
		*offers.last = o;
		offers.last = &o->next;
		offers.bytes += image->bytes;
		pthread_cond_signal(&offers.more);
	}
	pthread_mutex_unlock(&offers.lock);
	if (!taken)
		free(o);
}

void worker_image_share_finish(void)
{
	struct timespec end;

	if (!way.open)
		return;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += FINISH_MS * 1000000l;
	end.tv_sec += end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	pthread_mutex_lock(&offers.lock);
	while (offers.bytes && !pthread_cond_clockwait(&offers.done, &offers.lock, CLOCK_MONOTONIC, &end))
		continue;
	pthread_mutex_unlock(&offers.lock);
}
