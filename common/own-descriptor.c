/* SPDX-License-Identifier: Apache-2.0 */
#include "own-descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"

#define STANDARD 3u
#define ABOVE_STANDARD 3

/* Numbers above this make the kernel's tables larger. */
#define HIGHEST 1024u
#define FROM_THE_TOP 64u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	unsigned int users, count;
	int held[STANDARD];
} guard;

/*
 * Eventfds share one inode. The signal that a file would send tells a file of ours from the others. It sends none. The
 * number depends on the library.
 */
static int mark(void)
{
	return 34 + (int)(((uintptr_t)&guard >> 12) % 30);
}

/* The first number that is tried. */
static int high(void)
{
	struct rlimit limit;
	unsigned int most = HIGHEST;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < most)
		most = (unsigned int)limit.rlim_cur;
	return (int)(most >= 2 * FROM_THE_TOP ? most - FROM_THE_TOP : most / 2);
}

/* Returns a copy of the descriptor with a high number, or with the highest one that is free. */
static int raise_number(int fd)
{
	int raised = -1;

	for (int lowest = high(); raised < 0; lowest /= 2) {
		if (lowest < ABOVE_STANDARD)
			lowest = ABOVE_STANDARD;
		raised = fcntl(fd, F_DUPFD_CLOEXEC, lowest);
		if (lowest == ABOVE_STANDARD)
			break;
	}
	return raised;
}

int vcuda_own_descriptor_take(struct vcuda_own_descriptor *own, int fd)
{
	int raised = raise_number(fd), err = -errno;
	struct stat s;

	if (raised < 0 && fd >= ABOVE_STANDARD)
		raised = fd;
	if (raised != fd)
		close(fd);
	*own = (struct vcuda_own_descriptor){.fd = raised};
	if (raised < 0)
		return err;
	fcntl(raised, F_SETFD, FD_CLOEXEC);
	own->marked = fcntl(raised, F_SETSIG, mark()) == 0 && fcntl(raised, F_GETSIG) == mark();
	if (fstat(raised, &s) == 0) {
		own->type = s.st_mode & S_IFMT;
		own->device = s.st_dev;
		own->inode = s.st_ino;
	}
	return 0;
}

bool vcuda_own_descriptor_is_there(const struct vcuda_own_descriptor *own)
{
	struct stat s;

	if (own->fd < 0 || (own->marked && fcntl(own->fd, F_GETSIG) != mark()))
		return false;
	return fstat(own->fd, &s) == 0 && (s.st_mode & S_IFMT) == own->type && s.st_dev == own->device &&
	       s.st_ino == own->inode;
}

void vcuda_own_descriptor_close(struct vcuda_own_descriptor *own)
{
	if (vcuda_own_descriptor_is_there(own))
		close(own->fd);
	own->fd = -1;
}

void vcuda_own_descriptor_say(const struct vcuda_own_descriptor *own)
{
	vcuda_log_once("this program has closed descriptor %d, or has put another file in its place; it was not the "
		       "program's but connected its process to the GPU. A program that closes all descriptors "
		       "(closefrom(), close_range(), a loop of close()) must do so before it uses CUDA.",
		       own->fd);
}

/* ---- the numbers 0, 1 and 2 ---- */

/* A descriptor that can be neither read nor written. */
static int open_nothing(void)
{
	return open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static bool is_nothing(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && flags & O_PATH;
}

static bool is_standard_closed(void)
{
	for (int fd = 0; fd < ABOVE_STANDARD; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			return true;
	return false;
}

static void hold(void)
{
	while (is_standard_closed() && guard.count < STANDARD) {
		int fd = open_nothing();

		if (fd >= ABOVE_STANDARD)
			close(fd);
		if (fd < 0 || fd >= ABOVE_STANDARD)
			return;
		guard.held[guard.count++] = fd;
	}
}

/* The application may have put another file under the number meanwhile. */
static void let_go(void)
{
	while (guard.count)
		if (is_nothing(guard.held[--guard.count]))
			close(guard.held[guard.count]);
}

int vcuda_own_descriptor_guard(void)
{
	int saved = errno, cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&lock);
	guard.users++;
	hold();
	pthread_mutex_unlock(&lock);
	errno = saved;
	return cancel_state;
}

void vcuda_own_descriptor_unguard(int guarded)
{
	int saved = errno;

	pthread_mutex_lock(&lock);
	if (!--guard.users)
		let_go();
	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(guarded, NULL);
	errno = saved;
}

void vcuda_own_descriptor_forked(void)
{
	pthread_mutex_init(&lock, NULL);
	let_go();
	guard.users = 0;
}
