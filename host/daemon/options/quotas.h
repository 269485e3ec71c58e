/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The quotas of vcudad by name: one table for the command line, the control socket and the log. A quota's value is a
 * member of struct daemon_options, which is read where the quota is enforced, so that a change holds from then on.
 *
 * A new quota is one line of the table in quotas.c, one of the enumeration, and its use in control-status.c.
 */
#ifndef VCUDA_QUOTAS_H
#define VCUDA_QUOTAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options/options.h"

enum daemon_quota {
	DAEMON_QUOTA_CONTEXTS,
	DAEMON_QUOTA_PINNED,
	DAEMON_QUOTA_HOST_MEMORY,
	DAEMON_QUOTA_DEVICE_MEMORY,
	DAEMON_QUOTA_PROCESS_DEVICE_MEMORY,
	DAEMON_QUOTA_STREAMS,
	DAEMON_QUOTA_HANDLES,
	DAEMON_QUOTA_QUEUED,
	DAEMON_QUOTA_QUEUED_COMMANDS,
	DAEMON_QUOTA_MODULE_BYTES,
	DAEMON_QUOTA_COMPILE_TIME,
	DAEMON_QUOTA_COMPILE_MEMORY,
	DAEMON_QUOTA_KERNEL_TIME,
	DAEMON_QUOTA_EXPORTS,
	DAEMON_QUOTAS
};

struct daemon_quota_kind {
	const char *name; /* of the option, without "--" */
	bool is_size;     /* in bytes; else a number */
	uint64_t least, most;
	size_t offset; /* of the uint64_t in struct daemon_options */
};

const struct daemon_quota_kind *daemon_quota_kind(enum daemon_quota quota);

/* DAEMON_QUOTAS: there is none of that name. */
enum daemon_quota daemon_quota_find(const char *name);

uint64_t daemon_quota_get(const struct daemon_options *options, enum daemon_quota quota);

/* `value` as on the command line. False: it is none; the quota stays, and daemon_quota_range() says what is one. */
bool daemon_quota_set(struct daemon_options *options, enum daemon_quota quota, const char *value);
void daemon_quota_range(enum daemon_quota quota, char *text, size_t size);

/* Counts a guest process, or a request of one, that the quota refused. */
void daemon_quota_refuse(enum daemon_quota quota);
uint64_t daemon_quota_refusals(enum daemon_quota quota);

/* A decimal number, with K, M, G or T behind it for a size. False: it is none, or above INT64_MAX. */
bool daemon_parse_number(const char *text, uint64_t *value);
bool daemon_parse_size(const char *text, uint64_t *value);

#endif
