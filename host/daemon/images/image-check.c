/* SPDX-License-Identifier: Apache-2.0 */
#include "images/image-check.h"

#include <endian.h>
#include <errno.h>
#include <linux/magic.h>
#include <nettle/sha2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "common/start-thread.h"

/* Offers that wait, and their bytes, besides one that may have more. */
#define MOST_WAITING 32
#define MOST_WAITING_BYTES (256u << 20)

/* Descriptors that are to be closed. */
#define MOST_CLOSING 64

/* Guest processes come first. */
#define NICENESS 19

_Static_assert(sizeof(struct vcuda_image_name) == SHA256_DIGEST_SIZE, "a name is a hash");

static struct {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct daemon_image_check *waiting, **last_waiting, *done, **last_done; /* under the lock */
	unsigned int count;  /* the loop's: of what is not yet given back */
	uint64_t bytes;      /* the same */
	unsigned int closings; /* under the lock */
	int closing[MOST_CLOSING];
	bool runs;
	struct daemon_source source;
	void (*report)(struct daemon_image_check *check);
} checks = {.lock = PTHREAD_MUTEX_INITIALIZER,
	    .more = PTHREAD_COND_INITIALIZER,
	    .last_waiting = &checks.waiting,
	    .last_done = &checks.done,
	    .source = {.fd = -1}};

/* ---- the thread's ---- */

/* Only memory that nobody can change has these seals, and nothing that is asked of that ever waits. */
static int check_kind(int fd, uint64_t bytes)
{
	struct statfs system;
	struct stat file;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & VCUDA_IMAGE_SEALS) != VCUDA_IMAGE_SEALS)
		return -EINVAL;
	/* Not of huge pages, which the host has set aside for others. */
	if (fstatfs(fd, &system) || fstat(fd, &file) || system.f_type != TMPFS_MAGIC)
		return -EINVAL;
	return file.st_size >= 0 && (uint64_t)file.st_size == vcuda_image_file_bytes(bytes) ? 0 : -EINVAL;
}

/* Also between parts of a large file. */
static void close_waiting(void)
{
	int fds[MOST_CLOSING];
	unsigned int n;

	pthread_mutex_lock(&checks.lock);
	n = checks.closings;
	memcpy(fds, checks.closing, n * sizeof(fds[0]));
	checks.closings = 0;
	pthread_mutex_unlock(&checks.lock);
	while (n)
		close(fds[--n]);
}

static int read_part(int fd, void *part, size_t size, uint64_t offset)
{
	ssize_t n = pread(fd, part, size, (off_t)offset);

	return n == (ssize_t)size ? 0 : n < 0 ? -errno : -EIO;
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
	return !size || (!bytes[0] && !memcmp(bytes, bytes + 1, size - 1));
}

/* Read, not mapped: then nothing in there can end this process. */
static int name_file(int fd, uint64_t bytes, uint8_t part[VCUDA_IMAGE_PART_BYTES], struct vcuda_image_name *name)
{
	uint64_t length = htole64(bytes), rest = vcuda_image_file_bytes(bytes) - bytes;
	uint8_t hash[SHA256_DIGEST_SIZE];
	struct sha256_ctx whole, one;
	int err = 0;

	sha256_init(&whole);
	sha256_update(&whole, strlen(VCUDA_IMAGE_NAME_PREFIX), (const uint8_t *)VCUDA_IMAGE_NAME_PREFIX);
	sha256_update(&whole, sizeof(length), (const uint8_t *)&length);
	for (uint64_t at = 0; at < bytes && !err; at += VCUDA_IMAGE_PART_BYTES) {
		size_t size = bytes - at < VCUDA_IMAGE_PART_BYTES ? bytes - at : VCUDA_IMAGE_PART_BYTES;

		close_waiting();
		err = read_part(fd, part, size, at);
		if (err)
			return err;
		sha256_init(&one);
		sha256_update(&one, size, part);
		sha256_digest(&one, sizeof(hash), hash);
		sha256_update(&whole, sizeof(hash), hash);
	}
	err = read_part(fd, part, rest, bytes);
	if (err)
		return err;
	if (!is_zero(part, rest))
		return -EINVAL;
	sha256_digest(&whole, sizeof(name->bytes), name->bytes);
	return 0;
}

int daemon_image_check_file(int fd, uint64_t bytes, struct vcuda_image_name *name)
{
	uint8_t *part;
	int err = check_kind(fd, bytes);

	if (err)
		return err;
	part = malloc(VCUDA_IMAGE_PART_BYTES);
	if (!part)
		return -ENOMEM;
	err = name_file(fd, bytes, part, name);
	free(part);
	return err;
}

static void look_at(struct daemon_image_check *check)
{
	check->status = daemon_image_check_file(check->fd, check->bytes, &check->name);
	if (!check->status)
		return;
	close(check->fd);
	check->fd = -1;
}

static void *run(void *unused)
{
	uint64_t one = 1;

	setpriority(PRIO_PROCESS, 0, NICENESS); /* this thread's */
	pthread_mutex_lock(&checks.lock);
	for (;;) {
		struct daemon_image_check *check;

		while (!checks.waiting && !checks.closings)
			pthread_cond_wait(&checks.more, &checks.lock);
		if (checks.closings) {
			pthread_mutex_unlock(&checks.lock);
			close_waiting();
			pthread_mutex_lock(&checks.lock);
			continue;
		}
		check = checks.waiting;
		checks.waiting = check->next;
		if (!check->next)
			checks.last_waiting = &checks.waiting;
		pthread_mutex_unlock(&checks.lock);
		look_at(check);
		pthread_mutex_lock(&checks.lock);
		check->next = NULL;
		*checks.last_done = check;
		checks.last_done = &check->next;
		if (write(checks.source.fd, &one, sizeof(one)) < 0)
			continue; /* cannot be: it counts to no more than MOST_WAITING */
	}
	return unused;
}

/* ---- the loop's ---- */

static void done_ready(struct daemon_source *source, uint32_t events)
{
	struct daemon_image_check *check;
	uint64_t count;

	if (read(source->fd, &count, sizeof(count)) < 0)
		return;
	pthread_mutex_lock(&checks.lock);
	check = checks.done;
	checks.done = NULL;
	checks.last_done = &checks.done;
	pthread_mutex_unlock(&checks.lock);
	while (check) {
		struct daemon_image_check *next = check->next;

		checks.count--;
		checks.bytes -= check->bytes;
		checks.report(check);
		check = next;
	}
}

int daemon_image_check_open(struct daemon_loop *loop, void (*done)(struct daemon_image_check *check))
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), err;

	if (fd < 0)
		return -errno;
	checks.source.ready = done_ready;
	checks.report = done;
	err = daemon_source_add(loop, &checks.source, fd, EPOLLIN);
	if (err)
		close(fd);
	return err;
}

/* Not before there is something to do. */
static bool has_thread(void)
{
	if (!checks.runs)
		checks.runs = vcuda_thread_start(run, NULL);
	return checks.runs;
}

void daemon_image_check_close(int fd)
{
	bool taken = false;

	if (checks.source.fd >= 0 && has_thread()) {
		pthread_mutex_lock(&checks.lock);
		taken = checks.closings < MOST_CLOSING;
		if (taken)
			checks.closing[checks.closings++] = fd;
		pthread_cond_signal(&checks.more);
		pthread_mutex_unlock(&checks.lock);
	}
	if (!taken)
		close(fd);
}

static bool has_room(uint64_t bytes)
{
	return checks.count < MOST_WAITING && (!checks.bytes || checks.bytes + bytes <= MOST_WAITING_BYTES);
}

void daemon_image_check_start(int fd, uint64_t bytes, uint64_t guest, unsigned int epoch)
{
	struct daemon_image_check *check =
		checks.source.fd >= 0 && has_room(bytes) && has_thread() ? malloc(sizeof(*check)) : NULL;

	if (!check) {
		daemon_image_check_close(fd);
		return;
	}
	*check = (struct daemon_image_check){.fd = fd, .bytes = bytes, .guest = guest, .epoch = epoch};
	checks.count++;
	checks.bytes += bytes;
	pthread_mutex_lock(&checks.lock);
	*checks.last_waiting = check;
	checks.last_waiting = &check->next;
	pthread_cond_signal(&checks.more);
	pthread_mutex_unlock(&checks.lock);
}
