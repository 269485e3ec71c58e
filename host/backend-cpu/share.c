/* SPDX-License-Identifier: Apache-2.0 */
#include "share.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define PATIENCE_S 5

static const uint8_t magic[8] = "vcuda\0\0\1";

struct offer {
	uint8_t key[16];
	uint64_t kind, bytes;
	int fd;
	struct offer *next;
};

/* What is sent with the file. */
struct answer {
	uint64_t kind, bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct offer *offers;
static uint8_t our_name[16];
static int listener = -1;

static socklen_t address_of(const uint8_t *name, struct sockaddr_un *a)
{
	size_t n = 1;

	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	n += (size_t)snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "vcuda-share-");
	for (int i = 0; i < 16; i++)
		n += (size_t)snprintf(a->sun_path + n, sizeof(a->sun_path) - n, "%02x", name[i]);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
}

static bool is_same_user(int fd)
{
	struct ucred who;
	socklen_t length = sizeof(who);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == geteuid();
}

static void be_patient(int fd)
{
	struct timeval patience = {.tv_sec = PATIENCE_S};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

static void send_file(int to, struct answer *answer, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {answer, sizeof(*answer)};
	struct msghdr h = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	struct cmsghdr *c = &control.align;

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	sendmsg(to, &h, MSG_NOSIGNAL);
}

/* A descriptor of what is offered under that key; -1: nothing. */
static int find_offer(const uint8_t *key, struct answer *answer)
{
	int fd = -1;

	pthread_mutex_lock(&lock);
	for (struct offer *o = offers; o; o = o->next)
		if (!memcmp(o->key, key, sizeof(o->key))) {
			*answer = (struct answer){o->kind, o->bytes};
			fd = fcntl(o->fd, F_DUPFD_CLOEXEC, 0);
			break;
		}
	pthread_mutex_unlock(&lock);
	return fd;
}

static void serve(int client)
{
	struct answer answer;
	uint8_t key[16];
	int fd;

	be_patient(client);
	if (!is_same_user(client) || recv(client, key, sizeof(key), 0) != sizeof(key))
		return;
	fd = find_offer(key, &answer);
	if (fd < 0)
		return;
	send_file(client, &answer, fd);
	close(fd);
}

static void *listen_for_others(void *unused)
{
	for (;;) {
		int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (client >= 0) {
			serve(client);
			close(client);
		} else if (errno != EINTR && errno != ECONNABORTED) {
			return unused;
		}
	}
}

static bool start_thread(void)
{
	sigset_t all, before;
	pthread_t thread;
	bool ok;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ok = pthread_create(&thread, NULL, listen_for_others, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ok)
		pthread_detach(thread);
	return ok;
}

static bool open_locked(void)
{
	struct sockaddr_un a;
	socklen_t length;

	if (listener >= 0)
		return true;
	if (getrandom(our_name, sizeof(our_name), 0) != sizeof(our_name))
		return false;
	length = address_of(our_name, &a);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (listener < 0)
		return false;
	if (bind(listener, (struct sockaddr *)&a, length) == 0 && listen(listener, 64) == 0 && start_thread())
		return true;
	close(listener);
	listener = -1;
	return false;
}

int cpu_share_file(uint64_t bytes)
{
	int fd = memfd_create("vcuda-shared", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	if (ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0)
		return fd;
	close(fd);
	return -1;
}

bool cpu_share_offer(enum cpu_share_kind kind, uint64_t bytes, int fd, struct cpu_share_handle *handle)
{
	struct offer *o = calloc(1, sizeof(*o));
	bool ok;

	pthread_mutex_lock(&lock);
	ok = o && open_locked() && getrandom(o->key, sizeof(o->key), 0) == sizeof(o->key);
	if (ok) {
		o->kind = kind;
		o->bytes = bytes;
		o->fd = fd;
		o->next = offers;
		offers = o;
		*handle = (struct cpu_share_handle){.zero = {0}};
		memcpy(handle->magic, magic, sizeof(magic));
		memcpy(handle->server, our_name, sizeof(our_name));
		memcpy(handle->key, o->key, sizeof(o->key));
	}
	pthread_mutex_unlock(&lock);
	if (!ok) {
		cpu_log("cannot offer memory to other processes: %s", strerror(errno));
		free(o);
		close(fd);
	}
	return ok;
}

void cpu_share_withdraw(const struct cpu_share_handle *handle)
{
	pthread_mutex_lock(&lock);
	for (struct offer **at = &offers, *o; (o = *at); at = &o->next)
		if (!memcmp(o->key, handle->key, sizeof(o->key))) {
			*at = o->next;
			close(o->fd);
			free(o);
			break;
		}
	pthread_mutex_unlock(&lock);
}

/* The descriptor that came with a message; further ones are closed. -1: none. */
static int take_fd(struct msghdr *h)
{
	int fd = -1, extra;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
			memcpy(&extra, CMSG_DATA(c) + at, sizeof(extra));
			if (fd < 0)
				fd = extra;
			else
				close(extra);
		}
	}
	return fd;
}

static int ask(const struct cpu_share_handle *handle, struct answer *answer)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {answer, sizeof(*answer)};
	struct msghdr h = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	struct sockaddr_un a;
	socklen_t length = address_of(handle->server, &a);
	int fd = -1, s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (s < 0)
		return -1;
	be_patient(s);
	if (connect(s, (struct sockaddr *)&a, length) == 0 && is_same_user(s) &&
	    send(s, handle->key, sizeof(handle->key), MSG_NOSIGNAL) == sizeof(handle->key) &&
	    recvmsg(s, &h, MSG_CMSG_CLOEXEC) == sizeof(*answer))
		fd = take_fd(&h);
	close(s);
	return fd;
}

/* Of a file that can shrink, an access behind its end would end this process. */
static bool is_safe(int fd, uint64_t bytes)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && seals & F_SEAL_SHRINK && fstat(fd, &st) == 0 && st.st_size > 0 &&
	       (uint64_t)st.st_size >= bytes;
}

bool cpu_share_is_own(const struct cpu_share_handle *handle)
{
	bool own;

	pthread_mutex_lock(&lock);
	own = listener >= 0 && !memcmp(handle->server, our_name, sizeof(our_name));
	pthread_mutex_unlock(&lock);
	return own;
}

CUresult cpu_share_take(const struct cpu_share_handle *handle, enum cpu_share_kind kind, uint64_t *bytes, int *fd)
{
	struct answer answer = {0};

	if (memcmp(handle->magic, magic, sizeof(magic)))
		return CUDA_ERROR_INVALID_VALUE;
	*fd = cpu_share_is_own(handle) ? find_offer(handle->key, &answer) : ask(handle, &answer);
	if (*fd < 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (answer.kind != kind || !answer.bytes || !is_safe(*fd, answer.bytes)) {
		close(*fd);
		return CUDA_ERROR_INVALID_VALUE;
	}
	*bytes = answer.bytes;
	return CUDA_SUCCESS;
}
