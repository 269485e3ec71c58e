/* SPDX-License-Identifier: Apache-2.0 */
/* Until when the guest may take a mark for the answer to a wait: what code may print. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "marks.h"
#include "session.h"

#define PTX 1
#define ELF 2
#define NEWER 99
#define LZ4 0x2000u
#define ZSTD 0x8000u

static struct vcuda_session session;
static struct vcuda_backend_ops ops;
static _Alignas(4096) unsigned char page[VCUDA_RING_OFFSET];
static int can_write;

static CUresult get_count(int *count)
{
	*count = 2;
	return CUDA_SUCCESS;
}

/* Devices of compute capability 9.x and 8.x. */
static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	*value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 - device : can_write;
	return CUDA_SUCCESS;
}

static CUresult write_value(CUstream stream, CUdeviceptr address, unsigned int value, unsigned int flags)
{
	return CUDA_SUCCESS;
}

static bool is_offered(void)
{
	return ((struct vcuda_shm *)page)->marks;
}

static int setup(void **state)
{
	ops = (struct vcuda_backend_ops){.name = "cuda",
					 .cuDeviceGetCount = get_count,
					 .cuDeviceGetAttribute = get_attribute,
					 .cuStreamWriteValue32_v2 = write_value};
	memset(page, 0, sizeof(page));
	memset(&session, 0, sizeof(session));
	session.ops = &ops;
	session.shm = page;
	session.peer_minor = 1;
	can_write = 1;
	return 0;
}

static void look_at(const void *image, size_t bytes)
{
	vcuda_marks_look_at(&session, image, bytes);
}

/* ---- containers ---- */

static struct {
	unsigned char bytes[1 << 20];
	size_t used;
} image;

static void put(const void *bytes, size_t count)
{
	assert_true(count <= sizeof(image.bytes) - image.used);
	memcpy(image.bytes + image.used, bytes, count);
	image.used += count;
}

static void begin(void)
{
	const struct {
		uint32_t magic;
		uint16_t version, header;
		uint64_t bytes;
	} head = {0xba55ed50, 1, sizeof(head), 0};

	image.used = 0;
	put(&head, sizeof(head));
}

/* An entry of `count` bytes of code, packed as its flags say. */
static void add(uint16_t kind, uint32_t sm, uint64_t flags, const char *code, size_t count)
{
	struct {
		uint16_t kind, version;
		uint32_t header;
		uint64_t payload;
		uint32_t compressed, options;
		uint16_t minor, major;
		uint32_t sm, name, name_bytes;
		uint64_t flags, reserved, unpacked;
	} h = {.kind = kind, .version = 0x101, .header = sizeof(h), .sm = sm, .flags = flags};
	static char packed[1 << 19];
	size_t stored = count;
	uint64_t all;

	if (flags & LZ4)
		stored = (size_t)LZ4_compress_default(code, packed, (int)count, sizeof(packed));
	else if (flags & ZSTD)
		stored = ZSTD_compress(packed, sizeof(packed), code, count, 1);
	else
		memcpy(packed, code, count);
	h.payload = (stored + 7) & ~(size_t)7;
	if (flags & (LZ4 | ZSTD)) {
		h.compressed = (uint32_t)stored;
		h.unpacked = count;
	}
	put(&h, sizeof(h));
	put(packed, h.payload);
	all = image.used - 16;
	memcpy(image.bytes + 8, &all, sizeof(all));
}

static void add_text(uint16_t kind, uint32_t sm, uint64_t flags, const char *code)
{
	add(kind, sm, flags, code, strlen(code) + 1);
}

static bool stays(void)
{
	setup(NULL);
	vcuda_marks_offer(&session);
	assert_true(is_offered());
	look_at(image.bytes, image.used);
	return is_offered();
}

#define QUIET ".visible .entry a() { ret; } // and nothing at all that anybody would have to be shown"
#define PRINTS ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a); .visible .entry a() { ret; }"

/* ---- tests ---- */

/* To whom: not of the software GPU, to an old guest, without the function or where the device cannot. */
static void offers(void **state)
{
	for (int without = 0; without < 5; without++) {
		setup(NULL);
		ops.name = without == 1 ? "cpu" : "cuda";
		session.peer_minor = without != 2;
		if (without == 3)
			ops.cuStreamWriteValue32_v2 = NULL;
		can_write = without != 4;
		vcuda_marks_offer(&session);
		assert_int_equal(is_offered(), without == 0);
	}
}

static void text(void **state)
{
	setup(NULL);
	vcuda_marks_offer(&session);
	look_at(QUIET, sizeof(QUIET));
	assert_true(is_offered());
	look_at(PRINTS, sizeof(PRINTS));
	assert_false(is_offered());
	/* For ever: what was loaded may stay. */
	look_at(QUIET, sizeof(QUIET));
	assert_false(is_offered());
}

static void containers(void **state)
{
	static const uint64_t ways[] = {0, LZ4, ZSTD};

	for (int i = 0; i < 3; i++) {
		begin();
		add_text(PTX, 75, ways[i], QUIET);
		add_text(ELF, 90, ways[i], QUIET);
		assert_true(stays());
		add_text(ELF, 89, ways[i], PRINTS);
		assert_false(stays());
		begin();
		add_text(PTX, 75, ways[i], PRINTS);
		assert_false(stays());
		/* Machine code that no device here takes. */
		begin();
		add_text(ELF, 75, ways[i], PRINTS);
		add_text(PTX, 75, ways[i], QUIET);
		assert_true(stays());
	}
}

/* What cannot be read may do anything. */
static void unreadable(void **state)
{
	begin();
	add_text(PTX, 75, 0, QUIET);
	assert_true(stays());
	image.used -= 8;
	assert_false(stays());
	begin();
	add_text(PTX, 75, ZSTD, QUIET);
	image.bytes[16 + 64] ^= 1;
	assert_false(stays());
	begin();
	add_text(NEWER, 75, 0, QUIET);
	assert_false(stays());
}

/* Much code is not unpacked, that of all images together. */
static void much(void **state)
{
	char *code = calloc(1, 3u << 20);

	assert_non_null(code);
	begin();
	add(PTX, 75, ZSTD, code, 3u << 20);
	assert_true(stays());
	look_at(image.bytes, image.used);
	assert_false(is_offered());
	free(code);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(offers),     cmocka_unit_test(text), cmocka_unit_test(containers),
		cmocka_unit_test(unreadable), cmocka_unit_test(much),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
