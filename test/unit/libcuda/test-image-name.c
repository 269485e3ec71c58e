/* SPDX-License-Identifier: Apache-2.0 */
/* The guest and vcudad give an image the same name, and vcudad takes nothing for one that could be changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <nettle/sha2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/daemon/images/image-check.h"
#include "guest/libcuda/module/image-name.h"
#include "guest/libcuda/module/sha256.h"

#define PART VCUDA_IMAGE_PART_BYTES
#define MOST (6u << 20)

static uint8_t *data;

/* As offered, or with other seals, another length or something behind the image. */
static int make(const uint8_t *from, size_t bytes, size_t length, int seals, uint8_t behind)
{
	int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, from, bytes, 0), bytes);
	assert_int_equal(ftruncate(fd, (off_t)length), 0);
	if (behind)
		assert_int_equal(pwrite(fd, &behind, 1, (off_t)length - 1), 1);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void check_same(size_t bytes)
{
	struct vcuda_image_name ours, theirs;
	int fd = make(data, bytes, vcuda_image_file_bytes(bytes), VCUDA_IMAGE_SEALS, 0);

	assert_true(libcuda_image_name_of(data, bytes, &ours));
	assert_int_equal(daemon_image_check_file(fd, bytes, &theirs), 0);
	assert_memory_equal(&ours, &theirs, sizeof(ours));
	close(fd);
}

static void same_on_both_sides(void **state)
{
	static const size_t around[] = {PART,         2 * PART,     3 * PART,     4 * PART,          8 * PART,
					(1u << 20),   (2u << 20),   (3u << 20),   (4u << 20) + PART, 4096 * 17,
					5u << 20};

	for (size_t bytes = 1; bytes < 300; bytes++)
		check_same(bytes);
	for (size_t i = 0; i < sizeof(around) / sizeof(around[0]); i++)
		for (size_t bytes = around[i] - 70; bytes <= around[i] + 70; bytes += i < 4 ? 1 : 23)
			check_same(bytes);
}

/* By its definition (image-cache.h), with nothing of what either side uses. */
static void as_defined(void **state)
{
	const size_t bytes = 2 * PART + 5;
	uint8_t length[8] = {5, 0, 2, 0, 0, 0, 0, 0}, hash[32];
	struct sha256_ctx whole, part;
	struct vcuda_image_name name;

	sha256_init(&whole);
	sha256_update(&whole, 28, (const uint8_t *)"virtio-cuda image, version 1");
	sha256_update(&whole, sizeof(length), length);
	for (size_t at = 0; at < bytes; at += PART) {
		sha256_init(&part);
		sha256_update(&part, at + PART <= bytes ? PART : 5, data + at);
		sha256_digest(&part, sizeof(hash), hash);
		sha256_update(&whole, sizeof(hash), hash);
	}
	sha256_digest(&whole, sizeof(hash), hash);
	assert_true(libcuda_image_name_of(data, bytes, &name));
	assert_memory_equal(name.bytes, hash, sizeof(hash));
}

/* Each byte counts, and each part's place. */
static void differs(void **state)
{
	struct vcuda_image_name name, other;
	const size_t bytes = 4 * PART + 100, places[] = {0, PART - 1, PART, 3 * PART + 77, bytes - 1};

	assert_true(libcuda_image_name_of(data, bytes, &name));
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		data[places[i]] ^= 1;
		assert_true(libcuda_image_name_of(data, bytes, &other));
		assert_memory_not_equal(&name, &other, sizeof(name));
		data[places[i]] ^= 1;
	}
	for (size_t i = 0; i < PART; i++) {
		uint8_t byte = data[i];

		data[i] = data[PART + i];
		data[PART + i] = byte;
	}
	assert_true(libcuda_image_name_of(data, bytes, &other));
	assert_memory_not_equal(&name, &other, sizeof(name));
	assert_true(libcuda_image_name_of(data, bytes - 1, &name));
	assert_memory_not_equal(&name, &other, sizeof(name));
}

static void *name_often(void *right)
{
	struct vcuda_image_name name;

	for (int i = 0; i < 20; i++) {
		assert_true(libcuda_image_name_of(data, MOST, &name));
		assert_memory_equal(&name, right, sizeof(name));
	}
	return NULL;
}

static void by_several_at_once(void **state)
{
	struct vcuda_image_name right;
	pthread_t threads[4];

	assert_true(libcuda_image_name_of(data, MOST, &right));
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, name_often, &right), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

static void refused(int fd, size_t bytes)
{
	struct vcuda_image_name name;

	assert_true(daemon_image_check_file(fd, bytes, &name) < 0);
	close(fd);
}

static void what_is_none(void **state)
{
	static const int seals[] = {F_SEAL_WRITE, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL};
	const size_t bytes = 3 * PART, length = vcuda_image_file_bytes(bytes);
	int pair[2], fd;

	for (size_t i = 0; i < sizeof(seals) / sizeof(seals[0]); i++)
		refused(make(data, bytes, length, VCUDA_IMAGE_SEALS & ~seals[i], 0), bytes);
	refused(make(data, bytes, length, 0, 0), bytes);
	refused(make(data, bytes, length, VCUDA_IMAGE_SEALS, 1), bytes);
	refused(make(data, bytes, length - 4096, VCUDA_IMAGE_SEALS, 0), bytes);
	refused(make(data, bytes, length + 4096, VCUDA_IMAGE_SEALS, 0), bytes);
	refused(make(data, bytes, length, VCUDA_IMAGE_SEALS, 0), bytes + 4096);
	refused(make(data, bytes, length, VCUDA_IMAGE_SEALS, 0), UINT64_MAX);
	refused(make(data, bytes, bytes, VCUDA_IMAGE_SEALS, 0), bytes);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	refused(pair[0], bytes);
	refused(pair[1], bytes);
	assert_int_equal(pipe(pair), 0);
	refused(pair[0], bytes);
	refused(pair[1], bytes);
	fd = fileno(tmpfile());
	assert_int_equal(ftruncate(fd, (off_t)length), 0);
	refused(fd, bytes);
	refused(-1, bytes);
	/* of huge pages: where the host has set some aside, which it has done for others */
	fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	if (fd < 0)
		return;
	assert_int_equal(ftruncate(fd, 2 << 20), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, VCUDA_IMAGE_SEALS), 0);
	refused(fd, (2 << 20) - VCUDA_IMAGE_PADDING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_on_both_sides), cmocka_unit_test(as_defined),
		cmocka_unit_test(by_several_at_once), cmocka_unit_test(what_is_none),
		cmocka_unit_test(differs),
	};
	uint32_t x = 1;

	data = malloc(MOST);
	for (size_t i = 0; i < MOST; i++)
		data[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
