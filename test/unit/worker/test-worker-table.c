/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's rows of the worker table, and the processes that it shows: those of its own guest only. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "protocol/ipc/channel.h"
#include "host/worker/session/worker-table-slot.h"

static struct vcuda_worker_table *page;

static void set(unsigned int i, int worker, uint64_t group, unsigned int computes)
{
	page->slots[i].worker = worker;
	page->slots[i].group = group;
	page->slots[i].computes = computes;
	page->slots[i].pid = 1000 + i;
}

static void hand_over(size_t bytes)
{
	int fd = memfd_create("worker table", 0);

	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_int_equal(dup2(fd, VCUDA_WORKER_TABLE_FD), VCUDA_WORKER_TABLE_FD);
	if (fd != VCUDA_WORKER_TABLE_FD)
		close(fd);
}

static void *empty(void *slot)
{
	usleep(100000);
	atomic_store(&((struct vcuda_worker_table_slot *)slot)->worker, 0);
	return NULL;
}

/* First what is no worker table. */
static void test_worker_table(void **state)
{
	const struct vcuda_worker_table_slot *slot;
	unsigned int at = 0;
	pthread_t thread;
	int pair[2];

	hand_over(4096);
	worker_table_join(true, 1);
	assert_null(worker_table_next(&at));
	worker_table_computes();
	*worker_table_bytes() = 5;
	assert_false(worker_table_same_guest(getpid()));

	hand_over(sizeof(*page));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	assert_int_equal(dup2(pair[0], VCUDA_CHANNEL_FD), VCUDA_CHANNEL_FD);
	set(0, 11, getuid() + 1, 1);          /* another user's */
	set(1, 12, VCUDA_WORKER_TABLE_VM, 1); /* a VM's of the same daemon */
	set(2, 13, getuid(), 0);              /* has no context yet */
	set(3, 14, getuid(), 1);
	worker_table_join(true, 77);
	assert_int_equal(page->slots[4].worker, getpid());
	assert_int_equal(page->slots[4].pid, 77);
	/* Once more, as after a restart of the program, while another slot has become free. */
	set(0, 0, 0, 0);
	worker_table_join(true, 78);
	assert_int_equal(page->slots[0].worker, 0);
	assert_int_equal(page->slots[4].pid, 78);
	set(0, 11, getuid() + 1, 1);
	assert_false(worker_table_is_vm());
	assert_true(worker_table_same_guest(getpid()) && worker_table_same_guest(13));
	assert_false(worker_table_same_guest(11) || worker_table_same_guest(12) || worker_table_same_guest(99));

	at = 0;
	slot = worker_table_next(&at);
	assert_non_null(slot);
	assert_int_equal(slot->pid, 1003);
	assert_null(worker_table_next(&at));
	worker_table_computes();
	worker_table_bytes()[0] = 4096;
	worker_table_bytes()[VCUDA_CPU_DEVICES_MOST - 1] = 8192;
	at = 4;
	slot = worker_table_next(&at);
	assert_non_null(slot);
	assert_int_equal(slot->bytes[0], 4096);
	assert_int_equal(slot->bytes[VCUDA_CPU_DEVICES_MOST - 1], 8192);
	/* A worker that is ending is waited for, until vcudad has emptied its slot; the calling worker is not. */
	assert_false(worker_table_wait_for_ends());
	worker_table_ends();
	assert_int_equal(page->slots[4].ends, 1);
	assert_false(worker_table_wait_for_ends());
	page->slots[3].ends = 1;
	assert_false(worker_table_wait_for_ends());
	assert_int_equal(pthread_create(&thread, NULL, empty, &page->slots[3]), 0);
	assert_true(worker_table_wait_for_ends());
	assert_int_equal(page->slots[3].worker, 0);
	pthread_join(thread, NULL);
	/* The last slot is looked at, and nothing behind it. */
	set(VCUDA_WORKER_TABLE_SLOTS - 1, 15, getuid(), 1);
	assert_int_equal(worker_table_next(&at)->pid, 1000 + VCUDA_WORKER_TABLE_SLOTS - 1);
	assert_null(worker_table_next(&at));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_worker_table)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
