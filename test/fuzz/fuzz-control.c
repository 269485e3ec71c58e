/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile bytes for vcudad's parser of control requests. The extents of an accepted request must be in the guest's
 * memory.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/daemon/parse.h"
#include "ring/ring.h"

#define LOW_SIZE (64ull << 20)
#define HIGH_START (4ull << 30)
#define HIGH_SIZE (64ull << 20)

static struct daemon_memory memory;
static struct daemon_parsed parsed;

static void set_up(void)
{
	int fd = memfd_create("ram", MFD_CLOEXEC);

	CHECK(fd >= 0 && !ftruncate(fd, (off_t)(LOW_SIZE + HIGH_SIZE)));
	daemon_memory_init(&memory);
	CHECK(!daemon_memory_add(&memory, 0, LOW_SIZE, 0x1000000000, 0, dup(fd)));
	CHECK(!daemon_memory_add(&memory, HIGH_START, HIGH_SIZE, 0x2000000000, LOW_SIZE, fd));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t bytes = 0;
	unsigned int i;

	if (!memory.count)
		set_up();
	if (daemon_parse(data, size, &memory, &parsed))
		return 0;
	CHECK(size == sizeof(parsed.request) + parsed.request.extents * sizeof(struct vcuda_extent));
	CHECK(parsed.count <= VCUDA_CHANNEL_MAX_EXTENTS);
	for (i = 0; i < parsed.count; i++) {
		const struct vcuda_channel_extent *e = &parsed.extents[i];

		CHECK(e->region < DAEMON_MEMORY_REGIONS && memory.files[e->region].fd >= 0);
		CHECK(e->length && e->length <= LOW_SIZE + HIGH_SIZE && e->offset <= LOW_SIZE + HIGH_SIZE - e->length);
		CHECK(!((e->offset | e->length) & 4095));
		bytes += e->length;
	}
	CHECK(bytes == parsed.bytes);
	if (parsed.request.type == VCUDA_CTL_CREATE)
		CHECK(bytes >= VCUDA_SHM_BYTES_0 && bytes <= DAEMON_SHARED_MAX);
	if (parsed.request.type == VCUDA_CTL_MAP)
		CHECK(parsed.request.offset + bytes <= parsed.request.length &&
		      parsed.request.address + parsed.request.length <= 1ull << 47);
	return 0;
}

static uint64_t state = 0x9e3779b97f4a7c15;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* A request that is right, with extents that now and then leave a region or cross into another. */
size_t fuzz_seed(unsigned int number, uint8_t *out, size_t room)
{
	struct vcuda_ctl_request r = {.context = 1 + next_random() % 4, .address = 0x7f0000000000, .major = 1};
	struct vcuda_extent extents[8];
	uint32_t i;

	state ^= number;
	r.type = 1 + (uint32_t)(next_random() % 5);
	if (r.type == VCUDA_CTL_CREATE || r.type == VCUDA_CTL_MAP)
		r.extents = 1 + (uint32_t)(next_random() % 8);
	for (i = 0; i < r.extents; i++) {
		extents[i].gpa = (next_random() % 2 ? HIGH_START : 0) + next_random() % 16000 * 4096;
		extents[i].length = (1 + next_random() % 16) * 4096;
		if (r.type == VCUDA_CTL_CREATE)
			extents[i].length = (VCUDA_SHM_BYTES / r.extents + 4095) / 4096 * 4096;
		r.length += extents[i].length;
	}
	r.flags = r.type == VCUDA_CTL_MAP ? VCUDA_MAP_LAST | (next_random() % 2 ? VCUDA_MAP_DIRECT : 0) : 0;
	if (r.type == VCUDA_CTL_UNMAP)
		r.length = 4096;
	memcpy(out, &r, sizeof(r));
	memcpy(out + sizeof(r), extents, r.extents * sizeof(extents[0]));
	return sizeof(r) + r.extents * sizeof(extents[0]);
}
