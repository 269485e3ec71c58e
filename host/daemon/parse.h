/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control requests of the guest's kernel: checked, and their extents turned from guest-physical memory into ranges of
 * the files that back it. Parsing has no side effects, so it is easy to fuzz.
 */
#ifndef VCUDA_PARSE_H
#define VCUDA_PARSE_H

#include <stddef.h>
#include <stdint.h>

#include "protocol/ipc/channel.h"
#include "protocol/control.h"
#include "memory.h"

#define DAEMON_REQUEST_MAX (sizeof(struct vcuda_ctl_request) + VCUDA_MAX_EXTENTS * sizeof(struct vcuda_extent))
#define DAEMON_MAPPING_MAX (1ull << 40)
#define DAEMON_SHARED_MAX (4ull << 20)

struct daemon_parsed {
	struct vcuda_ctl_request request;
	uint64_t bytes; /* of all extents */
	uint64_t first; /* guest-physical address of the first extent; 0: there is none */
	unsigned int count;
	struct vcuda_channel_extent extents[VCUDA_CHANNEL_MAX_EXTENTS]; /* region: the index in memory->files */
};

/*
 * 0 or -errno, which is what the guest is told. -EINVAL: malformed, with out->request valid where there was one at all;
 * -EOPNOTSUPP: a type that this version does not know; -EFAULT: an extent is not RAM.
 */
int daemon_parse(const void *bytes, size_t length, const struct daemon_memory *memory, struct daemon_parsed *out);

#endif
