/* SPDX-License-Identifier: Apache-2.0 */
/* Files that hold what a worker has exported: what they are, and when the host hears of their end. */
#include "driver-test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/driver/uapi.h"

/* The host answers names that begin with these so. */
enum { UNKNOWN = 1, TOO_MANY, ANSWERED_LATE, KNOWN, REFUSED_LATE };

/* The file, or -1 with errno. */
static int hold(int fd, uint64_t first)
{
	struct vcuda_hold args = {.name = {first, 42}, .contents = "contents"};

	return ioctl(fd, VCUDA_IOC_HOLD, &args) ? -1 : args.fd;
}

static void await_held(int fd, volatile uint32_t *share, uint32_t count)
{
	while (ask(fd, share).held != count)
		usleep(1000);
}

static void check_file(int file)
{
	char contents[100];

	CHECK(file >= 0);
	CHECK(pread(file, contents, sizeof(contents), 0) == 64 && !strcmp(contents, "contents"));
	CHECK(pread(file, contents, sizeof(contents), 60) == 4);
	CHECK(pread(file, contents, sizeof(contents), 64) == 0);
	FAILS(write(file, contents, 1), EBADF);
	FAILS(ioctl(file, VCUDA_IOC_DOORBELL), ENOTTY);
}

static void check_refusals(int fd)
{
	struct vcuda_hold args = {.name = {KNOWN, 42}, .reserved = 1};
	int other = open_device();

	FAILS(ioctl(fd, VCUDA_IOC_HOLD, &args), EINVAL);
	FAILS(ioctl(fd, VCUDA_IOC_HOLD, NULL), EFAULT);
	FAILS(hold(other, KNOWN), EINVAL);
	FAILS(hold(fd, UNKNOWN), ENOENT);
	FAILS(hold(fd, TOO_MANY), EDQUOT);
	close(other);
}

/* A process that waits for the host is killed. */
static void kill_waiter(uint64_t name)
{
	int asks[2];
	pid_t child;
	char c;

	CHECK(!pipe(asks));
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		int own = open_device();

		CHECK(!open_context(own, GOOD) && write(asks[1], "x", 1) == 1);
		hold(own, name);
		exit(1);
	}
	CHECK(read(asks[0], &c, 1) == 1);
	usleep(100000);
	CHECK(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child);
	close(asks[0]);
	close(asks[1]);
}

/*
 * A hold that the host grants to a killed waiter is dropped. A hold that the host refuses is not, or a file would lose
 * its hold.
 */
static void check_killed_waiter(int fd, volatile uint32_t *share)
{
	int file;

	kill_waiter(ANSWERED_LATE);
	while (ask(fd, share).contexts != 1)
		usleep(1000);
	await_held(fd, share, 0);
	file = hold(fd, KNOWN);
	kill_waiter(REFUSED_LATE);
	while (ask(fd, share).contexts != 1)
		usleep(1000);
	CHECK(ask(fd, share).held == 1);
	close(file);
	await_held(fd, share, 0);
}

/* The owner of the context ends while another process has the file. */
static void check_survivor(int fd, volatile uint32_t *share)
{
	int go[2], file;
	pid_t owner;
	char c;

	CHECK(!pipe(go));
	owner = fork();
	CHECK(owner >= 0);
	if (!owner) {
		int own = open_device();

		CHECK(!open_context(own, GOOD));
		file = hold(own, KNOWN);
		CHECK(file >= 0);
		if (!fork()) {
			close(own);
			close(go[1]);
			/* until no process has the write end */
			while (read(go[0], &c, 1) < 0)
				continue;
			check_file(file);
			exit(0);
		}
		raise(SIGKILL);
	}
	close(go[0]);
	CHECK(waitpid(owner, NULL, 0) == owner);
	while (ask(fd, share).contexts != 1)
		usleep(1000);
	CHECK(ask(fd, share).held == 1);
	close(go[1]);
	await_held(fd, share, 0);
}

/* The limit counts the files of one user in all contexts. */
static void check_user_limit(int fd, volatile uint32_t *share)
{
	int parameter = open("/sys/module/virtio_cuda/parameters/max_exports", O_RDWR), files[2], other = open_device();

	CHECK(parameter >= 0 && write(parameter, "2", 1) == 1);
	CHECK(!open_context(other, GOOD));
	files[0] = hold(fd, KNOWN);
	files[1] = hold(other, KNOWN);
	CHECK(files[0] >= 0 && files[1] >= 0);
	FAILS(hold(fd, KNOWN), EDQUOT);
	FAILS(hold(other, KNOWN), EDQUOT);
	close(files[1]);
	await_held(fd, share, 1);
	/* an export that the host refuses does not count */
	FAILS(hold(fd, UNKNOWN), ENOENT);
	FAILS(hold(fd, UNKNOWN), ENOENT);
	files[1] = hold(fd, KNOWN);
	CHECK(files[1] >= 0);
	close(files[0]);
	close(files[1]);
	close(other);
	await_held(fd, share, 0);
	CHECK(pwrite(parameter, "8192", 4, 0) == 4);
}

void check_export(void)
{
	int fd = open_device(), file, copy, second;
	volatile uint32_t *share;

	CHECK(!open_context(fd, GOOD));
	share = map_share(fd);
	CHECK(ask(fd, share).held == 0);
	file = hold(fd, KNOWN);
	check_file(file);
	CHECK(fcntl(file, F_GETFD) == FD_CLOEXEC);
	CHECK(ask(fd, share).held == 1);
	second = hold(fd, KNOWN);
	CHECK(ask(fd, share).held == 2);
	copy = dup(file);
	close(file);
	close(second);
	await_held(fd, share, 1);
	check_file(copy);
	close(copy);
	await_held(fd, share, 0);
	check_refusals(fd);
	CHECK(ask(fd, share).held == 0);
	check_user_limit(fd, share);
	check_killed_waiter(fd, share);
	check_survivor(fd, share);
}
