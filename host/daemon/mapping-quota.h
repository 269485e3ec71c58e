/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context's ledger: the windows that its worker has or is getting, so that none overlaps another and quotas hold
 * whatever the worker answers. Direct ranges (VCUDA_MAP_DIRECT) are windows here.
 */
#ifndef VCUDA_MAPPING_QUOTA_H
#define VCUDA_MAPPING_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

struct vcuda_window {
	uint64_t address, length;
	uint64_t mapped; /* parts so far */
	uint64_t serial; /* of this device, never reused */
	uint32_t extents;
	bool writable, direct, complete;
	bool leaving; /* being unmapped */
};

/* What all windows of a device share. */
struct vcuda_quota {
	uint64_t pinned, max_pinned;
	uint32_t windows, max_windows;
	uint32_t max_extents; /* of one context: a worker's mappings are limited by vm.max_map_count */
	uint64_t next_serial;
};

struct vcuda_ledger {
	struct vcuda_quota *quota;    /* NULL once nothing is charged any more */
	struct vcuda_window *windows; /* sorted by address */
	uint32_t count, capacity;
	uint32_t extents;
};

struct vcuda_part {
	uint64_t address, length, offset, bytes;
	uint32_t extents;
	bool writable, direct, last;
};

void vcuda_ledger_init(struct vcuda_ledger *ledger, struct vcuda_quota *quota);

/* Gives back what is charged; the windows stay known. */
void vcuda_ledger_discharge(struct vcuda_ledger *ledger);
void vcuda_ledger_free(struct vcuda_ledger *ledger);

/*
 * Enters a part; the first one makes the window and charges all of its length. 0 and *serial, or -errno: -EEXIST
 * (overlaps), -ENOENT (a later part of nothing), -EINVAL (not the next part of that window), -EDQUOT (the VM's pinned
 * bytes or windows), -ENOMEM (too many extents, or no memory).
 */
int vcuda_ledger_enter(struct vcuda_ledger *ledger, const struct vcuda_part *part, uint64_t *serial);

/* The window of exactly this range, NULL if there is none. */
struct vcuda_window *vcuda_ledger_find(struct vcuda_ledger *ledger, uint64_t address, uint64_t length);

/* Strikes the window out if it is still there. */
void vcuda_ledger_strike(struct vcuda_ledger *ledger, uint64_t serial);

/* The worker would not unmap it after all. */
void vcuda_ledger_stay(struct vcuda_ledger *ledger, uint64_t serial);

#endif
