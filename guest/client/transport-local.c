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
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "protocol/ipc/channel.h"
#include "protocol/control.h"
#include "common/fds.h"
#include "common/log.h"
#include "common/own-descriptor.h"
#include "fork-guard.h"
#include "mappings-local.h"
#include "private-memory.h"
#include "ring/ring.h"
#include "section.h"
#include "shared-memory.h"
#include "transport-local.h"
#include "protocol/wire.h"

/* A sleeping thread checks this often whether the worker still lives: a dead worker wakes no thread. */
#define SLICE_US 50000

/* The time for a worker to start and answer. */
#define ATTACH_TIMEOUT_S 60

static struct client_local *of(struct client_transport *t)
{
	return (struct client_local *)t;
}

/* -EBADF, with a line in the log: the application has closed the descriptor. -EPIPE: the session was given up. */
static int check(const struct vcuda_own_descriptor *d)
{
	if (d->fd < 0)
		return -EPIPE;
	if (vcuda_own_descriptor_is_there(d))
		return 0;
	vcuda_own_descriptor_say(d);
	return -EBADF;
}

/* The socket to which the thread has connected last. */
static _Thread_local char connected[sizeof(((struct sockaddr_un *)0)->sun_path)];

static int connect_to(const char *path, struct vcuda_own_descriptor *own, int (*prepare)(int fd))
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
	err = vcuda_own_descriptor_take(own, fd);
	if (err)
		return err;
	setsockopt(own->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	err = prepare ? prepare(own->fd) : 0;
	if (!err && connect(own->fd, (struct sockaddr *)&a, sizeof(a)) == 0) {
		strcpy(connected, path);
		return 0;
	}
	/* A socket file on which no program listens counts as missing. */
	if (!err)
		err = errno == ECONNREFUSED || errno == ENOTDIR ? -ENOENT : -errno;
	vcuda_own_descriptor_close(own);
	return err;
}

int client_local_connect(const char *where, struct vcuda_own_descriptor *own, int (*prepare)(int fd))
{
	const char *set = getenv("VCUDA_SOCKET"), *runtime = getenv("XDG_RUNTIME_DIR");
	char path[512];
	int err = -ENOENT;

	if (where)
		return connect_to(where, own, prepare);
	if (set && *set)
		return connect_to(set, own, prepare);
	if (runtime && *runtime && snprintf(path, sizeof(path), "%s/vcuda/socket", runtime) < (int)sizeof(path))
		err = connect_to(path, own, prepare);
	return err == -ENOENT ? connect_to("/run/vcuda/socket", own, prepare) : err;
}

/* By its name vcudad knows that the connection wants no worker. */
static int take_name(int fd)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	uint64_t number;
	int length;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -EIO;
	length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, VCUDA_PROCESS_NAME "%016llx",
			  (unsigned long long)number);
	return bind(fd, (struct sockaddr *)&name, (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 + length)
		       ? -errno
		       : 0;
}

int client_local_dialog(const char *where, struct vcuda_own_descriptor *own)
{
	return client_local_connect(where, own, take_name);
}

/* Takes the descriptors of a reply; more than wanted are closed, fewer are -EPROTO. */
static int take_fds(struct vcuda_fds *from, int *fds, unsigned int wanted)
{
	if (from->lost)
		return -EMFILE;
	vcuda_fds_close(from, from->count < wanted ? 0 : wanted);
	if (from->count != wanted)
		return -EPROTO;
	if (wanted)
		memcpy(fds, from->fd, wanted * sizeof(*fds));
	return 0;
}

/* One request, with the descriptor `sent` unless that is -1, and its reply, whose descriptors go to fds[wanted]. */
static int exchange_locked(struct client_local *t, struct vcuda_channel_message *m, int sent, int *fds,
			   unsigned int wanted)
{
	const struct iovec part = {m, sizeof(*m)};
	struct vcuda_fds received;
	uint64_t cookie = ++t->cookie;
	bool closed = false;
	ssize_t n;
	int err = check(&t->socket);

	if (err)
		return err;
	m->cookie = cookie;
	n = vcuda_fds_send(t->socket.fd, &part, 1, &sent, sent >= 0, 0);
	if (n < 0 && n != -EPIPE && n != -ECONNRESET)
		return (int)n;
	for (;;) {
		n = vcuda_fds_receive(t->socket.fd, &part, 1, &received, 0);
		/* After that error come the messages that the peer sent before it closed the connection. */
		if (n == -ECONNRESET && !closed) {
			closed = true;
			continue;
		}
		/* The reply to a request whose time was over. */
		if (n != sizeof(*m) || m->cookie >= cookie)
			break;
		vcuda_fds_close(&received, 0);
	}
	if (n < 0)
		return n == -EAGAIN ? -ETIMEDOUT : n == -EMSGSIZE ? -EPROTO : (int)n;
	if (n == 0)
		return -EPIPE;
	if (n == sizeof(*m) && m->cookie == cookie && (!m->status || received.lost))
		return take_fds(&received, fds, wanted);
	vcuda_fds_close(&received, 0);
	return n == sizeof(*m) && m->cookie == cookie ? m->status : -EPROTO;
}

int client_local_exchange(struct client_local *t, struct vcuda_channel_message *m, int sent, int *fds,
			  unsigned int wanted)
{
	int err, guarded = vcuda_own_descriptor_guard();

	pthread_mutex_lock(&t->lock);
	err = exchange_locked(t, m, sent, fds, wanted);
	pthread_mutex_unlock(&t->lock);
	vcuda_own_descriptor_unguard(guarded);
	return err;
}

static int attach(struct client_local *t)
{
	struct vcuda_channel_message m = {
		.type = VCUDA_CHANNEL_ATTACH,
		.flags = client_local_detaches() ? VCUDA_ATTACH_MAY_DETACH : 0,
		.major = VCUDA_PROTOCOL_MAJOR,
		.minor = VCUDA_PROTOCOL_MINOR,
		.length = VCUDA_SHM_BYTES,
		.uid = getuid(),
		.pid = (uint32_t)getpid(),
	};
	int fds[2], err;

	err = client_local_exchange(t, &m, -1, fds, 2);
	t->base.host_major = m.major;
	t->base.host_minor = m.minor;
	t->worker = m.pid;
	if (err)
		return err;
	err = vcuda_own_descriptor_take(&t->doorbell, fds[1]);
	if (err) {
		close(fds[0]);
		return err;
	}
	t->base.shm = client_fork_map(NULL, VCUDA_SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0]);
	err = t->base.shm == MAP_FAILED ? -errno : 0;
	close(fds[0]);
	if (err)
		vcuda_own_descriptor_close(&t->doorbell);
	return err;
}

void client_local_make_reserve(struct client_local *t)
{
	/* A file of the application's may have the number. */
	int fd = vcuda_own_descriptor_is_there(&t->socket) ? fcntl(t->socket.fd, F_DUPFD_CLOEXEC, 3) : -1;

	if (fd >= 0)
		vcuda_own_descriptor_take(&t->reserve, fd);
}

/* The program may go to another folder. A path that is too long is looked for again. */
static void note_path(struct client_local *t)
{
	size_t bytes = 0;

	if (connected[0] != '/' && getcwd(t->path, sizeof(t->path)))
		bytes = strlen(t->path);
	if (connected[0] != '/')
		t->path[bytes++] = '/';
	if ((connected[0] != '/' && bytes < 2) || bytes + strlen(connected) >= sizeof(t->path))
		t->path[0] = 0;
	else
		strcpy(t->path + bytes, connected);
}

static int open_guarded(struct client_local *t, const char *where)
{
	int err = client_local_connect(where, &t->socket, NULL);

	if (err)
		return err;
	note_path(t);
	err = attach(t);
	if (err)
		vcuda_own_descriptor_close(&t->socket);
	else
		client_local_make_reserve(t);
	return err;
}

static int local_open(struct client_transport **transport, const char *where)
{
	struct client_local *t = calloc(1, sizeof(*t));
	int err, guarded;

	if (!t)
		return -ENOMEM;
	t->base.ops = &client_transport_local;
	t->socket.fd = t->doorbell.fd = t->reserve.fd = t->dialog.fd = t->file.fd = -1;
	pthread_mutex_init(&t->lock, NULL);
	pthread_mutex_init(&t->reserve_lock, NULL);
	pthread_mutex_init(&t->mappings_lock, NULL);
	guarded = vcuda_own_descriptor_guard();
	err = open_guarded(t, where);
	vcuda_own_descriptor_unguard(guarded);
	if (!err) {
		*transport = &t->base;
		return 0;
	}
	if (err == -EPROTONOSUPPORT) {
		/* The caller names both versions. */
		*transport = &t->base;
		return err;
	}
	free(t);
	return err;
}

static int local_doorbell(struct client_transport *t)
{
	int err = check(&of(t)->doorbell);
	ssize_t n;

	if (err)
		return err;
	do {
		n = write(of(t)->doorbell.fd, &(uint64_t){1}, 8);
	} while (n < 0 && errno == EINTR);
	return 0;
}

static bool hung_up(struct client_local *t)
{
	struct pollfd p = {.fd = t->socket.fd, .events = POLLRDHUP};

	return poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL);
}

static int local_wait(struct client_transport *t, uint32_t seen, uint32_t timeout_us)
{
	struct vcuda_shm *shm = t->shm;
	uint32_t us = timeout_us && timeout_us < SLICE_US ? timeout_us : SLICE_US;
	struct timespec slice = {.tv_nsec = us * 1000L};
	int err;

	for (;;) {
		/* Not FUTEX_PRIVATE: the worker wakes through its own mapping. */
		if (syscall(SYS_futex, &shm->wake, FUTEX_WAIT, seen, &slice, NULL, 0) == 0 || errno == EAGAIN)
			return 0;
		if (errno != ETIMEDOUT)
			return -errno;
		err = check(&of(t)->socket);
		if (err)
			return err;
		if (hung_up(of(t)))
			return -EPIPE;
		if (timeout_us)
			return -ETIMEDOUT;
	}
}

static bool is_full(void)
{
	int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd < 0 && (errno == EMFILE || errno == ENFILE);
}

/*
 * Between these two calls the thread is in a section, as all threads are that change mappings: in a process that is
 * locked none is there, and none has the guard.
 */
static int begin_change(void)
{
	client_section_enter();
	return vcuda_own_descriptor_guard();
}

static void end_change(int guarded)
{
	vcuda_own_descriptor_unguard(guarded);
	client_section_leave();
}

/*
 * The same, where memory is shared, which takes a descriptor for a moment. A process that has as many as it may have
 * gets the reserve's.
 */
struct sharing {
	bool lent;
	int guarded;
};

static struct sharing begin_sharing(struct client_local *t)
{
	struct sharing s = {.guarded = begin_change()};

	s.lent = is_full();
	if (s.lent) {
		pthread_mutex_lock(&t->reserve_lock);
		vcuda_own_descriptor_close(&t->reserve);
	}
	return s;
}

static void end_sharing(struct client_local *t, struct sharing s)
{
	if (s.lent) {
		client_local_make_reserve(t);
		pthread_mutex_unlock(&t->reserve_lock);
	}
	end_change(s.guarded);
}

static int request_mapping(struct client_local *t, void *address, size_t bytes, int *memfd)
{
	struct vcuda_channel_message m = {
		.type = VCUDA_CHANNEL_MAPPING_CREATE,
		.address = (uintptr_t)address,
		.length = bytes,
	};

	return client_local_exchange(t, &m, -1, memfd, 1);
}

static int request_unmap(struct client_local *t, void *address, size_t bytes)
{
	struct vcuda_channel_message m = {
		.type = VCUDA_CHANNEL_MAPPING_UNMAP,
		.address = (uintptr_t)address,
		.length = bytes,
	};

	return client_local_exchange(t, &m, -1, NULL, 0);
}

static int create_shared(struct client_transport *t, void *address, size_t bytes, struct client_file_id *file)
{
	int memfd, err;

	err = request_mapping(of(t), address, bytes, &memfd);
	if (err)
		return err;
	if (client_fork_map(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memfd) == MAP_FAILED) {
		err = -errno;
		request_unmap(of(t), address, bytes);
	}
	*file = client_file_id(memfd);
	close(memfd);
	return err;
}

static int local_mapping_create(struct client_transport *t, void *address, size_t bytes)
{
	struct sharing sharing = begin_sharing(of(t));
	struct client_file_id file;
	int err = create_shared(t, address, bytes, &file);

	if (!err)
		client_local_note_mapping(of(t), address, bytes, CLIENT_MAPPING_REMOVE_PAGES, &file);
	end_sharing(of(t), sharing);
	return err;
}

/*
 * Private pages cannot be handed over, so shared ones with the same contents replace them. A write of another thread
 * during the exchange may be lost: a program does not write to a buffer while it registers the buffer.
 */
static int exchange_pages(struct client_transport *t, void *address, size_t bytes, struct client_file_id *file)
{
	int memfd, err = request_mapping(of(t), address, bytes, &memfd);

	if (err)
		return err;
	err = client_private_memory_share(address, bytes, memfd);
	if (err)
		request_unmap(of(t), address, bytes);
	*file = client_file_id(memfd);
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
	struct client_short_descriptor file;
	int err = t->host_minor ? client_shared_memory_open(address, bytes, writable, &file, &m.offset) : -EOPNOTSUPP;

	if (err)
		return err;
	err = client_local_exchange(of(t), &m, file.fd, NULL, 0);
	client_short_descriptor_close(&file);
	return err;
}

static int share_existing(struct client_transport *t, void *address, size_t bytes, bool writable,
			  enum client_mapping_release *pages, struct client_file_id *shared)
{
	int err = client_private_memory_check(address, bytes, writable);

	if (err == -EOPNOTSUPP) {
		*pages = CLIENT_MAPPING_KEEP_PAGES;
		return hand_over_pages(t, address, bytes, writable);
	}
	*pages = CLIENT_MAPPING_RESTORE_PAGES;
	return err ? err : exchange_pages(t, address, bytes, shared);
}

static int local_mapping_register(struct client_transport *t, void *address, size_t bytes, bool writable,
				  enum client_mapping_release *pages)
{
	struct sharing sharing = begin_sharing(of(t));
	struct client_file_id file = {0};
	int err = share_existing(t, address, bytes, writable, pages, &file);

	if (!err)
		client_local_note_mapping(of(t), address, bytes, *pages, &file);
	end_sharing(of(t), sharing);
	return err;
}

static int release(struct client_transport *t, void *address, size_t bytes, enum client_mapping_release pages)
{
	int err = request_unmap(of(t), address, bytes);

	/* A worker that is gone maps nothing. */
	if (err && err != -EPIPE && err != -ECONNRESET)
		return err;
	client_local_forget_mapping(of(t), address);
	if (pages == CLIENT_MAPPING_RESTORE_PAGES)
		return client_private_memory_restore(address, bytes);
	if (pages == CLIENT_MAPPING_REMOVE_PAGES &&
	    mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
		    MAP_FAILED)
		return -errno;
	return 0;
}

static int local_mapping_release(struct client_transport *t, void *address, size_t bytes,
				 enum client_mapping_release pages)
{
	int guarded = begin_change(), err = release(t, address, bytes, pages);

	end_change(guarded);
	return err;
}

/* An older worker does not know the request. */
static int local_export_descriptor(struct client_transport *t, const uint64_t name[2], const uint8_t contents[64])
{
	struct vcuda_channel_message m = {.type = VCUDA_CHANNEL_EXPORT, .address = name[0], .length = name[1]};
	int fd, guarded = begin_change(), err = client_local_exchange(of(t), &m, -1, &fd, 1);

	(void)contents; /* the worker's side has written them */
	end_change(guarded);
	return err == -EPROTO ? -EOPNOTSUPP : err ? err : fd;
}

static void local_forked(struct client_transport *t)
{
	pthread_mutex_init(&of(t)->mappings_lock, NULL);
	vcuda_own_descriptor_close(&of(t)->file);
	vcuda_own_descriptor_close(&of(t)->dialog);
	vcuda_own_descriptor_close(&of(t)->socket);
	vcuda_own_descriptor_close(&of(t)->doorbell);
	vcuda_own_descriptor_close(&of(t)->reserve);
	vcuda_own_descriptor_forked();
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
	.export_descriptor = local_export_descriptor,
	.detaching = &client_local_detaching,
	.forked = local_forked,
};
