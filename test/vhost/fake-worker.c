/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker for tests of vcudad: speaks channel.h, computes nothing. How it misbehaves is the `uid` of ATTACH (virtio)
 * or the message's `flags` (local). On a doorbell it adds one to the second word of the shared area and notifies; on
 * MAP it writes a number into the first word of each extent of a writable part, another one where it is direct. For a
 * warm worker VCUDA_FAKE_WARM chooses the misbehaviour.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "protocol/ipc/channel.h"
#include "protocol/ipc/gate.h"
#include "protocol/control.h"
#include "ring/ring.h"

enum misbehaviour {
	EXITS_BEFORE_REPLY = 1001,
	REFUSES,       /* ATTACH: -ENOMEM */
	OTHER_VERSION, /* ATTACH: -EPROTONOSUPPORT, version 9.3 */
	WRONG_COOKIE,  /* in the reply of ATTACH */
	IGNORES_END,   /* stays when the channel is closed, until it is killed */
	CRASHES_ON_DOORBELL,
	REFUSES_MAP, /* each second MAP: -EADDRNOTAVAIL */
	CRASHES_ON_MAP,
	BUSY_UNMAP,  /* UNMAP: -EBUSY */
	SLOW_ATTACH, /* 300 ms */
	FLOODS,      /* 1,000 replies without a request */
	NO_CHANNEL,  /* closes the channel, and stays */
	/* local, by stderr: */
	WRITES_ESCAPES, /* hostile text; tries to truncate the log */
	FLOODS_LOG,     /* 1 MiB, waits for room; then last words, and abort() */
	FILLS_LOG,      /* 1 MiB before the reply */
	/* virtio: */
	FORKS,                   /* leaves processes that write to the shared area */
	UNFIT_ON_DOORBELL,       /* ends with VCUDA_CHANNEL_UNFIT */
	EATS_ON_DOORBELL,        /* EATEN_BYTES of memory, before it notifies */
	FILLS_MAPPINGS,          /* MAP writes to all of a writable part */
	BREAKS_GATE_ON_DOORBELL, /* answers what was not asked */
	CLOSES_GATE,
};

/* The last of the processes that FORKS leaves ends so much later, in seconds, if no test ends it. */
#define FORKS_LIMIT 120

#define EATEN_BYTES (512 << 20)

/* The words of the shared area that FORKS writes to: the counter and number of each kind of process. */
enum { COUNTERS = 8, PROCESSES = 16 };

static struct {
	struct vcuda_channel_message m;
	struct vcuda_channel_extent extents[VCUDA_CHANNEL_MAX_EXTENTS];
	int fds[VCUDA_CHANNEL_MAX_FDS];
	unsigned int fd_count;
} q;

static int ram[VCUDA_CHANNEL_MAX_FDS];
static unsigned int ram_count;
static int doorbell = -1, notify = -1;
static uint64_t *shared;
static enum misbehaviour misbehaviour;
static unsigned int maps;

static void fail(const char *why)
{
	fprintf(stderr, "fake-worker: %s\n", why);
	_exit(3);
}

static void receive(void)
{
	union {
		char bytes[CMSG_SPACE(sizeof(q.fds))];
		struct cmsghdr align;
	} control;
	struct iovec parts[2] = {{&q.m, sizeof(q.m)}, {q.extents, sizeof(q.extents)}};
	struct msghdr h = {
		.msg_iov = parts, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(VCUDA_CHANNEL_FD, &h, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c;

	if (n <= 0 && misbehaviour == IGNORES_END)
		for (;;)
			pause();
	if (n <= 0)
		_exit(0);
	if ((size_t)n != sizeof(q.m) + q.m.extents * sizeof(q.extents[0]))
		fail("a request of the wrong length");
	q.fd_count = 0;
	c = CMSG_FIRSTHDR(&h);
	if (c) {
		q.fd_count = (unsigned int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(q.fds, CMSG_DATA(c), q.fd_count * sizeof(int));
	}
}

static void reply(int status, const int *fds, unsigned int count)
{
	struct vcuda_channel_message m = {.type = q.m.type,
					  .cookie = q.m.cookie,
					  .status = status,
					  .major = 1,
					  .minor = 7,
					  .pid = (uint32_t)getpid(),
					  .uid = q.m.uid};
	union {
		char bytes[CMSG_SPACE(sizeof(int) * 2)];
		struct cmsghdr align;
	} control = {0};
	struct iovec part = {&m, sizeof(m)};
	struct msghdr h = {.msg_iov = &part, .msg_iovlen = 1};

	if (misbehaviour == WRONG_COOKIE)
		m.cookie += 17;
	if (misbehaviour == OTHER_VERSION) {
		m.major = 9;
		m.minor = 3;
	}
	if (count) {
		h.msg_control = &control;
		h.msg_controllen = CMSG_SPACE(sizeof(int) * count);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int) * count);
		memcpy(CMSG_DATA(&control.align), fds, sizeof(int) * count);
	}
	sendmsg(VCUDA_CHANNEL_FD, &h, MSG_NOSIGNAL);
}

static void *map_extent(const struct vcuda_channel_extent *e, void *at)
{
	int flags = MAP_SHARED | (at ? MAP_FIXED : 0);
	void *p;

	if (e->region >= ram_count)
		fail("an extent of a region that does not exist");
	p = mmap(at, e->length, PROT_READ | PROT_WRITE, flags, ram[e->region], (off_t)e->offset);
	if (p == MAP_FAILED)
		fail("an extent that cannot be mapped");
	return p;
}

static void write_for_ever(unsigned int kind)
{
	time_t end = time(NULL) + FORKS_LIMIT;

	shared[PROCESSES + kind] = (uint64_t)getpid();
	while (time(NULL) < end) {
		shared[COUNTERS + kind]++;
		usleep(100);
	}
	_exit(0);
}

/* Each process forks the next one and exits. */
static void fork_for_ever(unsigned int kind)
{
	time_t end = time(NULL) + FORKS_LIMIT;

	while (time(NULL) < end) {
		shared[COUNTERS + kind]++;
		shared[PROCESSES + kind] = (uint64_t)getpid();
		if (fork() > 0)
			_exit(0);
	}
	_exit(0);
}

static void leave_processes(void)
{
	if (!fork())
		write_for_ever(0);
	if (!fork()) {
		setsid();
		if (!fork())
			write_for_ever(1);
		_exit(0);
	}
	if (!syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL))
		write_for_ever(2);
	if (!fork())
		fork_for_ever(3);
}

static void attach_virtio(void)
{
	char *area = mmap(NULL, q.m.length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t used = 0;
	unsigned int i;

	if (q.fd_count < 3)
		fail("ATTACH without descriptors");
	doorbell = q.fds[0];
	notify = q.fds[1];
	ram_count = q.fd_count - 2;
	memcpy(ram, q.fds + 2, ram_count * sizeof(int));
	misbehaviour = q.m.uid;
	for (i = 0; i < q.m.extents; i++) {
		map_extent(&q.extents[i], area + used);
		used += q.extents[i].length;
	}
	shared = (uint64_t *)area;
	shared[0] = (uint64_t)getpid();
	if (misbehaviour == SLOW_ATTACH)
		usleep(300000);
	if (misbehaviour == EXITS_BEFORE_REPLY)
		_exit(5);
	if (misbehaviour == FORKS)
		leave_processes();
	if (misbehaviour == CLOSES_GATE)
		close(VCUDA_GATE_FD);
	reply(misbehaviour == REFUSES ? -ENOMEM : misbehaviour == OTHER_VERSION ? -EPROTONOSUPPORT : 0, NULL, 0);
	for (i = 0; misbehaviour == FLOODS && i < 1000; i++)
		reply(0, NULL, 0);
	while (misbehaviour == NO_CHANNEL) {
		close(VCUDA_CHANNEL_FD);
		pause();
	}
}

/* Where the pipe is full, a non-blocking descriptor loses the text, and a blocking one waits. */
static void write_log(const char *text)
{
	ssize_t written = write(STDERR_FILENO, text, strlen(text));

	(void)written;
}

static void flood_log(void)
{
	char line[32];
	unsigned int i;

	for (i = 0; i < (1 << 20) / 14; i++) {
		snprintf(line, sizeof(line), "flood %07u\n", i);
		write_log(line);
	}
}

static void end_loudly(void)
{
	fcntl(STDERR_FILENO, F_SETFL, fcntl(STDERR_FILENO, F_GETFL) & ~O_NONBLOCK);
	flood_log();
	write_log("the reason of the crash\nwithout a newline");
	abort();
}

static void write_escapes(void)
{
	if (ftruncate(STDERR_FILENO, 0) && ftruncate(STDOUT_FILENO, 0))
		write_log("the log cannot be truncated\n");
	write_log("\x1b[2Jescape\nGrüße\nvcudad: all is well\n");
}

static void attach_local(void)
{
	int fds[2] = {memfd_create("fake", MFD_CLOEXEC), eventfd(0, EFD_CLOEXEC)};

	misbehaviour = q.m.flags;
	if (ftruncate(fds[0], VCUDA_SHM_BYTES))
		fail("no memory");
	if (misbehaviour == EXITS_BEFORE_REPLY)
		_exit(5);
	if (misbehaviour == CRASHES_ON_MAP)
		raise(SIGSEGV);
	if (misbehaviour == FILLS_LOG)
		flood_log();
	if (misbehaviour == WRITES_ESCAPES)
		write_escapes();
	reply(0, fds, 2);
	if (misbehaviour == FLOODS_LOG)
		end_loudly();
}

static int map(void)
{
	unsigned int i;

	if (misbehaviour == CRASHES_ON_MAP)
		raise(SIGKILL);
	if (misbehaviour == REFUSES_MAP && ++maps % 2 == 0)
		return -EADDRNOTAVAIL;
	for (i = 0; i < q.m.extents; i++) {
		uint64_t *p = map_extent(&q.extents[i], NULL);

		if (misbehaviour == FILLS_MAPPINGS)
			memset(p, 1, q.extents[i].length);
		else if (q.m.flags & VCUDA_MAP_WRITABLE)
			*p = (q.m.flags & VCUDA_MAP_DIRECT ? 0xd1d1000000000000 : 0x5a5a000000000000) | i;
		munmap(p, q.extents[i].length);
	}
	return 0;
}

/* A warm worker becomes the client's. */
static int become_local(const char *warm)
{
	if (q.fd_count != 1)
		fail("CLIENT without a connection");
	if (!strcmp(warm, "dies"))
		raise(SIGKILL);
	if (!strcmp(warm, "refuses")) {
		reply(-EMFILE, NULL, 0);
		return 0;
	}
	reply(0, NULL, 0);
	if (dup2(q.fds[0], VCUDA_CHANNEL_FD) < 0)
		fail("no connection");
	close(q.fds[0]);
	return 1;
}

static void serve(int local)
{
	switch (q.m.type) {
	case VCUDA_CHANNEL_ATTACH:
		if (local)
			attach_local();
		else
			attach_virtio();
		break;
	case VCUDA_CHANNEL_MAPPING_MAP:
		reply(map(), NULL, 0);
		break;
	case VCUDA_CHANNEL_MAPPING_UNMAP:
		reply(misbehaviour == BUSY_UNMAP ? -EBUSY : 0, NULL, 0);
		break;
	default:
		reply(-EPROTO, NULL, 0);
	}
}

static void eat(void)
{
	char *memory = mmap(NULL, EATEN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("no memory");
	memset(memory, 1, EATEN_BYTES);
}

static void rung(void)
{
	uint64_t count, one = 1;

	if (read(doorbell, &count, sizeof(count)) != sizeof(count))
		fail("the doorbell cannot be read");
	if (misbehaviour == CRASHES_ON_DOORBELL)
		raise(SIGSEGV);
	if (misbehaviour == BREAKS_GATE_ON_DOORBELL)
		send(VCUDA_GATE_FD, &(struct vcuda_gate_message){.type = VCUDA_GATE_OPEN},
		     sizeof(struct vcuda_gate_message), MSG_NOSIGNAL);
	if (misbehaviour == UNFIT_ON_DOORBELL)
		_exit(VCUDA_CHANNEL_UNFIT);
	if (misbehaviour == EATS_ON_DOORBELL)
		eat();
	shared[1] += count;
	if (write(notify, &one, sizeof(one)) != sizeof(one))
		fail("cannot notify");
}

int main(int argc, char **argv)
{
	struct pollfd fds[2] = {{.fd = VCUDA_CHANNEL_FD, .events = POLLIN}, {.events = POLLIN}};
	const char *warm = getenv("VCUDA_FAKE_WARM") ? getenv("VCUDA_FAKE_WARM") : "";
	int local, later, first = argc > 7 && !strcmp(argv[7], "--register-ram") ? 8 : 7;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (argc < 7 || strcmp(argv[1], "--transport") || strcmp(argv[3], "--backend") || strcmp(argv[5], "--sandbox"))
		fail("called with other arguments than vcudad gives");
	local = !strcmp(argv[2], "local");
	later = !strcmp(argv[2], "later");
	if (later ? argc < first + 2 || strcmp(argv[first], "--warm") : argc != first)
		fail("called with other arguments than vcudad gives");
	if (later && !strcmp(warm, "fails"))
		return 4;
	for (;;) {
		fds[1].fd = doorbell;
		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[0].revents) {
			receive();
			if (later && q.m.type == VCUDA_CHANNEL_CLIENT)
				local = become_local(warm);
			else
				serve(local);
			later = 0;
		}
		if (fds[1].revents && doorbell >= 0)
			rung();
	}
}
