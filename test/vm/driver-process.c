/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts whose process forks, shares its memory, is killed, or leaves pages that the host still writes to. */
#include "driver-test.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest/driver/uapi.h"

static int child_status(pid_t child)
{
	int status = -1;

	CHECK(waitpid(child, &status, 0) == child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void check_fork(void)
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
		/* The child's memory is a copy. */
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
		CHECK(tries++ < 60000 && !usleep(10000));
}

/* A child of the owner holds the file: the owner's end still ends the context. */
void check_orphan(void)
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

void check_sharer(void)
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
void check_kill(void)
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
void check_killable(void)
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
void check_quarantine(void)
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
