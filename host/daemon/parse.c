/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "parse.h"
#include "ring/ring.h"

#define DAEMON_ADDRESS_END (1ull << 47)

static bool aligned(uint64_t value, unsigned int shift)
{
	return !(value & ((1ull << shift) - 1));
}

/* One extent, cut where regions meet: two of the VMM's memory back ends may be neighbours in the guest. */
static int translate(const struct daemon_memory *memory, struct vcuda_extent extent, struct daemon_parsed *out)
{
	while (extent.length) {
		const struct daemon_memory_region *region = daemon_memory_find(memory, extent.gpa);
		uint64_t offset, part;

		if (!region)
			return -EFAULT;
		offset = extent.gpa - region->gpa;
		part = extent.length < region->size - offset ? extent.length : region->size - offset;
		if (!aligned(region->file_offset + offset, memory->page_shift) || !aligned(part, memory->page_shift))
			return -EINVAL;
		if (out->count == VCUDA_CHANNEL_MAX_EXTENTS)
			return -E2BIG;
		out->extents[out->count++] = (struct vcuda_channel_extent){
			.region = region->file, .offset = region->file_offset + offset, .length = part};
		extent.gpa += part;
		extent.length -= part;
	}
	return 0;
}

static int parse_extents(const uint8_t *bytes, const struct daemon_memory *memory, struct daemon_parsed *out)
{
	uint32_t i;

	for (i = 0; i < out->request.extents; i++) {
		struct vcuda_extent extent;
		int status;

		memcpy(&extent, bytes + i * sizeof(extent), sizeof(extent));
		out->first = i ? out->first : extent.gpa;
		if (!extent.length || !aligned(extent.gpa | extent.length, memory->page_shift) ||
		    __builtin_add_overflow(out->bytes, extent.length, &out->bytes) || out->bytes > DAEMON_MAPPING_MAX)
			return -EINVAL;
		status = translate(memory, extent, out);
		if (status)
			return status;
	}
	return 0;
}

static int check_create(const struct daemon_parsed *p)
{
	return p->bytes >= VCUDA_SHM_BYTES_0 && p->bytes <= DAEMON_SHARED_MAX ? 0 : -EINVAL;
}

/* Each by itself is at most DAEMON_MAPPING_MAX or DAEMON_ADDRESS_END, so that no sum can overflow. */
static int check_mapping(const struct vcuda_ctl_request *r, unsigned int page_shift)
{
	if (!r->address || r->address >= DAEMON_ADDRESS_END || !r->length || r->length > DAEMON_MAPPING_MAX ||
	    r->address + r->length > DAEMON_ADDRESS_END || !aligned(r->address | r->length, page_shift))
		return -EINVAL;
	return 0;
}

static int check_map(const struct daemon_parsed *p, unsigned int page_shift)
{
	const struct vcuda_ctl_request *r = &p->request;
	bool last = r->flags & VCUDA_MAP_LAST;

	if (check_mapping(r, page_shift) || !p->count ||
	    r->flags & ~(VCUDA_MAP_WRITABLE | VCUDA_MAP_LAST | VCUDA_MAP_DIRECT) || r->offset >= r->length ||
	    p->bytes > r->length - r->offset)
		return -EINVAL;
	return last == (r->offset + p->bytes == r->length) ? 0 : -EINVAL;
}

int daemon_parse(const void *bytes, size_t length, const struct daemon_memory *memory, struct daemon_parsed *out)
{
	struct vcuda_ctl_request *r = &out->request;
	int status;

	memset(r, 0, sizeof(*r));
	out->bytes = 0;
	out->first = 0;
	out->count = 0;
	if (length < sizeof(*r))
		return -EINVAL;
	memcpy(r, bytes, sizeof(*r));
	if (r->type < VCUDA_CTL_HELLO || r->type > VCUDA_CTL_DROP)
		return -EOPNOTSUPP;
	if (r->extents > VCUDA_MAX_EXTENTS || length - sizeof(*r) != r->extents * sizeof(struct vcuda_extent) ||
	    (r->type != VCUDA_CTL_HELLO && !r->context))
		return -EINVAL;
	status = parse_extents((const uint8_t *)bytes + sizeof(*r), memory, out);
	if (status)
		return status;
	switch (r->type) {
	case VCUDA_CTL_CREATE:
		return check_create(out);
	case VCUDA_CTL_MAP:
		return check_map(out, memory->page_shift);
	case VCUDA_CTL_UNMAP:
		return check_mapping(r, memory->page_shift);
	case VCUDA_CTL_STATE:
		return r->flags < VCUDA_PROCESS_ACTIONS && r->length <= VCUDA_PROCESS_MS_MAX && !r->extents ? 0 : -EINVAL;
	case VCUDA_CTL_HOLD:
	case VCUDA_CTL_DROP:
		return r->extents ? -EINVAL : 0;
	default:
		return 0;
	}
}
