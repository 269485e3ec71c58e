/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct copies in the worker: files in place of a VM's RAM, and a back end that notes what it is asked for. Ranges and
 * copies as a hostile guest names them, registrations that fail, and the end of the context that they are in.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/worker/memory/direct.h"
#include "protocol/handlers.h"
#include "host/worker/memory/ram.h"
#include "host/worker/session/command.h"
#include "host/worker/session/session.h"

#define PAGE 4096ull
#define MIB (1ull << 20)
#define FILES 2
#define RANGE 0x7f0000000000ull

static const uint64_t file_bytes[FILES] = {600 * MIB, 64 * MIB};

/* ---- the back end ---- */

static struct {
	pthread_mutex_t lock;
	CUresult registers, copies, waits; /* results of these calls; `copies` from copy `fails_at` on */
	unsigned int fails_at;
	unsigned int registered, issued, waited, events;
	uint64_t registered_bytes, largest;
	_Atomic bool slow;
	bool only_notes; /* copies nothing */
	_Atomic bool asked; /* to register */
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __thread CUcontext current;
static struct worker_session session;

static CUresult set_current(CUcontext context)
{
	current = context;
	return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *context)
{
	*context = current;
	return CUDA_SUCCESS;
}

static CUresult host_register(void *p, size_t bytes, unsigned int flags)
{
	CUresult result;

	while (fake.slow)
		usleep(1000);
	assert_non_null(current);
	fake.asked = true;
	assert_int_equal(flags, CU_MEMHOSTREGISTER_PORTABLE);
	assert_int_equal((uintptr_t)p / WORKER_RAM_PIECE, ((uintptr_t)p + bytes - 1) / WORKER_RAM_PIECE);
	pthread_mutex_lock(&fake.lock);
	result = fake.registers;
	if (result == CUDA_SUCCESS) {
		fake.registered++;
		fake.registered_bytes += bytes;
	}
	pthread_mutex_unlock(&fake.lock);
	return result;
}

static CUresult note(const void *memory, size_t bytes)
{
	assert_true(bytes > 0);
	assert_int_equal((uintptr_t)memory / WORKER_RAM_PIECE, ((uintptr_t)memory + bytes - 1) / WORKER_RAM_PIECE);
	if (fake.copies != CUDA_SUCCESS && fake.issued >= fake.fails_at)
		return fake.copies;
	fake.issued++;
	fake.largest = bytes > fake.largest ? bytes : fake.largest;
	return CUDA_SUCCESS;
}

static CUresult copy_in(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	CUresult result = note(from, bytes);

	if (result == CUDA_SUCCESS && !fake.only_notes)
		memcpy((void *)(uintptr_t)to, from, bytes);
	return result;
}

static CUresult copy_out(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	CUresult result = note(to, bytes);

	if (result == CUDA_SUCCESS)
		memcpy(to, (const void *)(uintptr_t)from, bytes);
	return result;
}

static CUresult event_create(CUevent *event, unsigned int flags)
{
	fake.events++;
	*event = (CUevent)&fake;
	return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent event)
{
	fake.events--;
	return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream, unsigned int flags)
{
	return CUDA_SUCCESS;
}

static CUresult event_wait(CUevent event)
{
	fake.waited++;
	return fake.waits;
}

static CUresult stream_wait(CUstream stream)
{
	fake.waited++;
	return fake.waits;
}

static const struct vcuda_backend_ops ops = {
	.cuCtxSetCurrent = set_current,
	.cuCtxGetCurrent = get_current,
	.cuMemHostRegister_v2 = host_register,
	.cuMemcpyHtoDAsync_v2 = copy_in,
	.cuMemcpyDtoHAsync_v2 = copy_out,
	.cuEventCreate = event_create,
	.cuEventDestroy_v2 = event_destroy,
	.cuEventRecordWithFlags = event_record,
	.cuEventSynchronize = event_wait,
	.cuStreamSynchronize = stream_wait,
};

/* A replacement of a function that stage-events.c calls. */
uint64_t worker_command_context(void)
{
	return (uintptr_t)current;
}

/* ---- */

static int files[FILES];
static char *views[FILES]; /* of ours, beside the worker's */

static void set_up_ram(void)
{
	for (int i = 0; i < FILES; i++) {
		files[i] = memfd_create("ram", MFD_CLOEXEC);
		assert_int_equal(ftruncate(files[i], (off_t)file_bytes[i]), 0);
		views[i] = mmap(NULL, file_bytes[i], PROT_READ | PROT_WRITE, MAP_SHARED, files[i], 0);
		assert_true(views[i] != MAP_FAILED);
	}
}

static bool is_ready(void)
{
	struct vcuda_args_vcudaDirectReady a = {.ready = -1};

	assert_int_equal(vcuda_handle_vcudaDirectReady(&session, &a), CUDA_SUCCESS);
	return a.ready;
}

static void await_ready(void)
{
	for (int i = 0; i < 600000 && !is_ready(); i++)
		usleep(1000);
	assert_true(is_ready());
}

static CUresult copy(void *device, uint64_t host, uint64_t bytes, bool to_device)
{
	struct vcuda_args_vcudaCopyDirect a = {(uintptr_t)device, host, to_device, bytes, NULL};

	return vcuda_handle_vcudaCopyDirect(&session, &a);
}

static int map(uint64_t address, bool writable, const struct vcuda_channel_extent *extents, unsigned int count)
{
	uint64_t length = 0;

	for (unsigned int i = 0; i < count; i++)
		length += extents[i].length;
	return worker_direct_map(address, length, 0, writable, true, extents, count);
}

static void test_not_wanted(void **state)
{
	const struct vcuda_channel_extent page = {0, 0, 0, PAGE};
	char device[16];

	assert_false(is_ready());
	assert_int_equal(map(RANGE, true, &page, 1), -EOPNOTSUPP);
	assert_int_equal(copy(device, RANGE, 16, true), CUDA_ERROR_INVALID_VALUE);
	worker_ram_want();
	assert_false(is_ready());
	assert_int_equal(map(RANGE, true, &page, 1), -EINVAL);
	worker_ram_files(files, FILES);
}

/* A registration that fails is not tried again in that context; in the next it is. */
static void test_register_fails(void **state)
{
	CUcontext context = current;

	fake.registers = CUDA_ERROR_OUT_OF_MEMORY;
	for (int i = 0; i < 50; i += fake.asked) {
		assert_false(is_ready());
		usleep(1000);
	}
	fake.registers = CUDA_SUCCESS;
	assert_false(is_ready());
	worker_ram_close(context);
	worker_ram_reopen(context, true);
	current = (CUcontext)2;
	await_ready();
	assert_int_equal(fake.registered_bytes, file_bytes[0] + file_bytes[1]);
	assert_true(fake.registered >= 4);
}

static void test_extents(void **state)
{
	const struct vcuda_channel_extent good = {0, 0, 0, 2 * PAGE};
	const struct vcuda_channel_extent bad[] = {
		{FILES, 0, 0, PAGE},
		{~0u, 0, 0, PAGE},
		{0, 0, file_bytes[0], PAGE},
		{0, 0, file_bytes[0] - PAGE, 2 * PAGE},
		{0, 0, 0, file_bytes[0] * 2},
		{1, 0, -PAGE, PAGE},
		{1, 0, -PAGE, 2 * PAGE},
		{1, 0, 8, PAGE},
		{1, 0, 0, 8},
		{1, 0, 0, 0},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct vcuda_channel_extent both[2] = {good, bad[i]};

		assert_true(worker_direct_map(RANGE, bad[i].length ? bad[i].length : PAGE, 0, true, true, &bad[i], 1) <
			    0);
		assert_true(worker_direct_map(RANGE, 2 * PAGE + bad[i].length, 0, true, true, both, 2) < 0);
		assert_int_equal(worker_direct_unmap(RANGE, 2 * PAGE), -ENOENT);
	}
	/* Not as long as it says, or longer; over the end of all addresses. */
	assert_int_equal(worker_direct_map(RANGE, PAGE, 0, true, true, &good, 1), -EINVAL);
	assert_int_equal(worker_direct_map(RANGE, 4 * PAGE, 0, true, true, &good, 1), -EINVAL);
	assert_int_equal(worker_direct_map(RANGE, 2 * PAGE, 0, true, false, &good, 1), -EINVAL);
	assert_int_equal(worker_direct_map(-PAGE, 2 * PAGE, 0, true, true, &good, 1), -EINVAL);
	assert_int_equal(worker_direct_map(RANGE, 4 * PAGE, 2 * PAGE, true, true, &good, 1), -EINVAL);
	/* In parts, of one kind. */
	assert_int_equal(worker_direct_map(RANGE, 4 * PAGE, 0, true, false, &good, 1), 0);
	assert_int_equal(copy(views[0], RANGE, PAGE, true), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(worker_direct_map(RANGE, 4 * PAGE, 2 * PAGE, false, true, &good, 1), -EINVAL);
	assert_int_equal(worker_direct_map(RANGE, 4 * PAGE, 2 * PAGE, true, true, &good, 1), 0);
	assert_int_equal(worker_direct_map(RANGE, 4 * PAGE, 2 * PAGE, true, true, &good, 1), -EINVAL);
	assert_int_equal(map(RANGE + 3 * PAGE, true, &good, 1), -EEXIST);
	assert_int_equal(worker_direct_unmap(RANGE, 2 * PAGE), -ENOENT);
	assert_int_equal(worker_direct_unmap(RANGE + PAGE, 3 * PAGE), -ENOENT);
	assert_int_equal(worker_direct_unmap(RANGE, 4 * PAGE), 0);
}

/* Runs out of order, of both files, neighbours, and over borders of what is registered by itself. */
static const struct vcuda_channel_extent scattered[] = {
	{1, 0, 8 * MIB, 2 * MIB},    {0, 0, 0, 300 * MIB},        {0, 0, 300 * MIB, 260 * MIB},  {1, 0, 0, PAGE},
	{1, 0, 12 * PAGE, 3 * PAGE}, {0, 0, 590 * MIB, 10 * MIB}, {1, 0, 64 * MIB - PAGE, PAGE},
};

#define SCATTERED (sizeof(scattered) / sizeof(*scattered))

static uint64_t scattered_bytes(void)
{
	uint64_t length = 0;

	for (size_t i = 0; i < SCATTERED; i++)
		length += scattered[i].length;
	return length;
}

/* The byte of RAM that an offset in the range is. */
static char *byte_of(uint64_t offset)
{
	const struct vcuda_channel_extent *e = scattered;

	for (; offset >= e->length; e++)
		offset -= e->length;
	return views[e->region] + e->offset + offset;
}

static void test_contents(void **state)
{
	uint64_t length = scattered_bytes(),
		 starts[] = {0, 1, 2 * MIB - 5, 255 * MIB, 300 * MIB - 1, 562 * MIB - 100, 562 * MIB + 3 * PAGE};

	assert_int_equal(map(RANGE, true, scattered, SCATTERED), 0);
	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
		uint64_t bytes = length - starts[i] < 9 * MIB ? length - starts[i] : 9 * MIB;
		char *device = malloc(bytes + 1);

		device[bytes] = 'x';
		for (uint64_t at = 0; at < bytes; at += 97)
			*byte_of(starts[i] + at) = (char)(at + i);
		assert_int_equal(copy(device, RANGE + starts[i], bytes, true), CUDA_SUCCESS);
		for (uint64_t at = 0; at < bytes; at += 97)
			assert_int_equal(device[at], (char)(at + i));
		for (uint64_t at = 0; at < bytes; at += 89)
			device[at] = (char)(at * 3 + i);
		assert_int_equal(copy(device, RANGE + starts[i], bytes, false), CUDA_SUCCESS);
		for (uint64_t at = 0; at < bytes; at += 89)
			assert_int_equal(*byte_of(starts[i] + at), (char)(at * 3 + i));
		assert_int_equal(device[bytes], 'x');
		free(device);
	}
	assert_int_equal(worker_direct_unmap(RANGE, length), 0);
}

/* Neighbours are one copy, but where registrations meet. */
static void test_merges(void **state)
{
	struct vcuda_channel_extent pages[512];
	char *device = malloc(512 * PAGE);

	for (unsigned int i = 0; i < 512; i++)
		pages[i] = (struct vcuda_channel_extent){1, 0, i * PAGE, PAGE};
	assert_int_equal(map(RANGE, true, pages, 512), 0);
	fake.issued = 0;
	fake.largest = 0;
	assert_int_equal(copy(device, RANGE, 512 * PAGE, true), CUDA_SUCCESS);
	assert_true(fake.issued <= 2 && fake.largest >= 256 * PAGE);
	assert_int_equal(worker_direct_unmap(RANGE, 512 * PAGE), 0);
	free(device);
	/* note() looks at each. */
	assert_int_equal(map(RANGE, true, scattered, SCATTERED), 0);
	fake.only_notes = true;
	fake.issued = 0;
	assert_int_equal(copy(NULL, RANGE, scattered_bytes(), true), CUDA_SUCCESS);
	fake.only_notes = false;
	/* Two of the runs are neighbours; 560 MiB have two or three borders. */
	assert_in_range(fake.issued, SCATTERED - 1 + 2, SCATTERED - 1 + 5);
	assert_int_equal(worker_direct_unmap(RANGE, scattered_bytes()), 0);
}

/* A copy that is not within one range, or not allowed in it, is refused before anything is copied. */
static void test_hostile_copies(void **state)
{
	const struct vcuda_channel_extent extents[2] = {{1, 0, 0, 4 * PAGE}, {1, 0, 16 * PAGE, 4 * PAGE}};
	const uint64_t sizes[] = {0, 4 * PAGE + 1, -PAGE, 1ull << 63, ~0ull};
	char device[2 * PAGE];

	assert_int_equal(map(RANGE, false, &extents[0], 1), 0);
	assert_int_equal(map(RANGE + 4 * PAGE, true, &extents[1], 1), 0);
	fake.issued = 0;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		assert_int_equal(copy(device, RANGE, sizes[i], true), CUDA_ERROR_INVALID_VALUE);
	/* Over two ranges, before, behind; only to be read. */
	assert_int_equal(copy(device, RANGE + 4 * PAGE - 1, 2, true), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(copy(device, RANGE - 1, 2, true), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(copy(device, RANGE + 8 * PAGE - 1, 2, true), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(copy(device, RANGE + 8 * PAGE, 1, true), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(copy(device, (uintptr_t)views[0], 1, true), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(copy(device, 0, 1, true), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(copy(device, RANGE, 16, false), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(fake.issued, 0);
	assert_int_equal(copy(device, RANGE, 16, true), CUDA_SUCCESS);
	assert_int_equal(copy(device, RANGE + 4 * PAGE, 16, false), CUDA_SUCCESS);
	assert_int_equal(worker_direct_unmap(RANGE, 4 * PAGE), 0);
	assert_int_equal(copy(device, RANGE, 16, true), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(worker_direct_unmap(RANGE + 4 * PAGE, 4 * PAGE), 0);
}

/* A copy that fails half-way is waited for; what cannot be waited for keeps its pages. */
static void test_failing_copies(void **state)
{
	const struct vcuda_channel_extent extents[3] = {
		{1, 0, 0, PAGE}, {1, 0, 8 * PAGE, PAGE}, {1, 0, 4 * PAGE, PAGE}};
	char device[3 * PAGE];

	assert_int_equal(map(RANGE, true, extents, 3), 0);
	fake.copies = CUDA_ERROR_INVALID_VALUE;
	for (unsigned int at = 0; at < 3; at++) {
		fake.issued = fake.waited = 0;
		fake.fails_at = at;
		assert_int_equal(copy(device, RANGE, 3 * PAGE, true), CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(fake.issued, at);
		assert_int_equal(fake.waited, at > 0);
	}
	fake.copies = CUDA_SUCCESS;
	assert_int_equal(worker_direct_unmap(RANGE, 3 * PAGE), 0);
	assert_int_equal(map(RANGE, true, extents, 3), 0);
	fake.waits = CUDA_ERROR_ILLEGAL_ADDRESS;
	assert_int_equal(copy(device, RANGE, 3 * PAGE, true), CUDA_ERROR_ILLEGAL_ADDRESS);
	fake.waits = CUDA_SUCCESS;
	assert_int_equal(worker_direct_unmap(RANGE, 3 * PAGE), -EBUSY);
	assert_int_equal(copy(device, RANGE, 3 * PAGE, true), CUDA_SUCCESS);
	assert_int_equal(worker_direct_unmap(RANGE, 3 * PAGE), -EBUSY);
}

static void test_held(void **state)
{
	const struct vcuda_channel_extent page = {1, 0, 0, PAGE};
	struct worker_direct *first, *second;

	assert_int_equal(map(RANGE + MIB, true, &page, 1), 0);
	first = worker_direct_hold(RANGE + MIB, PAGE, true);
	second = worker_direct_hold(RANGE + MIB + 8, 8, false);
	assert_true(first && first == second);
	worker_direct_release(first);
	assert_int_equal(worker_direct_unmap(RANGE + MIB, PAGE), -EBUSY);
	worker_direct_release(second);
	assert_int_equal(worker_direct_unmap(RANGE + MIB, PAGE), 0);
}

static void *close_it(void *done)
{
	worker_ram_close((CUcontext)2);
	*(_Atomic bool *)done = true;
	return NULL;
}

/* The context of the registration ends: not under a copy, and not while more is registered in it. */
static void test_context_ends(void **state)
{
	const struct vcuda_channel_extent page = {1, 0, 0, PAGE};
	static _Atomic bool done;
	unsigned int before = fake.registered;
	pthread_t thread;
	char device[8];

	assert_int_equal(map(RANGE + MIB, true, &page, 1), 0);
	assert_true(worker_ram_use());
	assert_int_equal(pthread_create(&thread, NULL, close_it, &done), 0);
	usleep(50000);
	assert_false(done);
	assert_false(worker_ram_use());
	worker_ram_leave();
	pthread_join(thread, NULL);
	assert_int_equal(copy(device, RANGE + MIB, 8, true), CUDA_ERROR_NOT_READY);
	/* The context did not end after all: its registrations stay. */
	worker_ram_reopen((CUcontext)2, false);
	assert_true(is_ready());
	assert_int_equal(fake.registered, before);
	/* The end of another context does not affect them. */
	worker_ram_close((CUcontext)7);
	worker_ram_reopen((CUcontext)7, true);
	assert_int_equal(copy(device, RANGE + MIB, 8, true), CUDA_SUCCESS);
	close_it(&done);
	worker_ram_reopen((CUcontext)2, true);
	assert_int_equal(copy(device, RANGE + MIB, 8, true), CUDA_ERROR_NOT_READY);
	current = (CUcontext)3;
	fake.slow = true;
	assert_false(is_ready());
	usleep(20000);
	assert_int_equal(copy(device, RANGE + MIB, 8, true), CUDA_ERROR_NOT_READY);
	fake.slow = false;
	/* Stopped after a piece, and gone on with: each piece is registered once. */
	worker_ram_close((CUcontext)3);
	worker_ram_reopen((CUcontext)3, false);
	await_ready();
	assert_int_equal(fake.registered, 2 * before);
	assert_int_equal(copy(device, RANGE + MIB, 8, true), CUDA_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_not_wanted),     cmocka_unit_test(test_register_fails),
		cmocka_unit_test(test_extents),        cmocka_unit_test(test_contents),
		cmocka_unit_test(test_merges),         cmocka_unit_test(test_hostile_copies),
		cmocka_unit_test(test_failing_copies), cmocka_unit_test(test_held),
		cmocka_unit_test(test_context_ends),
	};

	session.ops = &ops;
	current = (CUcontext)1;
	set_up_ram();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
