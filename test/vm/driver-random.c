/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver-random SECONDS PROCESSES: random calls to /dev/vcuda from several processes at once, each with a few threads.
 *
 * A process has an arena of memory of several kinds, some contexts, and mappings of what they share with their workers.
 * Its threads open, pin, unpin, ring, wait, map, fork, close and change the arena; it ends by itself or is killed. Any
 * result will do, but for a kernel that complains and for calls that do not end. The seed that is printed repeats what
 * is called, though not its order in time.
 *
 * Where the kernel can have allocations fail (/proc/self/make-it-fail), they do in every second process.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "driver-test.h"
#include "guest/driver/uapi.h"
#include "test/seed.h"

#define PAGE 4096ul
#define ARENA_PAGES 512ul
#define MOST_PROCESSES 16
#define FILES 4
#define SHARES 4
#define PINNED 8
#define THREADS 3
#define CALLS 150
#define LIFE_US 1000000

/* The number of calls that succeeded, in all processes. */
struct successes {
	_Atomic unsigned long lives, calls, open, pin, unpin, doorbell, wait, map, hold;
};

static struct successes *successes;

struct life {
	unsigned char *arena;
	int files[FILES];
	void *shares[SHARES];
	int content; /* a file, for parts of the arena */
	struct vcuda_unpin pinned[PINNED];
};

struct caller {
	struct life *life;
	uint64_t state;
};

static uint64_t next(struct caller *c)
{
	c->state ^= c->state << 13;
	c->state ^= c->state >> 7;
	c->state ^= c->state << 17;
	return c->state >> 11;
}

static uint64_t below(struct caller *c, uint64_t limit)
{
	return next(c) % limit;
}

/* Mostly the first, so that a pinned range and its context meet. */
static int any_file(struct caller *c)
{
	return c->life->files[below(c, 2) ? 0 : below(c, FILES)];
}

/* Mostly a range of the arena's pages. */
static void any_range(struct caller *c, __u64 *address, __u64 *length)
{
	uint64_t first = below(c, ARENA_PAGES), count = 1 + below(c, below(c, 4) ? 16 : ARENA_PAGES);

	*address = (uintptr_t)c->life->arena + first * PAGE;
	*length = count * PAGE;
	switch (below(c, 32)) {
	case 0:
		*address = next(c) << below(c, 12);
		break;
	case 1:
		*length = next(c) << below(c, 12);
		break;
	case 2:
		*address += below(c, PAGE);
		break;
	case 3:
		*address = (uintptr_t)c->life->shares[below(c, SHARES)];
		break;
	}
}

static void call_open(struct caller *c)
{
	static const uint64_t sizes[] = {16 * PAGE, SHM_BYTES, 4 * MIB, 100, 0, 8 * MIB, -PAGE};
	static const uint32_t offsets[] = {0, 64, 4092, 2, UINT32_MAX - 3, 2 * MIB - 4};
	struct vcuda_open args = {.major = below(c, 8) ? 1 : (uint32_t)next(c),
				  .minor = (uint32_t)below(c, 9),
				  .shm_bytes = sizes[below(c, 2) ? 0 : below(c, 7)],
				  .wake_offset = offsets[below(c, 2) ? 0 : below(c, 6)],
				  .flags = below(c, 8) ? 0 : (uint32_t)next(c)};

	successes->open += !ioctl(any_file(c), VCUDA_IOC_OPEN, &args);
}

static void call_pin(struct caller *c)
{
	struct vcuda_pin args = {.flags = (uint32_t)below(c, below(c, 8) ? 4 : 16), .reserved = !below(c, 64)};

	any_range(c, &args.address, &args.length);
	if (ioctl(any_file(c), VCUDA_IOC_PIN, &args))
		return;
	successes->pin++;
	c->life->pinned[below(c, PINNED)] = (struct vcuda_unpin){args.address, args.length};
}

static void call_unpin(struct caller *c)
{
	struct vcuda_unpin args = c->life->pinned[below(c, PINNED)];

	if (!below(c, 8))
		any_range(c, &args.address, &args.length);
	successes->unpin += !ioctl(any_file(c), VCUDA_IOC_UNPIN, &args);
}

static void call_doorbell(struct caller *c)
{
	int fd = any_file(c);

	for (uint64_t i = below(c, 300); i; i--)
		if (ioctl(fd, VCUDA_IOC_DOORBELL))
			return;
	successes->doorbell++;
}

static void call_wait(struct caller *c)
{
	struct vcuda_wait args = {.seen = (uint32_t)below(c, 4), .timeout_us = 1 + (uint32_t)below(c, 20000)};

	successes->wait += !ioctl(any_file(c), VCUDA_IOC_WAIT, &args);
}

/* Half of the files stay until the process ends. The host knows some of the names. */
static void call_hold(struct caller *c)
{
	static const uint64_t names[] = {1, 3, 4, 5};
	struct vcuda_hold args = {.name = {names[below(c, 4)], below(c, 3)}, .reserved = !below(c, 64)};

	if (ioctl(any_file(c), VCUDA_IOC_HOLD, &args))
		return;
	successes->hold++;
	if (below(c, 2))
		close(args.fd);
}

/* Wrong numbers, and arguments where no memory is. */
static void call_raw(struct caller *c)
{
	static const unsigned long commands[] = {VCUDA_IOC_OPEN, VCUDA_IOC_PIN, VCUDA_IOC_UNPIN, VCUDA_IOC_DOORBELL,
						 VCUDA_IOC_WAIT, 0x5601,        0xffffffff};
	uintptr_t arguments[] = {0, 8, (uintptr_t)c->life->arena + ARENA_PAGES * PAGE - 8, -PAGE, 1ul << 47};

	ioctl(any_file(c), commands[below(c, 7)], arguments[below(c, 5)]);
}

static void call_map(struct caller *c)
{
	static const int protections[] = {PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE, PROT_READ | PROT_EXEC};
	size_t bytes = PAGE * below(c, below(c, 8) ? 16 : 1100);
	int flags = below(c, 16) ? MAP_SHARED : MAP_PRIVATE;
	off_t offset = below(c, 16) ? 0 : (off_t)(PAGE * below(c, 1 << 20));
	void *at = mmap(NULL, bytes, protections[below(c, 8) ? 0 : below(c, 4)], flags, any_file(c), offset);

	if (at != MAP_FAILED) {
		c->life->shares[below(c, SHARES)] = at;
		successes->map++;
	}
}

static void call_change_map(struct caller *c)
{
	void *at = c->life->shares[below(c, SHARES)];
	size_t bytes = PAGE * (1 + below(c, 16));

	if (!at)
		return;
	switch (below(c, 4)) {
	case 0:
		munmap(at, bytes);
		break;
	case 1:
		mprotect(at, bytes, (int)below(c, 8));
		break;
	case 2:
		mremap(at, bytes, PAGE * (1 + below(c, 16)), MREMAP_MAYMOVE);
		break;
	case 3:
		madvise(at, bytes, (int)below(c, 26));
	}
}

/* Pinned memory is unmapped, made read-only, or replaced by a file. */
static void call_change_arena(struct caller *c)
{
	uint64_t first = below(c, ARENA_PAGES), count = 1 + below(c, 16);
	unsigned char *at = c->life->arena + first * PAGE;
	int fixed = MAP_FIXED | (below(c, 2) ? MAP_PRIVATE : MAP_SHARED);

	if (first + count > ARENA_PAGES)
		return;
	switch (below(c, 5)) {
	case 0:
		mmap(at, count * PAGE, PROT_READ | PROT_WRITE, fixed | MAP_ANONYMOUS, -1, 0);
		break;
	case 1:
		mmap(at, count * PAGE, PROT_READ | PROT_WRITE, fixed, c->life->content, 0);
		break;
	case 2:
		munmap(at, count * PAGE);
		break;
	case 3:
		mprotect(at, count * PAGE, below(c, 2) ? PROT_READ : PROT_READ | PROT_WRITE);
		break;
	case 4:
		madvise(at, count * PAGE, below(c, 2) ? MADV_DONTNEED : MADV_WILLNEED);
	}
}

static void call_close(struct caller *c)
{
	int *file = &c->life->files[below(c, FILES)], old = *file;

	if (below(c, 4)) {
		*file = open(VCUDA_DEVICE_PATH, O_RDWR | O_CLOEXEC);
		close(old);
	} else {
		*file = dup(c->life->files[below(c, FILES)]);
		close(old);
	}
}

static void call_other(struct caller *c)
{
	struct pollfd poll_fd = {.fd = any_file(c), .events = POLLIN};
	struct rlimit limit = {PAGE << below(c, 20), RLIM_INFINITY};
	char bytes[16] = "";
	ssize_t got = 0;

	switch (below(c, 5)) {
	case 0:
		poll(&poll_fd, 1, 1);
		break;
	case 1:
		got = read(poll_fd.fd, bytes, sizeof(bytes));
		break;
	case 2:
		got = write(poll_fd.fd, bytes, sizeof(bytes));
		break;
	case 3:
		setrlimit(RLIMIT_MEMLOCK, &limit);
		break;
	case 4:
		sched_yield();
	}
	(void)got;
}

static void call_fork(struct caller *c)
{
	pid_t child = fork();

	if (!child) {
		call_doorbell(c);
		call_map(c);
		usleep((useconds_t)below(c, 20000));
		_exit(0);
	}
	if (child > 0 && below(c, 2))
		kill(child, SIGKILL);
}

/* Stacks of threads are no place where a mapping was that a thread has had, and goes on changing. */
static _Atomic bool have_stacks;

static void *call_randomly(void *argument)
{
	static void (*const calls[])(struct caller * c) = {call_open,  call_open,       call_pin,          call_pin,
							   call_pin,   call_unpin,      call_doorbell,     call_wait,
							   call_map,   call_change_map, call_change_arena, call_close,
							   call_other, call_raw,        call_fork,         call_hold};
	struct caller *c = argument;

	while (!have_stacks)
		sched_yield();
	for (int i = 0; i < CALLS; i++) {
		successes->calls++;
		calls[below(c, sizeof(calls) / sizeof(*calls))](c);
	}
	return NULL;
}

static void fail_allocations(void)
{
	int fd = open("/proc/self/make-it-fail", O_WRONLY);

	if (fd >= 0 && write(fd, "1", 1) == 1)
		close(fd);
}

/* Does not return. The first thread of a life that ends takes the others with it, in the middle of their calls. */
static void live(uint64_t seed)
{
	static struct life life;
	struct caller callers[THREADS];
	pthread_t thread;

	life.arena = memory(ARENA_PAGES * PAGE);
	life.content = memfd_create("content", 0);
	CHECK(!ftruncate(life.content, 64 * PAGE));
	for (int i = 0; i < FILES; i++)
		life.files[i] = open(VCUDA_DEVICE_PATH, O_RDWR | O_CLOEXEC);
	if (seed % 8)
		successes->open += !open_context(life.files[0], GOOD);
	if (seed % 2)
		fail_allocations();
	signal(SIGCHLD, SIG_IGN);
	for (unsigned int i = 0; i < THREADS; i++) {
		callers[i] = (struct caller){&life, test_seed_state((uint32_t)(seed * THREADS + i))};
		if (i && pthread_create(&thread, NULL, call_randomly, &callers[i]))
			break;
	}
	have_stacks = true;
	call_randomly(&callers[0]);
	_exit(0);
}

/* Waits that long for the child's end, then kills it. */
static void end_life(pid_t child, uint64_t after_us)
{
	siginfo_t info = {0};

	for (uint64_t passed = 0; passed < after_us && !info.si_pid; passed += 1000) {
		CHECK(!waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT));
		usleep(1000);
	}
	kill(child, SIGKILL);
	CHECK(waitpid(child, NULL, 0) == child);
}

/* Lives of random length until the time is over. */
static void repeat_lives(uint64_t seed, time_t end)
{
	struct caller c = {.state = test_seed_state((uint32_t)seed)};

	while (time(NULL) < end) {
		uint64_t life_seed = next(&c);
		pid_t child = fork();

		CHECK(child >= 0);
		if (!child)
			live(life_seed);
		end_life(child, below(&c, LIFE_US));
		successes->lives++;
	}
	exit(0);
}

/* Until all have ended, and those too that they have left behind: nothing holds the device any more. */
static bool wait_for_all(const pid_t *children, int count)
{
	bool all_right = true;
	int status, i;
	pid_t pid;

	while ((pid = wait(&status)) > 0)
		for (i = 0; i < count; i++)
			all_right = all_right && (pid != children[i] || !status);
	return all_right;
}

int main(int argc, char **argv)
{
	int seconds = argc > 1 ? atoi(argv[1]) : 5, count = argc > 2 ? atoi(argv[2]) : 3;
	pid_t children[MOST_PROCESSES];
	time_t end = time(NULL) + seconds;
	uint64_t seed = test_seed();
	bool all_right;

	CHECK(count > 0 && count <= MOST_PROCESSES && !prctl(PR_SET_CHILD_SUBREAPER, 1));
	successes = mmap(NULL, sizeof(*successes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(successes != MAP_FAILED);
	for (int i = 0; i < count; i++) {
		children[i] = fork();
		CHECK(children[i] >= 0);
		if (!children[i])
			repeat_lives(seed + (uint64_t)i * 0x9e3779b9, end);
	}
	all_right = wait_for_all(children, count);
	printf("%lu lives, %lu calls: opened %lu, pinned %lu, unpinned %lu, rang %lu, woke %lu, mapped %lu, held %lu\n",
	       successes->lives, successes->calls, successes->open, successes->pin, successes->unpin,
	       successes->doorbell, successes->wait, successes->map, successes->hold);
	return !all_right;
}
