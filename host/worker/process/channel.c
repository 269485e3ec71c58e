/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/ipc/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "process/channel-request.h"
#include "process/channel-serve.h"
#include "protocol/control.h"
#include "protocol/ipc/layout.h"
#include "protocol/ipc/gate.h"
#include "memory/direct.h"
#include "common/log.h"
#include "common/trace-point.h"
#include "memory/mapper.h"
#include "memory/ram.h"
#include "session/figure.h"
#include "session/keeper.h"
#include "session/worker-table-slot.h"
#include "session/session.h"
#include "process/warm.h"
#include "protocol/wire.h"
#include "process/worker.h"
#include "host/sandbox/sandbox.h"

/* virtio: the RAM regions by number. Kept open: mappings are mapped from them. */
static struct {
	bool local, resumed;
	int ram[VCUDA_CHANNEL_MAX_FDS];
	unsigned int ram_count;
	pthread_t thread;
	_Atomic bool detached;        /* the peer may hang up */
	_Atomic uint32_t connections; /* the number of connections that have replaced the first one; a futex */
} channel;

/* A memfd of `length` zeroed bytes that neither side can shrink under the other. */
static int sealed_memfd(const char *name, uint64_t length)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)length) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* In place of what the guest process may have sent. */
static int make_shared_area(struct worker_request *q)
{
	int shm = sealed_memfd("vcuda-shared", VCUDA_SHM_BYTES), doorbell = shm < 0 ? shm : eventfd(0, EFD_CLOEXEC);

	worker_request_close_fds(q);
	if (shm < 0)
		return shm;
	q->fds[q->fd_count++] = shm;
	if (doorbell < 0)
		return -errno;
	q->fds[q->fd_count++] = doorbell;
	return 0;
}

/* ---- a guest process that is away ---- */

static void detach(void)
{
	atomic_store(&channel.detached, true);
}

/* A thread that receives on the old connection, which a child of the guest process may still have, leaves it. */
static int replace_connection(int fd)
{
	shutdown(VCUDA_CHANNEL_FD, SHUT_RDWR);
	if (dup3(fd, VCUDA_CHANNEL_FD, O_CLOEXEC) < 0)
		return -errno;
	atomic_fetch_add(&channel.connections, 1);
	return 0;
}

static int take_connection(int fd)
{
	int err = fd < 0 ? 0 : replace_connection(fd);

	if (err)
		return err;
	atomic_store(&channel.detached, false);
	syscall(SYS_futex, &channel.connections, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	return 0;
}

/* After the peer has hung up. False: there will be no other connection than the one of that number. */
static bool wait_for_connection(uint32_t number)
{
	while (atomic_load(&channel.connections) == number) {
		if (!atomic_load(&channel.detached))
			return atomic_load(&channel.connections) != number;
		syscall(SYS_futex, &channel.connections, FUTEX_WAIT_PRIVATE, number, NULL, NULL, 0);
	}
	return true;
}

/* The shared area and doorbell are ours; the guest process gets descriptors of both. */
static int attach_local(struct worker_session *s, struct worker_request *q)
{
	int err = channel.resumed ? 0 : make_shared_area(q);
	void *place;

	if (err)
		return err;
	place = worker_mappings_own_area(s->mappings);
	s->shm = mmap(place, VCUDA_SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | (place ? MAP_FIXED : 0), q->fds[0],
		      0);
	if (s->shm == MAP_FAILED)
		return -errno;
	madvise(s->shm, VCUDA_SHM_BYTES, MADV_DONTFORK);
	s->doorbell = q->fds[1];
	s->notify = -1;
	s->detach = detach;
	s->attach = take_connection;
	if (q->m.flags & VCUDA_ATTACH_MAY_DETACH)
		worker_mappings_keep_files(s->mappings);
	return 0;
}

/* Larger than needed where guest RAM comes in large pages: extents are whole pages. */
#define MAX_SHARED_BYTES (4u << 20)

_Static_assert(MAX_SHARED_BYTES <= WORKER_OWN_BYTES && VCUDA_SHM_BYTES <= WORKER_OWN_BYTES, "it fits its place");

/* Runs of guest RAM as the mapping code wants them. vcudad has checked them against the regions' sizes. */
static int translate(const struct worker_request *q, struct worker_mapping_extent *to, uint64_t *bytes)
{
	*bytes = 0;
	for (unsigned int i = 0; i < q->m.extents; i++) {
		const struct vcuda_channel_extent *e = &q->extents[i];

		if (e->region >= channel.ram_count && !worker_mapper_is_there())
			return -EINVAL;
		to[i] = (struct worker_mapping_extent){
			worker_mapper_is_there() ? (int)e->region : channel.ram[e->region], e->offset, e->length};
		*bytes += e->length;
	}
	return 0;
}

static struct worker_mapping_extent extents[VCUDA_CHANNEL_MAX_EXTENTS]; /* of the request that is served */

static int map_shared_area(struct worker_session *s, const struct worker_request *q)
{
	uint8_t *at = worker_mappings_own_area(s->mappings);
	uint64_t bytes;
	int err;

	if (!at)
		at = mmap(NULL, MAX_SHARED_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return -errno;
	err = translate(q, extents, &bytes);
	if (!err && (bytes < (s->peer_minor ? VCUDA_SHM_BYTES : VCUDA_SHM_BYTES_0) || bytes > MAX_SHARED_BYTES))
		err = -EINVAL;
	if (!err)
		err = worker_mapper_map((uintptr_t)at, extents, q->m.extents, true);
	if (err)
		return err;
	madvise(at, bytes, MADV_DONTFORK);
	s->shm = at;
	return 0;
}

static int attach_virtio(struct worker_session *s, struct worker_request *q)
{
	/* With a mapper no descriptor of RAM comes. */
	if (q->fd_count < (worker_mapper_is_there() ? 2 : 3))
		return -EPROTO;
	s->doorbell = q->fds[0];
	s->notify = q->fds[1];
	channel.ram_count = q->fd_count - 2;
	memcpy(channel.ram, q->fds + 2, channel.ram_count * sizeof(int));
	worker_ram_files(channel.ram, channel.ram_count);
	return map_shared_area(s, q);
}

/* Kept, with its descriptors: a warm worker may have to start again from here. */
static struct worker_request attached;

static int attach(struct worker_session *s)
{
	struct worker_request *q = &attached;
	int err;

	s->peer_minor = q->m.minor;
	s->guest_pid = (pid_t)q->m.pid;
	if (q->m.type != VCUDA_CHANNEL_ATTACH)
		err = -EPROTO;
	else if (q->m.major != VCUDA_PROTOCOL_MAJOR)
		err = -EPROTONOSUPPORT;
	else
		err = channel.local ? attach_local(s, q) : attach_virtio(s, q);
	if (err == -EPROTONOSUPPORT)
		vcuda_log("the guest library speaks protocol %u.%u, this worker %d.%d: install matching versions",
			  q->m.major, q->m.minor, VCUDA_PROTOCOL_MAJOR, VCUDA_PROTOCOL_MINOR);
	if (err)
		return err;
	worker_table_join(channel.local, s->guest_pid);
	vcuda_trace_point("worker: has its guest process");
	return 0;
}

/* The first message to a warm worker: from now on it has a guest process, and perhaps another channel. */
static int claim(struct worker_request *q)
{
	worker_warm_claim();
	vcuda_log_quiet(false);
	if (q->m.type != VCUDA_CHANNEL_CLIENT)
		return 0;
	if (q->fd_count != 1)
		return -EPROTO;
	worker_request_reply(q, 0, NULL, 0);
	worker_mapper_end();
	if (dup2(q->fds[0], VCUDA_CHANNEL_FD) < 0)
		return -errno;
	worker_request_close_fds(q);
	channel.local = true;
	return 1;
}

/* vcudad has limited the time for a local client's first message, which is here. */
static void wait_for_ever(void)
{
	setsockopt(VCUDA_CHANNEL_FD, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0}, sizeof(struct timeval));
}

static void report_silence(void)
{
	struct timeval patience = {0};
	struct ucred who = {0};

	getsockopt(VCUDA_CHANNEL_FD, SOL_SOCKET, SO_PEERCRED, &who, &(socklen_t){sizeof(who)});
	getsockopt(VCUDA_CHANNEL_FD, SOL_SOCKET, SO_RCVTIMEO, &patience, &(socklen_t){sizeof(patience)});
	vcuda_log("process %d of user %u is refused: it has sent nothing for %ld s since it connected (raise "
		  "--client-timeout)",
		  who.pid, who.uid, patience.tv_sec);
}

int worker_channel_attach(struct worker_session *s, enum worker_channel_kind kind)
{
	int n = worker_request_receive(&attached), err = 0;

	channel.local = kind == WORKER_CHANNEL_LOCAL;
	if (n > 0 && kind == WORKER_CHANNEL_WARM)
		err = claim(&attached);
	if (err < 0)
		return err;
	if (err)
		n = worker_request_receive(&attached);
	if (n == -EAGAIN)
		report_silence();
	if (n <= 0)
		return n ? n : -ECONNRESET;
	wait_for_ever();
	err = attach(s);
	worker_request_reply(&attached, err, attached.fds, !err && channel.local ? 2 : 0);
	return err;
}

/* Descriptors that the program is run anew with; all others, the driver's above all, go, so that what they hold is
 * freed. */
static void keep_descriptors(int state)
{
	close_range(VCUDA_GATE_FD + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC);
	fcntl(state, F_SETFD, 0);
	for (unsigned int i = 0; i < attached.fd_count; i++)
		fcntl(attached.fds[i], F_SETFD, 0);
}

int worker_channel_restart(void)
{
	int state = memfd_create("vcuda-attached", 0);
	struct rlimit stack;
	char number[16];
	char *argv[12] = {"vcuda-worker",
			  "--transport",
			  channel.local ? "local" : "virtio",
			  "--backend",
			  (char *)worker_backend,
			  "--sandbox",
			  (char *)sandbox_mode(),
			  "--resume",
			  number};
	unsigned int count = 9;

	if (worker_ram_is_wanted())
		argv[count++] = "--register-ram";
	if (worker_figures_are_allowed())
		argv[count++] = "--nvml-host-figures";
	/* Not with the descriptors of RAM, which only a mapper has that was there before the guest. */
	if (worker_mapper_is_there())
		_exit(VCUDA_CHANNEL_UNFIT);
	if (state < 0)
		return -errno;
	if (write(state, &attached, sizeof(attached)) == sizeof(attached)) {
		snprintf(number, sizeof(number), "%d", state);
		keep_descriptors(state);
		vcuda_worker_layout(&stack);
		execv("/proc/self/exe", argv);
	}
	close(state);
	return -errno;
}

int worker_channel_resume(struct worker_session *s, enum worker_channel_kind kind, int fd)
{
	channel.local = kind == WORKER_CHANNEL_LOCAL;
	channel.resumed = true;
	if (pread(fd, &attached, sizeof(attached), 0) != sizeof(attached) || attached.fd_count > VCUDA_CHANNEL_MAX_FDS)
		return -EPROTO;
	close(fd);
	for (unsigned int i = 0; i < attached.fd_count; i++)
		fcntl(attached.fds[i], F_SETFD, FD_CLOEXEC);
	return attach(s);
}

/* local: memory that both sides share is a memfd of ours, at the address of the guest's choice. */
static int create_mapping(struct worker_session *s, const struct worker_request *q)
{
	struct worker_mapping_extent e = {.length = q->m.length};
	int err;

	if (!q->m.length)
		return -EINVAL;
	e.file = sealed_memfd("vcuda-mapping", q->m.length);
	if (e.file < 0)
		return e.file;
	err = worker_mapping_add(s->mappings, q->m.address, q->m.length, 0, true, true, &e, 1);
	if (!err)
		worker_request_reply(q, 0, &e.file, 1);
	close(e.file);
	return err;
}

#define PAGE_BYTES 4096u

/*
 * local: memory that the guest process shares with others already. On a tmpfs nothing is ever waited for; if the file
 * is cut short under us, this worker ends, and with it that guest process alone.
 */
static int adopt_mapping(struct worker_session *s, const struct worker_request *q)
{
	struct worker_mapping_extent e = {.offset = q->m.offset, .length = q->m.length};
	struct statfs fs;
	struct stat file;
	uint64_t bytes;

	if (q->fd_count != 1)
		return -EPROTO;
	e.file = q->fds[0];
	if (fstatfs(e.file, &fs) || fstat(e.file, &file))
		return -errno;
	if (fs.f_type != TMPFS_MAGIC || !S_ISREG(file.st_mode))
		return -EOPNOTSUPP;
	/* The file's last page is there as a whole. */
	bytes = ((uint64_t)file.st_size + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	if (e.length > bytes || e.offset > bytes - e.length)
		return -EFAULT;
	return worker_mapping_add(s->mappings, q->m.address, e.length, 0, q->m.flags & VCUDA_MAP_WRITABLE, true, &e, 1);
}

static int add_mapping(struct worker_session *s, const struct worker_request *q)
{
	uint64_t bytes;

	if (q->m.flags & VCUDA_MAP_DIRECT)
		return worker_direct_map(q->m.address, q->m.length, q->m.offset, q->m.flags & VCUDA_MAP_WRITABLE,
					 q->m.flags & VCUDA_MAP_LAST, q->extents, q->m.extents);
	if (translate(q, extents, &bytes))
		return -EINVAL;
	return worker_mapping_add(s->mappings, q->m.address, q->m.length, q->m.offset, q->m.flags & VCUDA_MAP_WRITABLE,
				  q->m.flags & VCUDA_MAP_LAST, extents, q->m.extents);
}

/* vcudad lets none of either kind overlap another. */
static int remove_mapping(struct worker_session *s, const struct worker_request *q)
{
	int err = channel.local ? -ENOENT : worker_direct_unmap(q->m.address, q->m.length);

	return err == -ENOENT ? worker_mapping_remove(s->mappings, q->m.address, q->m.length) : err;
}

/* The guest process has come back, or another one that was made of it. */
static int resume(struct worker_session *s, const struct worker_request *q)
{
	s->guest_pid = (pid_t)q->m.pid;
	worker_table_renumber(s->guest_pid);
	worker_request_reply(q, 0, attached.fds, 2);
	return 0;
}

/* fd: the worker's, or -errno. */
static int reply_with(const struct worker_request *q, int fd)
{
	if (fd >= 0)
		worker_request_reply(q, 0, &fd, 1);
	return fd < 0 ? fd : 0;
}

/* The guest alone has the descriptor from now on. */
static int give_export(const struct worker_request *q)
{
	int fd = worker_keeper_descriptor((uint64_t[]){q->m.address, q->m.length}), err = reply_with(q, fd);

	if (fd >= 0)
		close(fd);
	return err;
}

/* Requests whose reply has descriptors are answered here where they succeed. */
static int serve_local(struct worker_session *s, const struct worker_request *q, bool *replied)
{
	int err;

	switch (q->m.type) {
	case VCUDA_CHANNEL_MAPPING_CREATE:
		err = create_mapping(s, q);
		break;
	case VCUDA_CHANNEL_RESUME:
		err = resume(s, q);
		break;
	case VCUDA_CHANNEL_MAPPING_SHARE:
		err = reply_with(q, worker_mapping_file(s->mappings, q->m.address, q->m.length));
		break;
	case VCUDA_CHANNEL_EXPORT:
		err = give_export(q);
		break;
	case VCUDA_CHANNEL_MAPPING_ADOPT:
		return adopt_mapping(s, q);
	case VCUDA_CHANNEL_MAPPING_UNMAP:
		return remove_mapping(s, q);
	case VCUDA_CHANNEL_DETACH:
		if (!(attached.m.flags & VCUDA_ATTACH_MAY_DETACH))
			return -EOPNOTSUPP;
		if (!worker_mappings_have_files(s->mappings))
			return -EMFILE;
		return atomic_load(&channel.detached) ? 0 : -EAGAIN;
	default:
		return -EPROTO;
	}
	*replied = !err;
	return err;
}

static int serve_request(struct worker_session *s, const struct worker_request *q, bool *replied)
{
	if (channel.local)
		return serve_local(s, q, replied);
	switch (q->m.type) {
	case VCUDA_CHANNEL_MAPPING_MAP:
		return add_mapping(s, q);
	case VCUDA_CHANNEL_MAPPING_UNMAP:
		return remove_mapping(s, q);
	default:
		return -EPROTO;
	}
}

/* Until the peer hangs up. Returns what worker_request_receive() has. */
static int serve_connection(struct worker_session *s)
{
	static struct worker_request q;
	int n;

	while ((n = worker_request_receive(&q)) > 0) {
		bool replied = false;
		int err = serve_request(s, &q, &replied);

		if (!replied)
			worker_request_reply(&q, err, NULL, 0);
		worker_request_close_fds(&q);
	}
	return n;
}

static void *serve(void *session)
{
	uint32_t connection;
	int n;

	do {
		connection = atomic_load(&channel.connections);
		n = serve_connection(session);
	} while (n == 0 && wait_for_connection(connection));
	if (n < 0)
		vcuda_log("the control channel is broken: %s", strerror(-n));
	vcuda_trace_point("worker: guest process is gone");
	worker_table_ends();
	/* The guest process is gone: so is everything that it had. The driver frees it with this process. */
	_exit(n < 0 ? 1 : 0);
}

int worker_channel_start(struct worker_session *s)
{
	return -pthread_create(&channel.thread, NULL, serve, s);
}
