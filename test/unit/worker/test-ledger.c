/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs that a worker names to vcudad, where the memory of two of them has changed places. The test is vcudad. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/worker/session/ledger.h"

#define MIB (1ull << 20)

static struct vcuda_ledger_page *page;
static int page_fd, end;
static uint64_t granted[VCUDA_LEDGER_GPUS];

static void answer(struct vcuda_ledger_message *m)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {.align = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec iov = {m, sizeof(*m)};
	struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};

	if (m->type == VCUDA_LEDGER_JOIN) {
		memcpy(CMSG_DATA(&control.align), &page_fd, sizeof(page_fd));
		h.msg_control = &control;
		h.msg_controllen = sizeof(control);
	}
	sendmsg(end, &h, MSG_NOSIGNAL);
}

static void *serve(void *unused)
{
	struct vcuda_ledger_message m;

	while (recv(end, &m, sizeof(m), 0) == sizeof(m)) {
		if (m.type == VCUDA_LEDGER_GIVE) {
			granted[m.gpu] -= m.bytes;
			continue;
		}
		if (m.type != VCUDA_LEDGER_JOIN && m.type != VCUDA_LEDGER_SYNC) {
			granted[m.gpu] += m.bytes;
			m.spare = 0;
		}
		page->granted[m.gpu] = granted[m.gpu];
		answer(&m);
	}
	return unused;
}

static uint64_t left(unsigned int device)
{
	uint64_t limit, bytes;

	assert_true(worker_ledger_meter.limit(device, &limit, &bytes));
	return bytes;
}

static void test_swap(void **unused)
{
	assert_true(worker_ledger_meter.take(0, 40 * MIB));
	assert_true(worker_ledger_meter.take(1, 20 * MIB));
	assert_int_equal(granted[0], 40 * MIB);
	assert_int_equal(granted[1], 20 * MIB);

	/* Device 0 is GPU 2 now. vcudad has swapped its own numbers. */
	granted[2] = page->granted[2] = granted[0];
	granted[0] = page->granted[0] = 0;
	worker_ledger_swap(0, 2);
	assert_int_equal(left(0), 60 * MIB);
	assert_int_equal(left(2), 100 * MIB);
	assert_true(worker_ledger_meter.take(0, 10 * MIB));
	assert_int_equal(granted[2], 50 * MIB);

	/* Back, and on to the GPU of device 1. */
	granted[1] = page->granted[1] = 50 * MIB;
	granted[2] = page->granted[2] = 20 * MIB;
	worker_ledger_swap(2, 1);
	assert_int_equal(left(0), 50 * MIB);
	assert_int_equal(left(1), 80 * MIB);
	assert_int_equal(left(2), 100 * MIB);
	worker_ledger_meter.give(0, 50 * MIB);
	left(0);
	assert_true(granted[1] < 50 * MIB && granted[2] == 20 * MIB && granted[0] == 0);

	/* Numbers that there are not. */
	worker_ledger_swap(VCUDA_LEDGER_GPUS, 0);
	worker_ledger_swap(0, VCUDA_LEDGER_GPUS);
	assert_int_equal(left(1), 80 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_swap)};
	pthread_t thread;
	int ends[2];

	page_fd = memfd_create("page", 0);
	if (page_fd < 0 || ftruncate(page_fd, sizeof(*page)) || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends))
		return 1;
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);
	/* Beyond the descriptor that a worker finds its end at. */
	end = fcntl(ends[0], F_DUPFD, VCUDA_LEDGER_FD + 1);
	if (page == MAP_FAILED || end < 0 || dup2(ends[1], VCUDA_LEDGER_FD) < 0)
		return 1;
	page->limit = 100 * MIB;
	page->process_limit = VCUDA_LEDGER_NO_LIMIT;
	pthread_create(&thread, NULL, serve, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
