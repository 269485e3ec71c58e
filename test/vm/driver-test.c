/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of virtio-cuda.ko from a guest process. fake-host.py is the host; its scenarios are chosen by OPEN's minor
 * version.
 *
 * driver-test NAME runs one check and is silent where it passes; driver-test alone lists the names.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "uapi.h"

#define SHM_BYTES (2u << 20)
#define MIB (1ul << 20)

enum scenario { GOOD, SLOW_DESTROY, LOSE, MAP_FAILS, NO_DESTROY, DESTROY_FAILS, NO_CREATE, SLOW_UNMAP, SCRIBBLER };

/* What fake-host.py writes at 64. */
struct counters {
	uint32_t bad, contexts, windows, hellos, extents;
};

static void fail(int line, const char *what, int error)
{
	fprintf(stderr, "driver-test.c:%d: %s (%s)\n", line, what, strerror(error));
	exit(1);
}

#define CHECK(condition)                                                                                       \
	do {                                                                                                   \
		errno = 0;                                                                                     \
		if (!(condition))                                                                              \
			fail(__LINE__, #condition, errno);                                                     \
	} while (0)
#define FAILS(call, error) CHECK((call) == -1 && errno == (error))

static int open_device(void)
{
	int fd = open(VCUDA_DEVICE_PATH, O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

static int open_context(int fd, enum scenario scenario)
{
	struct vcuda_open args = { .major = 1, .minor = scenario, .shm_bytes = SHM_BYTES };

	return ioctl(fd, VCUDA_IOC_OPEN, &args);
}

static volatile uint32_t *map_share(int fd)
{
	void *share = mmap(NULL, SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(share != MAP_FAILED);
	return share;
}

static int wait_word(int fd, uint32_t seen, uint32_t timeout_us)
{
	struct vcuda_wait args = { .seen = seen, .timeout_us = timeout_us };

	return ioctl(fd, VCUDA_IOC_WAIT, &args);
}

static int pin(int fd, const void *address, size_t length, bool writable)
{
	struct vcuda_pin args = { (uintptr_t)address, length, writable ? VCUDA_PIN_WRITABLE : 0, 0 };

	return ioctl(fd, VCUDA_IOC_PIN, &args);
}

static int unpin(int fd, const void *address, size_t length)
{
	struct vcuda_unpin args = { (uintptr_t)address, length };

	return ioctl(fd, VCUDA_IOC_UNPIN, &args);
}

/* Rings, waits, and returns what the host has counted. */
static struct counters ask(int fd, volatile uint32_t *share)
{
	uint32_t seen = share[0];
	struct counters counters;

	CHECK(!ioctl(fd, VCUDA_IOC_DOORBELL));
	CHECK(!wait_word(fd, seen, 10000000));
	memcpy(&counters, (const void *)(share + 16), sizeof(counters));
	CHECK(!counters.bad);
	return counters;
}

static void *memory(size_t bytes)
{
	void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(address != MAP_FAILED);
	return address;
}

static unsigned long pinned_kib(void)
{
	char line[128];
	unsigned long kib = 0;
	FILE *status = fopen("/proc/self/status", "r");

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "VmPin: %lu", &kib) == 1)
			break;
	if (status)
		fclose(status);
	return kib;
}

static void check_open(void)
{
	struct vcuda_open args = { .major = 9, .shm_bytes = SHM_BYTES };
	struct vcuda_wait wait = { 0 };
	int fd = open_device();

	FAILS(ioctl(fd, VCUDA_IOC_DOORBELL), EINVAL);
	FAILS(ioctl(fd, VCUDA_IOC_WAIT, &wait), EINVAL);
	FAILS(ioctl(fd, VCUDA_IOC_OPEN, NULL), EFAULT);
	FAILS(ioctl(fd, 0x1234, NULL), ENOTTY);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	args.shm_bytes = 100;
	FAILS(ioctl(fd, VCUDA_IOC_OPEN, &args), EINVAL);
	args.shm_bytes = 8 * MIB;
	FAILS(ioctl(fd, VCUDA_IOC_OPEN, &args), EINVAL);
	args.shm_bytes = SHM_BYTES;
	args.wake_offset = SHM_BYTES;
	FAILS(ioctl(fd, VCUDA_IOC_OPEN, &args), EINVAL);
	args.wake_offset = 0;
	FAILS(ioctl(fd, VCUDA_IOC_OPEN, &args), EPROTONOSUPPORT);
	CHECK(args.major == 1 && args.minor == 7);
	FAILS(open_context(fd, GOOD), EBUSY);
	close(fd);

	fd = open_device();
	args.major = 1;
	args.shm_bytes = 4 * MIB;
	CHECK(!ioctl(fd, VCUDA_IOC_OPEN, &args) && args.minor == 7 && args.context);
	FAILS(ioctl(fd, VCUDA_IOC_OPEN, &args), EBUSY);
	ask(fd, map_share(fd));
	CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) == MAP_FAILED);
	CHECK(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0) == MAP_FAILED);
	CHECK(mmap(NULL, 5 * MIB, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 4096) == MAP_FAILED);
}

static void on_alarm(int number)
{
	(void)number;
}

static void check_wait(void)
{
	struct sigaction action = { .sa_handler = on_alarm };
	int fd = open_device();
	volatile uint32_t *share;
	uint32_t i;

	CHECK(!open_context(fd, GOOD));
	share = map_share(fd);
	CHECK(share[0] == 0);
	FAILS(wait_word(fd, 0, 50000), ETIMEDOUT);
	CHECK(!wait_word(fd, 1, 0));
	sigaction(SIGALRM, &action, NULL);
	alarm(1);
	FAILS(wait_word(fd, 0, 0), EINTR);
	for (i = 0; i < 500; i++) {
		CHECK(!ioctl(fd, VCUDA_IOC_DOORBELL));
		CHECK(!wait_word(fd, i, 10000000));
	}
}

static void *ring_often(void *argument)
{
	int fd = *(int *)argument, i;

	for (i = 0; i < 1000; i++)
		CHECK(!ioctl(fd, VCUDA_IOC_DOORBELL));
	return NULL;
}

/* More doorbells than the queue holds, from many threads: none is lost. */
static void check_doorbells(void)
{
	int fd = open_device(), i;
	pthread_t threads[4];
	volatile uint32_t *share;

	CHECK(!open_context(fd, GOOD));
	share = map_share(fd);
	for (i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, ring_often, &fd));
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	while (share[0] < 4000)
		CHECK(!wait_word(fd, share[0], 10000000));
	CHECK(share[0] == 4000);
}

static void check_pin(void)
{
	unsigned char *data = memory(8 * MIB);
	int fd = open_device();
	volatile uint32_t *share;

	CHECK(!open_context(fd, GOOD));
	share = map_share(fd);
	FAILS(pin(fd, data + 1, 4096, true), EINVAL);
	FAILS(pin(fd, data, 0, true), EINVAL);
	FAILS(pin(fd, data, 100, true), EINVAL);
	FAILS(pin(fd, (void *)-4096ul, 4096, true), EINVAL);
	FAILS(pin(fd, data, -4096ul, true), EINVAL);
	FAILS(pin(fd, (void *)4096, 4096, true), EFAULT);
	FAILS(unpin(fd, data, 4096), ENOENT);
	CHECK(!pin(fd, data, 4 * MIB, true));
	CHECK(pinned_kib() == 4096);
	FAILS(pin(fd, data + 4 * MIB - 4096, MIB, true), EEXIST);
	FAILS(pin(fd, data, 4 * MIB, true), EEXIST);
	CHECK(!pin(fd, data + 4 * MIB, 4 * MIB, false));
	CHECK(ask(fd, share).windows == 2);
	FAILS(unpin(fd, data, 8 * MIB), ENOENT);
	CHECK(!unpin(fd, data, 4 * MIB));
	FAILS(unpin(fd, data, 4 * MIB), ENOENT);
	CHECK(ask(fd, share).windows == 1);
	CHECK(!memcmp(data + 8, "scribble", 8));
	CHECK(!unpin(fd, data + 4 * MIB, 4 * MIB));
	CHECK(data[4 * MIB + 8] == 0);
	CHECK(!pinned_kib());
	/* What ends inside a hole gives back what it had. */
	CHECK(!munmap(data + 6 * MIB, MIB));
	FAILS(pin(fd, data, 8 * MIB, true), EFAULT);
	CHECK(!pinned_kib() && !ask(fd, share).windows);
	/* Only for reading is not for writing. */
	CHECK(!mprotect(data, MIB, PROT_READ));
	FAILS(pin(fd, data, MIB, true), EFAULT);
	CHECK(!pin(fd, data, MIB, false) && !unpin(fd, data, MIB));
}

/* Every second page dropped and touched again in another order: many extents, in many messages. */
static void check_extents(void)
{
	size_t bytes = 48 * MIB, at;
	unsigned char *data = memory(bytes), *filler = memory(bytes);
	int fd = open_device();
	volatile uint32_t *share;

	CHECK(!madvise(data, bytes, MADV_NOHUGEPAGE) && !madvise(filler, bytes, MADV_NOHUGEPAGE));
	for (at = 0; at < bytes; at += 4096) {
		data[at] = 1;
		filler[at] = 1;
	}
	CHECK(!open_context(fd, GOOD));
	share = map_share(fd);
	CHECK(!pin(fd, data, bytes, true));
	CHECK(ask(fd, share).extents > 2048);
	CHECK(!unpin(fd, data, bytes));
	for (at = 0; at < bytes; at += 4096)
		CHECK(!memcmp(data + at + 8, "scribble", 8));
	CHECK(!ask(fd, share).windows);
}

static void check_map_fails(void)
{
	unsigned char *data = memory(MIB);
	int fd = open_device();
	volatile uint32_t *share;

	CHECK(!open_context(fd, MAP_FAILS));
	share = map_share(fd);
	FAILS(pin(fd, data, MIB, true), EADDRNOTAVAIL);
	CHECK(!pinned_kib() && !ask(fd, share).windows);
	FAILS(unpin(fd, data, MIB), ENOENT);
}

static void check_slow_unmap(void)
{
	unsigned char *data = memory(MIB);
	int fd = open_device();

	CHECK(!open_context(fd, SLOW_UNMAP));
	CHECK(!pin(fd, data, MIB, true));
	CHECK(!unpin(fd, data, MIB));
	memset(data, 0, MIB);
	usleep(300000);
	CHECK(data[8] == 0);
}

static void check_lost(void)
{
	unsigned char *data = memory(MIB);
	int fd = open_device();

	CHECK(!open_context(fd, LOSE));
	CHECK(!pin(fd, data, MIB, true));
	CHECK(!ioctl(fd, VCUDA_IOC_DOORBELL));
	FAILS(wait_word(fd, 0, 10000000), EPIPE);
	FAILS(wait_word(fd, 0, 0), EPIPE);
	FAILS(ioctl(fd, VCUDA_IOC_DOORBELL), EPIPE);
	FAILS(pin(fd, data, MIB, true), ENODEV);
	CHECK(!unpin(fd, data, MIB));
	CHECK(!pinned_kib());
}

static int child_status(pid_t child)
{
	int status = -1;

	CHECK(waitpid(child, &status, 0) == child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void check_fork(void)
{
	unsigned char *data = memory(MIB);
	int fd = open_device(), other;
	volatile uint32_t *share;
	pid_t child;

	CHECK(!open_context(fd, GOOD));
	share = map_share(fd);
	CHECK(!pin(fd, data, MIB, true));
	child = fork();
	if (!child) {
		FAILS(ioctl(fd, VCUDA_IOC_DOORBELL), EPERM);
		FAILS(pin(fd, data, MIB, true), EPERM);
		FAILS(unpin(fd, data, MIB), EPERM);
		CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EPERM);
		/* Its memory is its own. */
		memset(data, 3, MIB);
		other = open_device();
		CHECK(!open_context(other, GOOD));
		CHECK(ask(other, map_share(other)).contexts == 2);
		exit(0);
	}
	CHECK(!child_status(child));
	data[0] = 1;
	CHECK(!unpin(fd, data, MIB));
	CHECK(!memcmp(data + 8, "scribble", 8));
	while (ask(fd, share).contexts > 1)
		usleep(1000);
}

static unsigned int contexts(void)
{
	int fd = open_device();
	volatile uint32_t *share;
	unsigned int count;

	CHECK(!open_context(fd, GOOD));
	share = map_share(fd);
	count = ask(fd, share).contexts - 1;
	/* A mapping keeps the file open. */
	munmap((void *)share, SHM_BYTES);
	close(fd);
	return count;
}

static void await_no_contexts(void)
{
	int tries = 0;

	while (contexts())
		CHECK(tries++ < 200 && !usleep(10000));
}

/* A child of the owner holds the file: the owner's end is the context's end all the same. */
static void check_orphan(void)
{
	int pipe_fds[2];
	pid_t owner, child = 0;

	CHECK(!pipe(pipe_fds));
	owner = fork();
	if (!owner) {
		int fd = open_device();

		CHECK(!open_context(fd, GOOD));
		child = fork();
		if (!child) {
			sleep(20);
			exit(0);
		}
		CHECK(write(pipe_fds[1], &child, sizeof(child)) == sizeof(child));
		pause();
	}
	CHECK(read(pipe_fds[0], &child, sizeof(child)) == sizeof(child));
	CHECK(contexts() == 1);
	kill(owner, SIGKILL);
	child_status(owner);
	await_no_contexts();
	kill(child, SIGKILL);
}

/* Shares the owner's memory but not its files, and goes on using the context after the owner's exit. */
static int sharer(void *argument)
{
	unsigned char *data = memory(MIB);
	int fd = *(int *)argument, i;

	for (i = 0; i < 400; i++) {
		if (!pin(fd, data, MIB, true))
			unpin(fd, data, MIB);
		wait_word(fd, 0, 1000);
		ioctl(fd, VCUDA_IOC_DOORBELL);
	}
	_exit(0);
}

static void check_sharer(void)
{
	int pipe_fds[2], round;
	char byte;

	for (round = 0; round < 5; round++) {
		CHECK(!pipe(pipe_fds));
		if (!fork()) {
			int fd = open_device();

			CHECK(!open_context(fd, GOOD));
			CHECK(clone(sharer, (char *)memory(MIB) + MIB, CLONE_VM | SIGCHLD, &fd) > 0);
			usleep(20000 * (unsigned int)round);
			_exit(0);
		}
		close(pipe_fds[1]);
		/* Until the sharer has ended too. */
		CHECK(!read(pipe_fds[0], &byte, 1));
		close(pipe_fds[0]);
	}
	await_no_contexts();
}

/* Runs until it is killed, with memory that the host writes to. Says on the pipe when it is ready. */
static void hold(enum scenario scenario, size_t bytes, int ready)
{
	unsigned char *data = memory(bytes);
	int fd = open_device();

	CHECK(!open_context(fd, scenario));
	CHECK(!pin(fd, data, bytes, true));
	CHECK(write(ready, "r", 1) == 1);
	for (;;)
		pause();
}

static pid_t start_holder(enum scenario scenario, size_t bytes)
{
	int pipe_fds[2];
	pid_t child;
	char byte;

	CHECK(!pipe(pipe_fds));
	child = fork();
	if (!child)
		hold(scenario, bytes, pipe_fds[1]);
	close(pipe_fds[1]);
	CHECK(read(pipe_fds[0], &byte, 1) == 1);
	close(pipe_fds[0]);
	return child;
}

/* A value of its own in every page: what comes from elsewhere shows. */
static void fill_and_verify(size_t bytes, unsigned int milliseconds)
{
	uint64_t *data = memory(bytes);
	size_t words = bytes / sizeof(*data), i;

	for (i = 0; i < words; i++)
		data[i] = 0x5a5a5a5a5a5a5a5a;
	usleep(milliseconds * 1000);
	for (i = 0; i < words; i++)
		CHECK(data[i] == 0x5a5a5a5a5a5a5a5a);
	munmap(data, bytes);
}

/* The pages of a killed process, to which the host still writes for a second, must not come back as another's. */
static void check_kill(void)
{
	int round;

	for (round = 0; round < 3; round++) {
		pid_t child = start_holder(SLOW_DESTROY, 32 * MIB);

		kill(child, SIGKILL);
		child_status(child);
		fill_and_verify(256 * MIB, 1500);
	}
	for (round = 0; round < 20; round++) {
		pid_t child = start_holder(SCRIBBLER, 4 * MIB);

		kill(child, SIGKILL);
		child_status(child);
		fill_and_verify(16 * MIB, 0);
	}
	await_no_contexts();
}

/* A process that waits for an answer that never comes can be killed. */
static void check_killable(void)
{
	pid_t child = fork();
	time_t start = time(NULL);

	if (!child) {
		open_context(open_device(), NO_CREATE);
		exit(0);
	}
	usleep(500000);
	kill(child, SIGKILL);
	CHECK(child_status(child) == 128 + SIGKILL);
	CHECK(time(NULL) - start < 5);
}

/* Leaves contexts whose end the host never confirms: for the test of removal that follows. */
static void check_quarantine(void)
{
	pid_t child = start_holder(NO_DESTROY, 8 * MIB);

	kill(child, SIGKILL);
	child_status(child);
	child = start_holder(DESTROY_FAILS, 8 * MIB);
	kill(child, SIGKILL);
	child_status(child);
	fill_and_verify(64 * MIB, 200);
	CHECK(contexts() >= 2);
}

/* The limit of a user is a parameter; a higher RLIMIT_MEMLOCK goes over it. */
static void check_limit(void)
{
	struct rlimit limit = { 64 * MIB, 64 * MIB };
	unsigned char *data = memory(64 * MIB);
	int fd = open_device(), parameter = open("/sys/module/virtio_cuda/parameters/max_pinned_mib", O_RDWR);

	CHECK(parameter >= 0 && write(parameter, "16", 2) == 2);
	CHECK(!open_context(fd, GOOD));
	CHECK(!setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){ MIB, 64 * MIB }));
	CHECK(!pin(fd, data, 8 * MIB, true));
	FAILS(pin(fd, data + 32 * MIB, 9 * MIB, true), EPERM);
	CHECK(!setrlimit(RLIMIT_MEMLOCK, &limit));
	CHECK(!pin(fd, data + 32 * MIB, 9 * MIB, true));
	CHECK(write(parameter, "0", 1) == 1);
}

/* Holds a context while the script unbinds the driver, or suspends the VM, and says what it then gets. */
static void check_unbound(void)
{
	unsigned char *data = memory(4 * MIB);
	int fd = open_device();

	CHECK(!open_context(fd, GOOD));
	CHECK(!pin(fd, data, 4 * MIB, true));
	puts("ready");
	fflush(stdout);
	FAILS(wait_word(fd, 0, 0), ENODEV);
	FAILS(ioctl(fd, VCUDA_IOC_DOORBELL), ENODEV);
	FAILS(pin(fd, data, MIB, true), ENODEV);
	CHECK(!unpin(fd, data, 4 * MIB));
	CHECK(!pinned_kib());
}

static const struct {
	const char *name;
	void (*run)(void);
} checks[] = {
	{ "open", check_open },		  { "wait", check_wait },	{ "doorbells", check_doorbells },
	{ "pin", check_pin },		  { "extents", check_extents }, { "map-fails", check_map_fails },
	{ "slow-unmap", check_slow_unmap }, { "lost", check_lost },	{ "fork", check_fork },
	{ "orphan", check_orphan },	  { "sharer", check_sharer },  { "kill", check_kill },	{ "limit", check_limit },
	{ "killable", check_killable },	  { "quarantine", check_quarantine }, { "unbound", check_unbound },
};

int main(int argc, char **argv)
{
	size_t i;

	for (i = 0; i < sizeof(checks) / sizeof(*checks); i++) {
		if (argc < 2) {
			puts(checks[i].name);
		} else if (!strcmp(argv[1], checks[i].name)) {
			checks[i].run();
			return 0;
		}
	}
	return argc < 2 ? 0 : 2;
}
