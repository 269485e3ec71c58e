/* SPDX-License-Identifier: Apache-2.0 */
#include "options/quotas.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/ipc/ledger.h"

#define DAEMON_CONTEXTS_MAX 1024
#define DAEMON_EXPORTS_MAX (1 << 18)

static const struct daemon_quota_kind kinds[DAEMON_QUOTAS] = {
	[DAEMON_QUOTA_CONTEXTS] = {"max-contexts", false, 1, DAEMON_CONTEXTS_MAX,
				   offsetof(struct daemon_options, max_contexts)},
	[DAEMON_QUOTA_PINNED] = {"max-pinned", true, 0, INT64_MAX, offsetof(struct daemon_options, max_pinned)},
	[DAEMON_QUOTA_HOST_MEMORY] = {"max-host-memory", true, 0, INT64_MAX,
				      offsetof(struct daemon_options, max_host_memory)},
	[DAEMON_QUOTA_DEVICE_MEMORY] = {"max-device-memory", true, 0, VCUDA_LEDGER_NO_LIMIT,
					offsetof(struct daemon_options, max_device_memory)},
	[DAEMON_QUOTA_PROCESS_DEVICE_MEMORY] = {"max-process-device-memory", true, 0, VCUDA_LEDGER_NO_LIMIT,
						offsetof(struct daemon_options, max_process_device_memory)},
	[DAEMON_QUOTA_STREAMS] = {"max-streams", false, 1, VCUDA_LEDGER_STREAMS_DEFAULT,
				  offsetof(struct daemon_options, max_streams)},
	[DAEMON_QUOTA_HANDLES] = {"max-handles", false, 1, VCUDA_LEDGER_HANDLES_DEFAULT,
				  offsetof(struct daemon_options, max_handles)},
	[DAEMON_QUOTA_QUEUED] = {"max-queued", true, 0, INT64_MAX, offsetof(struct daemon_options, max_queued)},
	[DAEMON_QUOTA_QUEUED_COMMANDS] = {"max-queued-commands", false, 1, INT_MAX,
					  offsetof(struct daemon_options, max_queued_commands)},
	[DAEMON_QUOTA_MODULE_BYTES] = {"max-module-bytes", true, 0, INT64_MAX,
				       offsetof(struct daemon_options, max_module_bytes)},
	[DAEMON_QUOTA_COMPILE_TIME] = {"max-compile-time", false, 1, INT_MAX,
				       offsetof(struct daemon_options, max_compile_time)},
	[DAEMON_QUOTA_COMPILE_MEMORY] = {"max-compile-memory", true, 0, INT64_MAX,
					 offsetof(struct daemon_options, max_compile_memory)},
	[DAEMON_QUOTA_KERNEL_TIME] = {"max-kernel-time", false, 1, VCUDA_LEDGER_NO_LIMIT,
				      offsetof(struct daemon_options, max_kernel_time)},
	[DAEMON_QUOTA_EXPORTS] = {"max-exports", false, 0, DAEMON_EXPORTS_MAX,
				  offsetof(struct daemon_options, max_exports)},
};

static uint64_t refusals[DAEMON_QUOTAS];

const struct daemon_quota_kind *daemon_quota_kind(enum daemon_quota quota)
{
	return &kinds[quota];
}

enum daemon_quota daemon_quota_find(const char *name)
{
	enum daemon_quota quota = 0;

	while (quota < DAEMON_QUOTAS && strcmp(kinds[quota].name, name))
		quota++;
	return quota;
}

static uint64_t *place(struct daemon_options *options, enum daemon_quota quota)
{
	return (uint64_t *)((char *)options + kinds[quota].offset);
}

uint64_t daemon_quota_get(const struct daemon_options *options, enum daemon_quota quota)
{
	return *place((struct daemon_options *)options, quota);
}

bool daemon_quota_set(struct daemon_options *options, enum daemon_quota quota, const char *value)
{
	const struct daemon_quota_kind *kind = &kinds[quota];
	uint64_t parsed;

	if (!(kind->is_size ? daemon_parse_size(value, &parsed) : daemon_parse_number(value, &parsed)) ||
	    parsed < kind->least || parsed > kind->most)
		return false;
	*place(options, quota) = parsed;
	return true;
}

void daemon_quota_range(enum daemon_quota quota, char *text, size_t size)
{
	const struct daemon_quota_kind *kind = &kinds[quota];

	if (kind->is_size)
		snprintf(text, size, "a size such as 512M or 8G");
	else
		snprintf(text, size, "a number from %llu to %llu", (unsigned long long)kind->least,
			 (unsigned long long)kind->most);
}

void daemon_quota_refuse(enum daemon_quota quota)
{
	refusals[quota]++;
}

uint64_t daemon_quota_refusals(enum daemon_quota quota)
{
	return refusals[quota];
}

/* Returns what is behind the digits; NULL: there is no number. */
static const char *parse_digits(const char *text, uint64_t *value)
{
	char *end;

	if (*text < '0' || *text > '9')
		return NULL;
	errno = 0;
	*value = strtoull(text, &end, 10);
	return errno || *value > INT64_MAX ? NULL : end;
}

bool daemon_parse_number(const char *text, uint64_t *value)
{
	const char *end = parse_digits(text, value);

	return end && !*end;
}

bool daemon_parse_size(const char *text, uint64_t *value)
{
	static const char units[] = "KMGT";
	const char *end = parse_digits(text, value), *unit;
	unsigned int shift;

	if (!end || !*end)
		return end;
	unit = strchr(units, *end & ~0x20);
	if (!unit || !*unit || end[1])
		return false;
	shift = 10 * ((unsigned int)(unit - units) + 1);
	if (*value > (uint64_t)INT64_MAX >> shift)
		return false;
	*value <<= shift;
	return true;
}
