/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Through vcudad's Unix socket (protocol/ipc/channel.h): the accepted connection is handed to our worker, whose channel
 * it is from then on. Shared memory is memfds that the worker makes.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "protocol/ipc/channel.h"
#include "protocol/control.h"
#include "common/log.h"
#include "private-memory.h"
#include "ring/ring.h"
#include "shared-memory.h"
#include "transport.h"
#include "protocol/wire.h"

/* A sleeper looks this often whether the worker still lives: a dead one wakes nobody. */
#define SLICE_US 50000

/* For a worker to start and answer. */
#define ATTACH_TIMEOUT_S 60

struct local_transport {
	struct client_transport base;
	int socket, doorbell;
	pthread_mutex_t lock; /* one request and its reply at a time */
	uint64_t cookie;
};

static struct local_transport *of(struct client_transport *t)
{
	return (struct local_transport *)t;
}

static int connect_to(const char *path, int (*prepare)(int fd))
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_sec = ATTACH_TIMEOUT_S};
	int fd, err;

	if (strlen(path) >= sizeof(a.sun_path))
		return -ENAMETOOLONG;
	strcpy(a.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	err = prepare ? prepare(fd) : 0;
	if (!err && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	/* A socket file on which no program listens any more is as good as none. */
	if (!err)
		err = errno == ECONNREFUSED || errno == ENOTDIR ? -ENOENT : -errno;
	close(fd);
	return err;
}

int client_local_connect(const char *where, int (*prepare)(int fd))
{
	const char *set = getenv("VCUDA_SOCKET"), *runtime = getenv("XDG_RUNTIME_DIR");
	char path[512];
	int fd = -ENOENT;

	if (where)
		return connect_to(where, prepare);
	if (set && *set)
		return connect_to(set, prepare);
	if (runtime && *runtime && snprintf(path, sizeof(path), "%s/vcuda/socket", runtime) < (int)sizeof(path))
		fd = connect_to(path, prepare);
	return fd == -ENOENT ? connect_to("/run/vcuda/socket", prepare) : fd;
}

/* Takes the descriptors of a reply; more than wanted are closed, fewer are -EPROTO. */
static int take_fds(struct msghdr *h, int *fds, unsigned int wanted)
{
	unsigned int got = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (got < wanted)
				fds[got++] = fd;
			else
				close(fd);
		}
	}
	if (got == wanted)
		return 0;
	while (got)
		close(fds[--got]);
	return -EPROTO;
}

/* One request, with the descriptor `sent` unless that is -1, and its reply, whose descriptors go to fds[wanted]. */
static int exchange_locked(struct local_transport *t, struct vcuda_channel_message *m, int sent, int *fds,
			   unsigned int wanted)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * 4)];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {m, sizeof(*m)};
	struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
	uint64_t cookie = ++t->cookie;
	ssize_t n;

	m->cookie = cookie;
	if (sent >= 0) {
		h.msg_control = &control;
		h.msg_controllen = CMSG_SPACE(sizeof(int));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.align), &sent, sizeof(int));
	}
	do {
		n = sendmsg(t->socket, &h, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	h.msg_control = &control;
	h.msg_controllen = sizeof(control);
	do {
		n = recvmsg(t->socket, &h, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	if (n == 0)
		return -EPIPE;
	if (n != sizeof(*m) || m->cookie != cookie || h.msg_flags & MSG_CTRUNC) {
		take_fds(&h, fds, 0);
		return -EPROTO;
	}
	if (m->status) {
		take_fds(&h, fds, 0);
		return m->status;
	}
	return take_fds(&h, fds, wanted);
}

static int exchange(struct local_transport *t, struct vcuda_channel_message *m, int sent, int *fds, unsigned int wanted)
{
	int err, cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&t->lock);
	err = exchange_locked(t, m, sent, fds, wanted);
	pthread_mutex_unlock(&t->lock);
	pthread_setcancelstate(cancel_state, NULL);
	return err;
}

static int attach(struct local_transport *t)
{
	struct vcuda_channel_message m = {
		.type = VCUDA_CHANNEL_ATTACH,
		.major = VCUDA_PROTOCOL_MAJOR,
		.minor = VCUDA_PROTOCOL_MINOR,
		.length = VCUDA_SHM_BYTES,
		.uid = getuid(),
		.pid = (uint32_t)getpid(),
	};
	int fds[2], err;

	err = exchange(t, &m, -1, fds, 2);
	t->base.host_major = m.major;
	t->base.host_minor = m.minor;
	if (err)
		return err;
	t->doorbell = fds[1];
	t->base.shm = mmap(NULL, VCUDA_SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	err = t->base.shm == MAP_FAILED ? -errno : 0;
	close(fds[0]);
	if (err)
		close(t->doorbell);
	else
		madvise(t->base.shm, VCUDA_SHM_BYTES, MADV_DONTFORK);
	return err;
}

static int local_open(struct client_transport **transport, const char *where)
{
	struct local_transport *t = calloc(1, sizeof(*t));
	int err;

	if (!t)
		return -ENOMEM;
	t->base.ops = &client_transport_local;
	pthread_mutex_init(&t->lock, NULL);
	t->socket = client_local_connect(where, NULL);
	if (t->socket < 0) {
		err = t->socket;
		goto free_transport;
	}
	err = attach(t);
	if (err)
		goto close_socket;
	*transport = &t->base;
	return 0;

close_socket:
	close(t->socket);
	if (err == -EPROTONOSUPPORT) {
		/* The caller names both versions. */
		*transport = &t->base;
		return err;
	}
free_transport:
	free(t);
	return err;
}

static void local_doorbell(struct client_transport *t)
{
	ssize_t n;

	do {
		n = write(of(t)->doorbell, &(uint64_t){1}, 8);
	} while (n < 0 && errno == EINTR);
}

static bool hung_up(struct local_transport *t)
{
	struct pollfd p = {.fd = t->socket, .events = POLLRDHUP};

	return poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL);
}

static int local_wait(struct client_transport *t, uint32_t seen, uint32_t timeout_us)
{
	struct vcuda_shm *shm = t->shm;
	uint32_t us = timeout_us && timeout_us < SLICE_US ? timeout_us : SLICE_US;
	struct timespec slice = {.tv_nsec = us * 1000L};

	for (;;) {
		/* Not FUTEX_PRIVATE: the worker wakes through its own mapping. */
		if (syscall(SYS_futex, &shm->wake, FUTEX_WAIT, seen, &slice, NULL, 0) == 0 || errno == EAGAIN)
			return 0;
		if (errno != ETIMEDOUT)
			return -errno;
		if (hung_up(of(t)))
			return -EPIPE;
		if (timeout_us)
			return -ETIMEDOUT;
	}
}

static int request_mapping(struct local_transport *t, void *address, size_t bytes, int *memfd)
{
	struct vcuda_channel_message m = {
		.type = VCUDA_CHANNEL_MAPPING_CREATE,
		.address = (uintptr_t)address,
		.length = bytes,
	};

	return exchange(t, &m, -1, memfd, 1);
}

static int request_unmap(struct local_transport *t, void *address, size_t bytes)
{
	struct vcuda_channel_message m = {
		.type = VCUDA_CHANNEL_MAPPING_UNMAP,
		.address = (uintptr_t)address,
		.length = bytes,
	};

	return exchange(t, &m, -1, NULL, 0);
}

static int local_mapping_create(struct client_transport *t, void *address, size_t bytes)
{
	int memfd, err;

	err = request_mapping(of(t), address, bytes, &memfd);
	if (err)
		return err;
	if (mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memfd, 0) == MAP_FAILED) {
		err = -errno;
		request_unmap(of(t), address, bytes);
	} else {
		madvise(address, bytes, MADV_DONTFORK);
	}
	close(memfd);
	return err;
}

/*
 * Private pages cannot be handed over, so they are replaced by shared ones with the same contents. What another thread
 * writes to them in that moment is lost; nobody writes to a buffer while registering it.
 */
static int exchange_pages(struct client_transport *t, void *address, size_t bytes)
{
	int memfd, err = request_mapping(of(t), address, bytes, &memfd);

	if (err)
		return err;
	err = client_private_memory_share(address, bytes, memfd);
	if (err)
		request_unmap(of(t), address, bytes);
	close(memfd);
	return err;
}

static int hand_over_pages(struct client_transport *t, void *address, size_t bytes, bool writable)
{
	struct vcuda_channel_message m = {
		.type = VCUDA_CHANNEL_MAPPING_ADOPT,
		.flags = writable ? VCUDA_MAP_WRITABLE : 0,
		.address = (uintptr_t)address,
		.length = bytes,
	};
	int file = t->host_minor ? client_shared_memory_open(address, bytes, writable, &m.offset) : -EOPNOTSUPP, err;

	if (file < 0)
		return file;
	err = exchange(of(t), &m, file, NULL, 0);
	close(file);
	return err;
}

static int local_mapping_register(struct client_transport *t, void *address, size_t bytes, bool writable,
				  enum client_mapping_release *pages)
{
	int err = client_private_memory_check(address, bytes, writable);

	if (err == -EOPNOTSUPP) {
		*pages = CLIENT_MAPPING_KEEP_PAGES;
		return hand_over_pages(t, address, bytes, writable);
	}
	*pages = CLIENT_MAPPING_RESTORE_PAGES;
	return err ? err : exchange_pages(t, address, bytes);
}

static int local_mapping_release(struct client_transport *t, void *address, size_t bytes,
				 enum client_mapping_release pages)
{
	int err = request_unmap(of(t), address, bytes);

	/* A worker that is gone maps nothing. */
	if (err && err != -EPIPE && err != -ECONNRESET)
		return err;
	if (pages == CLIENT_MAPPING_RESTORE_PAGES)
		return client_private_memory_restore(address, bytes);
	if (pages == CLIENT_MAPPING_REMOVE_PAGES &&
	    mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
		    MAP_FAILED)
		return -errno;
	return 0;
}

static void local_forked(struct client_transport *t)
{
	close(of(t)->socket);
	close(of(t)->doorbell);
}

const struct client_transport_ops client_transport_local = {
	.name = "local",
	.gpu_spin_ns = 1000000,
	.open = local_open,
	.doorbell = local_doorbell,
	.wait = local_wait,
	.mapping_create = local_mapping_create,
	.mapping_register = local_mapping_register,
	.mapping_release = local_mapping_release,
	.forked = local_forked,
};
