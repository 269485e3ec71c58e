/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of virtio-cuda.ko from a guest process. fake-host.py is the host; its scenarios are chosen by OPEN's minor
 * version.
 *
 * driver-test NAME runs one check and is silent where it passes; driver-test alone lists the names.
 */
#include "driver-test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "guest/driver/uapi.h"

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
	CHECK(ask(fd, share).mappings == 2);
	FAILS(unpin(fd, data, 8 * MIB), ENOENT);
	CHECK(!unpin(fd, data, 4 * MIB));
	FAILS(unpin(fd, data, 4 * MIB), ENOENT);
	CHECK(ask(fd, share).mappings == 1);
	CHECK(!memcmp(data + 8, "scribble", 8));
	CHECK(!unpin(fd, data + 4 * MIB, 4 * MIB));
	CHECK(data[4 * MIB + 8] == 0);
	CHECK(!pinned_kib());
	/* A pin that fails at a hole unpins its first pages. */
	CHECK(!munmap(data + 6 * MIB, MIB));
	FAILS(pin(fd, data, 8 * MIB, true), EFAULT);
	CHECK(!pinned_kib() && !ask(fd, share).mappings);
	/* Only for reading is not for writing. */
	CHECK(!mprotect(data, MIB, PROT_READ));
	FAILS(pin(fd, data, MIB, true), EFAULT);
	CHECK(!pin(fd, data, MIB, false) && !unpin(fd, data, MIB));
}

/* A kernel without huge pages refuses that. */
static void small_pages(unsigned char *data, size_t bytes)
{
	CHECK(!madvise(data, bytes, MADV_NOHUGEPAGE) || errno == EINVAL);
}

/* Every second page dropped and touched again in another order: many extents, in many messages. */
static void check_extents(void)
{
	size_t bytes = 48 * MIB, at;
	unsigned char *data = memory(bytes), *filler = memory(bytes);
	int fd = open_device();
	volatile uint32_t *share;

	small_pages(data, bytes);
	small_pages(filler, bytes);
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
	CHECK(!ask(fd, share).mappings);
}

/* Memory of huge pages, and behind it as much of which no page follows the one before it. */
static unsigned char *mixed_memory(size_t bytes)
{
	unsigned char *data = memory(2 * bytes + 2 * MIB), *filler = memory(bytes);
	size_t at;

	data += -(uintptr_t)data & (2 * MIB - 1);
	CHECK(!madvise(data, bytes, MADV_HUGEPAGE));
	small_pages(data + bytes, bytes);
	small_pages(filler, bytes);
	memset(data, 1, bytes);
	for (at = 0; at < bytes; at += 4096)
		data[bytes + at] = filler[at] = 1;
	return data;
}

/*
 * A direct range of too many extents is refused without a message to the host. Otherwise direct ranges behave as
 * mappings.
 */
static void check_direct(void)
{
	const size_t bytes = 16 * MIB;
	unsigned char *data = mixed_memory(bytes);
	int fd = open_device(), slow = open_device(), fails = open_device();
	struct vcuda_open args = { .major = 1, .shm_bytes = SHM_BYTES };
	volatile uint32_t *share;
	struct counters counters;
	uint32_t maps;

	args.flags = 2;
	FAILS(ioctl(fd, VCUDA_IOC_OPEN, &args), EINVAL);
	args.flags = 0;
	CHECK(!ioctl(fd, VCUDA_IOC_OPEN, &args) && args.flags == VCUDA_OPEN_DIRECT);
	share = map_share(fd);
	maps = ask(fd, share).maps;
	FAILS(pin_direct(fd, data + bytes, bytes, true), E2BIG);
	FAILS(pin_direct(fd, data + bytes, 4096, false), E2BIG);
	CHECK(!pinned_kib() && ask(fd, share).maps == maps);
	CHECK(!pin_direct(fd, data, bytes, true));
	CHECK(pinned_kib() == bytes / 1024);
	counters = ask(fd, share);
	CHECK(counters.mappings == 1 && counters.direct == 1 && counters.extents <= bytes / 65536);
	FAILS(pin_direct(fd, data + 2 * MIB, 2 * MIB, true), EEXIST);
	FAILS(pin(fd, data, MIB, true), EEXIST);
	CHECK(!unpin(fd, data, bytes));
	CHECK(!memcmp(data + 8, "scribble", 8) && !pinned_kib() && !ask(fd, share).mappings);
	/* Seen at the end, where the first 2 MiB were good. */
	FAILS(pin_direct(fd, data + bytes - 2 * MIB, bytes, true), E2BIG);
	CHECK(!pinned_kib() && !ask(fd, share).mappings);

	CHECK(!open_context(fails, MAP_FAILS));
	FAILS(pin_direct(fails, data, bytes, true), EADDRNOTAVAIL);
	CHECK(!open_context(slow, SLOW_UNMAP) && !pin_direct(slow, data, bytes, true) && !unpin(slow, data, bytes));
	memset(data, 0, bytes);
	usleep(300000);
	CHECK(data[8] == 0 && !pinned_kib());
}

static void check_map_fails(void)
{
	unsigned char *data = memory(MIB);
	int fd = open_device();
	volatile uint32_t *share;

	CHECK(!open_context(fd, MAP_FAILS));
	share = map_share(fd);
	FAILS(pin(fd, data, MIB, true), EADDRNOTAVAIL);
	CHECK(!pinned_kib() && !ask(fd, share).mappings);
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
	{ "pin", check_pin },		  { "direct", check_direct },	{ "extents", check_extents }, { "map-fails", check_map_fails },
	{ "slow-unmap", check_slow_unmap }, { "lost", check_lost },	{ "fork", check_fork },
	{ "orphan", check_orphan },	  { "sharer", check_sharer },  { "kill", check_kill },	{ "limit", check_limit },
	{ "killable", check_killable },	  { "quarantine", check_quarantine }, { "unbound", check_unbound },
	{ "export", check_export },
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
