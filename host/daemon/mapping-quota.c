/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mapping-quota.h"

void vcuda_ledger_init(struct vcuda_ledger *ledger, struct vcuda_quota *quota)
{
	*ledger = (struct vcuda_ledger){.quota = quota};
}

void vcuda_ledger_discharge(struct vcuda_ledger *ledger)
{
	uint32_t i;

	if (!ledger->quota)
		return;
	for (i = 0; i < ledger->count; i++)
		ledger->quota->pinned -= ledger->windows[i].length;
	ledger->quota->windows -= ledger->count;
	ledger->quota = NULL;
}

void vcuda_ledger_free(struct vcuda_ledger *ledger)
{
	vcuda_ledger_discharge(ledger);
	free(ledger->windows);
	ledger->windows = NULL;
	ledger->count = ledger->capacity = 0;
}

/* The first window that ends behind `address`. */
static uint32_t position(const struct vcuda_ledger *ledger, uint64_t address)
{
	uint32_t low = 0, high = ledger->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct vcuda_window *window = &ledger->windows[middle];

		if (window->address + window->length <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int grow(struct vcuda_ledger *ledger)
{
	uint32_t capacity = ledger->capacity ? ledger->capacity * 2 : 8;
	struct vcuda_window *windows;

	if (ledger->count < ledger->capacity)
		return 0;
	windows = realloc(ledger->windows, capacity * sizeof(*windows));
	if (!windows)
		return -ENOMEM;
	ledger->windows = windows;
	ledger->capacity = capacity;
	return 0;
}

static int enter_first(struct vcuda_ledger *ledger, const struct vcuda_part *part, uint64_t *serial)
{
	struct vcuda_quota *quota = ledger->quota;
	uint32_t place = position(ledger, part->address);
	struct vcuda_window *window;

	if (place < ledger->count && ledger->windows[place].address < part->address + part->length)
		return -EEXIST;
	if (part->length > quota->max_pinned - quota->pinned || quota->windows == quota->max_windows)
		return -EDQUOT;
	if (grow(ledger))
		return -ENOMEM;
	window = &ledger->windows[place];
	memmove(window + 1, window, (ledger->count - place) * sizeof(*window));
	*window = (struct vcuda_window){.address = part->address,
					.length = part->length,
					.mapped = part->bytes,
					.serial = ++quota->next_serial,
					.extents = part->extents,
					.writable = part->writable,
					.direct = part->direct,
					.complete = part->last};
	ledger->count++;
	quota->pinned += part->length;
	quota->windows++;
	*serial = window->serial;
	return 0;
}

int vcuda_ledger_enter(struct vcuda_ledger *ledger, const struct vcuda_part *part, uint64_t *serial)
{
	struct vcuda_window *window;
	int status = 0;

	if (part->extents > ledger->quota->max_extents - ledger->extents)
		return -ENOMEM;
	if (!part->offset) {
		status = enter_first(ledger, part, serial);
	} else {
		window = vcuda_ledger_find(ledger, part->address, part->length);
		if (!window)
			return -ENOENT;
		if (window->leaving || window->complete || window->mapped != part->offset ||
		    window->writable != part->writable || window->direct != part->direct)
			return -EINVAL;
		window->mapped += part->bytes;
		window->extents += part->extents;
		window->complete = part->last;
		*serial = window->serial;
	}
	if (!status)
		ledger->extents += part->extents;
	return status;
}

struct vcuda_window *vcuda_ledger_find(struct vcuda_ledger *ledger, uint64_t address, uint64_t length)
{
	uint32_t place = position(ledger, address);
	struct vcuda_window *window = &ledger->windows[place];

	return place < ledger->count && window->address == address && window->length == length ? window : NULL;
}

void vcuda_ledger_strike(struct vcuda_ledger *ledger, uint64_t serial)
{
	uint32_t i;

	for (i = 0; i < ledger->count; i++) {
		struct vcuda_window *window = &ledger->windows[i];

		if (window->serial != serial)
			continue;
		ledger->extents -= window->extents;
		if (ledger->quota) {
			ledger->quota->pinned -= window->length;
			ledger->quota->windows--;
		}
		ledger->count--;
		memmove(window, window + 1, (ledger->count - i) * sizeof(*window));
		return;
	}
}

void vcuda_ledger_stay(struct vcuda_ledger *ledger, uint64_t serial)
{
	uint32_t i;

	for (i = 0; i < ledger->count; i++)
		if (ledger->windows[i].serial == serial)
			ledger->windows[i].leaving = false;
}
