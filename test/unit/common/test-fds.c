/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors with messages, also of peers that keep to no rule: each is the receiver's, or closed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fds.h"

static int pair[2];

static unsigned int count_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned int count = 0;

	assert_non_null(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static void send_many(unsigned int count)
{
	const struct iovec part = {"abcd", 4};
	int fds[VCUDA_FDS_MOST];

	for (unsigned int i = 0; i < count; i++)
		fds[i] = pair[0];
	assert_int_equal(vcuda_fds_send(pair[0], &part, 1, fds, count, 0), 4);
}

static ssize_t receive(struct vcuda_fds *fds, size_t room)
{
	char text[8];
	const struct iovec part = {text, room};

	return vcuda_fds_receive(pair[1], &part, 1, fds, MSG_DONTWAIT);
}

static void test_some(void **state)
{
	static const unsigned int counts[] = {0, 1, 2, 3, VCUDA_FDS_MOST};
	unsigned int before = count_descriptors();
	struct vcuda_fds fds;

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		send_many(counts[i]);
		assert_int_equal(receive(&fds, 8), 4);
		assert_int_equal(fds.count, counts[i]);
		assert_false(fds.lost);
		for (unsigned int k = 0; k < fds.count; k++)
			assert_int_equal(fcntl(fds.fd[k], F_GETFD), FD_CLOEXEC);
		vcuda_fds_close(&fds, 2);
		assert_int_equal(fds.count, counts[i] < 2 ? counts[i] : 2);
		assert_int_equal(count_descriptors(), before + fds.count);
		vcuda_fds_close(&fds, 0);
		assert_int_equal(count_descriptors(), before);
	}
	assert_int_equal(receive(&fds, 8), -EAGAIN);
	assert_int_equal(fds.count, 0);
}

static void test_take(void **state)
{
	unsigned int before = count_descriptors();
	struct vcuda_fds fds;
	int fd;

	send_many(3);
	assert_int_equal(receive(&fds, 8), 4);
	fd = vcuda_fds_take(&fds);
	assert_true(fd >= 0 && !fds.count);
	assert_int_equal(count_descriptors(), before + 1);
	close(fd);
	assert_int_equal(vcuda_fds_take(&fds), -1);
}

/* More than a message of ours may have. */
static void test_too_many(void **state)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * (VCUDA_FDS_MOST + 1))];
		struct cmsghdr align;
	} control = {.align = {CMSG_LEN(sizeof(int) * (VCUDA_FDS_MOST + 1)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec part = {"abcd", 4};
	struct msghdr h = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	unsigned int before = count_descriptors();
	struct vcuda_fds fds;

	for (unsigned int i = 0; i < VCUDA_FDS_MOST + 1; i++)
		((int *)CMSG_DATA(&control.align))[i] = pair[0];
	assert_int_equal(sendmsg(pair[0], &h, 0), 4);
	assert_int_equal(receive(&fds, 8), 4);
	assert_true(fds.lost && !fds.count);
	assert_int_equal(count_descriptors(), before);
	assert_int_equal(vcuda_fds_send(pair[0], &part, 1, pair, VCUDA_FDS_MOST + 1, 0), -EINVAL);
}

static void test_long_message(void **state)
{
	unsigned int before = count_descriptors();
	struct vcuda_fds fds;

	send_many(2);
	assert_int_equal(receive(&fds, 3), -EMSGSIZE);
	assert_int_equal(fds.count, 0);
	assert_int_equal(count_descriptors(), before);
}

/* The process has room for the first of two. */
static void test_no_room(void **state)
{
	unsigned int before = count_descriptors();
	struct rlimit limit, less;
	struct vcuda_fds fds;
	int next = dup(pair[0]);

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	less = limit;
	less.rlim_cur = (rlim_t)next + 1;
	send_many(2);
	close(next);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
	assert_int_equal(receive(&fds, 8), 4);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_true(fds.lost && !fds.count);
	assert_int_equal(count_descriptors(), before);
}

static void test_end(void **state)
{
	struct vcuda_fds fds;

	close(pair[0]);
	assert_int_equal(receive(&fds, 8), 0);
	assert_int_equal(fds.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_some),         cmocka_unit_test(test_take),    cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_long_message), cmocka_unit_test(test_no_room), cmocka_unit_test(test_end),
	};

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
