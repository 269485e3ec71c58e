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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#include "host/worker/images/image.h"
#include "host/worker/queue/fences.h"
#include "host/worker/session/session.h"

#define PTX 1
#define ELF 2
#define NEWER 99
#define LZ4 0x2000u
#define ZSTD 0x8000u

static struct worker_session session;
static struct vcuda_backend_ops ops;
static _Alignas(4096) unsigned char page[VCUDA_RING_OFFSET];
static int can_write;
static _Atomic int kept; /* images that are to be looked at */
static _Atomic bool may_look;

static CUresult get_count(int *count)
{
	*count = 2;
	return CUDA_SUCCESS;
}

static void nap(void)
{
	nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* Devices of compute capability 9.x and 8.x. */
static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	while (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR && !may_look)
		nap();
	*value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 - device : can_write;
	return CUDA_SUCCESS;
}

static CUresult write_value(CUstream stream, CUdeviceptr address, unsigned int value, unsigned int flags)
{
	return CUDA_SUCCESS;
}

void worker_image_retain(struct worker_image *image)
{
	kept++;
}

void worker_image_release(struct worker_image *image)
{
	kept--;
	free(image);
}

static bool is_offered(void)
{
	return ((struct vcuda_shm *)page)->fences;
}

static int setup(void **state)
{
	ops = (struct vcuda_backend_ops){.name = "cuda",
					 .cuDeviceGetCount = get_count,
					 .cuDeviceGetAttribute = get_attribute,
					 .cuStreamWriteValue32_v2 = write_value};
	memset(&session, 0, sizeof(session));
	session.ops = &ops;
	session.shm = page;
	session.peer_minor = 1;
	can_write = 1;
	may_look = true;
	return 0;
}

/* A process never forgets its findings about code: each case has a process of its own. */
static int in_child(int (*part)(void))
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child)
		_exit(part());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void load(const void *code, size_t bytes)
{
	struct worker_image *image = calloc(1, sizeof(*image) + bytes);

	assert_non_null(image);
	memcpy(image->data, code, bytes);
	image->bytes = bytes;
	worker_fences_inspect(&session, image);
}

/* ... and waits until it has been looked at. */
static void look_at(const void *code, size_t bytes)
{
	load(code, bytes);
	while (kept)
		nap();
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

static int load_image(void)
{
	worker_fences_offer(&session);
	if (!is_offered())
		return 2;
	look_at(image.bytes, image.used);
	return is_offered();
}

static bool stays(void)
{
	int offered = in_child(load_image);

	assert_true(offered < 2);
	return offered;
}

#define QUIET ".visible .entry a() { ret; } // and nothing at all that anybody would have to be shown"
#define PRINTS ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a); .visible .entry a() { ret; }"

/* ---- tests ---- */

static int offer(void)
{
	worker_fences_offer(&session);
	return is_offered();
}

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
		assert_int_equal(in_child(offer), without == 0);
	}
	setup(NULL);
}

static int load_texts(void)
{
	worker_fences_offer(&session);
	look_at(QUIET, sizeof(QUIET));
	if (!is_offered())
		return 1;
	look_at(PRINTS, sizeof(PRINTS));
	if (is_offered())
		return 2;
	/* For ever: what was loaded may stay. */
	look_at(QUIET, sizeof(QUIET));
	return is_offered() ? 3 : 0;
}

static void text(void **state)
{
	assert_int_equal(in_child(load_texts), 0);
}

static int load_slowly(void)
{
	worker_fences_offer(&session);
	may_look = false;
	for (int i = 0; i < 50; i++)
		load(image.bytes, image.used);
	/* No image has been searched yet. */
	if (is_offered())
		return 1;
	may_look = true;
	while (kept)
		nap();
	if (!is_offered())
		return 2;
	/* More than can wait are looked at by who loads them. */
	may_look = false;
	load(image.bytes, image.used);
	begin();
	add_text(PTX, 75, 0, QUIET);
	for (int i = 0; i < 100; i++)
		load(image.bytes, image.used);
	if (kept > 64 || is_offered())
		return 3;
	may_look = true;
	while (kept)
		nap();
	return is_offered() ? 0 : 4;
}

/* A finding of another load stays. */
static int load_beside(void)
{
	worker_fences_offer(&session);
	may_look = false;
	load(image.bytes, image.used);
	nap();
	load(PRINTS, sizeof(PRINTS));
	may_look = true;
	while (kept)
		nap();
	return is_offered();
}

static void meanwhile(void **state)
{
	begin();
	add_text(ELF, 90, 0, QUIET);
	assert_int_equal(in_child(load_slowly), 0);
	assert_int_equal(in_child(load_beside), 0);
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

/* Code that cannot be read may print. */
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

static int load_large(void)
{
	static char code[2u << 20];

	worker_fences_offer(&session);
	memset(code, ' ', sizeof(code));
	load(code, sizeof(code));
	if (!is_offered() || kept)
		return 1;
	memcpy(code + sizeof(code) - sizeof(PRINTS), PRINTS, sizeof(PRINTS));
	load(code, sizeof(code));
	return is_offered() ? 2 : 0;
}

/* Large images are not kept for later. */
static void large(void **state)
{
	assert_int_equal(in_child(load_large), 0);
}

static int load_twice(void)
{
	int first = load_image();

	look_at(image.bytes, image.used);
	return first == 1 ? is_offered() : 2;
}

/* Much code is not unpacked, that of all images together. */
static void much(void **state)
{
	char *code = calloc(1, 3u << 20);

	assert_non_null(code);
	begin();
	add(PTX, 75, ZSTD, code, 3u << 20);
	assert_int_equal(in_child(load_twice), 0);
	free(code);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(offers),     cmocka_unit_test(text),       cmocka_unit_test(meanwhile),
		cmocka_unit_test(containers), cmocka_unit_test(unreadable), cmocka_unit_test(large),
		cmocka_unit_test(much),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
