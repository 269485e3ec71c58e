/* SPDX-License-Identifier: Apache-2.0 */
/* What vcudad keeps of images: as much as it may, the last used, and each guest its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "protocol/ipc/image-channel.h"
#include "host/daemon/images/image-store.h"

#define MIB (1ull << 20)

static struct vcuda_image_name name(uint32_t number)
{
	struct vcuda_image_name n = {0};

	memcpy(n.bytes, &number, sizeof(number));
	return n;
}

static int enter(uint64_t guest, uint64_t bytes, uint32_t number, int *fd)
{
	struct vcuda_image_name n = name(number);

	*fd = eventfd(0, EFD_CLOEXEC);
	assert_true(*fd >= 0);
	return daemon_image_store_enter(guest, bytes, &n, *fd);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static int find(uint64_t guest, uint64_t bytes, uint32_t number)
{
	struct vcuda_image_name n = name(number);

	return daemon_image_store_find(guest, bytes, &n);
}

static int empty(void **state)
{
	for (uint64_t guest = 0; guest < 4; guest++)
		daemon_image_store_drop(guest);
	return 0;
}

static void none(void **state)
{
	int fd;

	daemon_image_store_set_limit(0);
	assert_int_equal(daemon_image_store_look(1, MIB), VCUDA_IMAGE_NEVER);
	assert_int_equal(enter(1, MIB, 1, &fd), -EFBIG);
	assert_false(is_open(fd));
	assert_int_equal(find(1, MIB, 1), -1);
}

static void by_name_and_length(void **state)
{
	int fd, again;

	daemon_image_store_set_limit(16 * MIB);
	assert_int_equal(daemon_image_store_look(1, MIB), VCUDA_IMAGE_NONE);
	assert_int_equal(enter(1, MIB, 1, &fd), 0);
	assert_int_equal(daemon_image_store_look(1, MIB), VCUDA_IMAGE_SOME);
	assert_int_equal(daemon_image_store_look(1, MIB + 1), VCUDA_IMAGE_NONE);
	assert_int_equal(find(1, MIB, 1), fd);
	assert_int_equal(find(1, MIB, 2), -1);
	assert_int_equal(find(1, MIB + 1, 1), -1);
	assert_int_equal(enter(1, MIB, 1, &again), -EEXIST);
	assert_false(is_open(again));
	assert_int_equal(find(1, MIB, 1), fd);
}

static void too_small_and_too_large(void **state)
{
	static const uint64_t lengths[] = {0,         1,          VCUDA_IMAGE_LEAST_BYTES - 1, 16 * MIB, 16 * MIB - 63,
					   1ull << 40, UINT64_MAX, UINT64_MAX - 4096};
	int fd;

	daemon_image_store_set_limit(16 * MIB);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		assert_int_equal(daemon_image_store_look(1, lengths[i]), VCUDA_IMAGE_NEVER);
		assert_int_equal(enter(1, lengths[i], 1, &fd), -EFBIG);
		assert_false(is_open(fd));
	}
	assert_int_equal(daemon_image_store_look(1, 16 * MIB - VCUDA_IMAGE_PADDING), VCUDA_IMAGE_NONE);
	assert_int_equal(daemon_image_store_look(1, VCUDA_IMAGE_LEAST_BYTES), VCUDA_IMAGE_NONE);
}

/* Four fit; the one that nobody has asked for longest goes, and what is in use elsewhere stays there. */
static void oldest_goes(void **state)
{
	int fds[6];

	daemon_image_store_set_limit(4 * vcuda_image_file_bytes(MIB));
	for (uint32_t n = 0; n < 4; n++)
		assert_int_equal(enter(1, MIB, n, &fds[n]), 0);
	assert_int_equal(find(1, MIB, 0), fds[0]);
	assert_int_equal(enter(1, MIB, 4, &fds[4]), 0);
	assert_int_equal(find(1, MIB, 1), -1);
	/* the number is free again */
	assert_int_equal(find(1, MIB, 0), fds[0]);
	assert_int_equal(find(1, MIB, 2), fds[2]);
	/* one that needs the room of three */
	assert_int_equal(enter(1, 3 * MIB - VCUDA_IMAGE_PADDING, 5, &fds[5]), 0);
	assert_int_equal(find(1, MIB, 3), -1);
	assert_int_equal(find(1, MIB, 4), -1);
	assert_int_equal(find(1, MIB, 0), -1);
	assert_int_equal(find(1, MIB, 2), fds[2]);
	assert_true(find(1, 3 * MIB - VCUDA_IMAGE_PADDING, 5) >= 0);
}

static void each_guest_its_own(void **state)
{
	int one, two;

	daemon_image_store_set_limit(16 * MIB);
	assert_int_equal(enter(1, MIB, 1, &one), 0);
	assert_int_equal(daemon_image_store_look(2, MIB), VCUDA_IMAGE_NONE);
	assert_int_equal(find(2, MIB, 1), -1);
	assert_int_equal(enter(2, MIB, 1, &two), 0);
	assert_int_equal(find(1, MIB, 1), one);
	assert_int_equal(find(2, MIB, 1), two);
	daemon_image_store_drop(1);
	assert_int_equal(find(1, MIB, 1), -1);
	assert_false(is_open(one));
	assert_int_equal(find(2, MIB, 1), two);
}

/* Each has a descriptor, of which there may be few. */
static void many(void **state)
{
	int first, fd;

	daemon_image_store_set_limit(UINT64_MAX >> 1);
	assert_int_equal(enter(1, MIB, 0, &first), 0);
	for (uint32_t n = 1; n < 5000; n++)
		assert_int_equal(enter(1, MIB, n, &fd), 0);
	assert_true(fd < 600);
	assert_int_equal(find(1, MIB, 0), -1);
	assert_int_equal(find(1, MIB, 4999), fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(none, empty),
		cmocka_unit_test_teardown(by_name_and_length, empty),
		cmocka_unit_test_teardown(too_small_and_too_large, empty),
		cmocka_unit_test_teardown(oldest_goes, empty),
		cmocka_unit_test_teardown(each_guest_its_own, empty),
		cmocka_unit_test_teardown(many, empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
