/* SPDX-License-Identifier: Apache-2.0 */
#include "fork-guard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct client_short_descriptor *noted;

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
	for (const struct client_short_descriptor *d = noted; d; d = d->next)
		close(d->fd);
	noted = NULL;
	pthread_mutex_init(&lock, NULL);
}

/*
 * When the library is loaded, before its other constructors: the function that is registered first is called last
 * before a fork. A thread may hold off forks while it has a lock that another such function takes.
 */
__attribute__((constructor(101))) static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void client_fork_hold(void)
{
	pthread_mutex_lock(&lock);
}

void client_fork_release(void)
{
	pthread_mutex_unlock(&lock);
}

int client_short_descriptor_open(struct client_short_descriptor *d, const char *path, int flags)
{
	int err = 0;

	client_fork_hold();
	d->fd = open(path, flags | O_CLOEXEC);
	if (d->fd < 0) {
		err = -errno;
	} else {
		d->next = noted;
		noted = d;
	}
	client_fork_release();
	return err;
}

void client_short_descriptor_close(struct client_short_descriptor *d)
{
	struct client_short_descriptor **at;

	client_fork_hold();
	for (at = &noted; *at && *at != d; at = &(*at)->next)
		continue;
	if (*at)
		*at = d->next;
	close(d->fd);
	client_fork_release();
}

void *client_fork_map(void *address, size_t bytes, int protection, int flags, int fd)
{
	void *p;
	int err;

	client_fork_hold();
	p = mmap(address, bytes, protection, flags, fd, 0);
	err = errno;
	if (p != MAP_FAILED)
		madvise(p, bytes, MADV_DONTFORK);
	client_fork_release();
	errno = err;
	return p;
}
